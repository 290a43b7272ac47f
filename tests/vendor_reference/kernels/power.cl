// What each element is, by the options of the op.
__kernel void Power(const __global INPUT0_TYPE* x, __global OUTPUT0_TYPE* y) {
  const int axes[] = {PARAM_axes};
  y[get_global_id(0)] = PARAM_scale * pown(x[get_global_id(0)], PARAM_exponent) + axes[1] + PARAM_on;
}
