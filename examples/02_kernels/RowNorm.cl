// Each row of [rows, columns] is divided by its length. One work item for each row, as the description says.

#define COLUMNS INPUT0_DIMS[1]

// The loops of a row become vectors, as the hint says; Intel's driver would join rows to vectors otherwise, and gather.
__attribute__((vec_type_hint(float8)))
__kernel void RowNorm(const __global float* x, __global float* y) {
  const size_t row = get_global_id(0) * COLUMNS;
  float squares = EPSILON;
  for (int i = 0; i < COLUMNS; ++i) squares += x[row + i] * x[row + i];
  const float scale = rsqrt(squares);
  for (int i = 0; i < COLUMNS; ++i) y[row + i] = scale * x[row + i];
}
