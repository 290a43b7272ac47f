// y = x W^T: each element of y is the dot product of a row of x and a row of the weights [columns, depth].

#define COLUMNS OUTPUT0_DIMS[1]
#define DEPTH INPUT0_DIMS[1]

__kernel void Project(const __global float* x, const __global float* weights, __global float* y) {
  const size_t index = get_global_id(0);
  const __global float* row = x + index / COLUMNS * DEPTH;
  const __global float* column = weights + index % COLUMNS * DEPTH;
  float sum = 0.0f;
  for (int i = 0; i < DEPTH; ++i) sum += row[i] * column[i];
  y[index] = sum;
}
