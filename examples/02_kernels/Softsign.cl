// Softsign with a slope, element by element. The define PARAM_alpha is the value of the op's FlexBuffer option `alpha`.

__kernel void Softsign(const __global float* x, __global float* y) {
  const size_t i = get_global_id(0);
  y[i] = PARAM_alpha * x[i] / (1.0f + fabs(x[i]));
}
