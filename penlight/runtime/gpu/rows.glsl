// Rows of a tensor (rows.h): a workgroup has COLUMNS rows at a time, 128 / COLUMNS threads for each, which share its elements and put
// what they found together through shared memory. dims: innermost first. The shader has the push constants rows, count, across,
// across_in, across_out, along, along_in.
layout(local_size_x = 128) in;
const uint SHARERS = 128 / COLUMNS;
uint column = gl_LocalInvocationID.x % COLUMNS, sharer = gl_LocalInvocationID.x / COLUMNS;

// for (FIRST_ROW; first < rows; NEXT_ROWS): all threads of a workgroup go round as often as each other
#define FIRST_ROW uint first = gl_WorkGroupID.x * COLUMNS
#define NEXT_ROWS first += gl_NumWorkGroups.x * COLUMNS

uint place(uint i, uint dims[4], uint strides[4]) {
  if (i < dims[0]) return i * strides[0];  // most tensors have one run of dims: no division then
  uint a = i / dims[0], b = a / dims[1], c = b / dims[2];
  return i % dims[0] * strides[0] + a % dims[1] * strides[1] + b % dims[2] * strides[2] + c * strides[3];
}
