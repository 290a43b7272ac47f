__kernel void Swish(const __global float* x, __global float* y) {
  const size_t i = get_global_id(0);
  y[i] = x[i] / (1.0f + exp(-PARAM_beta * x[i]));
}
