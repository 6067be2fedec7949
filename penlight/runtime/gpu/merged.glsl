// Where element i of a tensor lies, of four dims that the push constants have merged, innermost first.
uint place(uint i, uint strides[4]) {
  uint at = (i % dims[0]) * strides[0];
  i /= dims[0];
  at += (i % dims[1]) * strides[1];
  i /= dims[1];
  return at + (i % dims[2]) * strides[2] + i / dims[2] * strides[3];
}
