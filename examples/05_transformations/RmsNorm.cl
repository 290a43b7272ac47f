// x / sqrt(mean(x * x) + epsilon) along the last axis of [N, T, C]: dimension T is F, and C is Y. One work item per row.

#define COLUMNS INPUT0_DIMS[2]

// The hint vectorizes the loops over a row. Without it, Intel's driver vectorizes over rows, with slow gather loads.
__attribute__((vec_type_hint(float8)))
__kernel void RmsNorm(const __global float* x, __global float* y) {
  const size_t row = (get_global_id(1) * INPUT0_DIMS[1] + get_global_id(0)) * COLUMNS;
  float squares = 0.0f;
  for (int i = 0; i < COLUMNS; ++i) squares += x[row + i] * x[row + i];
  const float scale = rsqrt(squares / COLUMNS + EPSILON);
  for (int i = 0; i < COLUMNS; ++i) y[row + i] = scale * x[row + i];
}
