// Divides each row of [rows, columns] by its length. The description gives one work item for each row.

#define COLUMNS INPUT0_DIMS[1]

// The hint vectorizes the loops over a row. Without it, Intel's driver vectorizes over rows, with slow gather loads.
__attribute__((vec_type_hint(float8)))
__kernel void RowNorm(const __global float* x, __global float* y) {
  const size_t row = get_global_id(0) * COLUMNS;
  float squares = EPSILON;
  for (int i = 0; i < COLUMNS; ++i) squares += x[row + i] * x[row + i];
  const float scale = rsqrt(squares);
  for (int i = 0; i < COLUMNS; ++i) y[row + i] = scale * x[row + i];
}
