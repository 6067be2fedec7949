// Where matrix number `batch` begins, of three dims of a batch, innermost first, of which the push constants have two sizes.
uint place(uint batch, uint strides[3]) {
  return batch % dims[0] * strides[0] + batch / dims[0] % dims[1] * strides[1] + batch / dims[0] / dims[1] * strides[2];
}
