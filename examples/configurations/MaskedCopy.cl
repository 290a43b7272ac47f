// One work item for each element, in the order of memory.
__kernel void masked_copy(const __global INPUT0_TYPE* x, const __global INPUT1_TYPE* mask,
                          __global OUTPUT0_TYPE* y) {
  const size_t i = get_global_id(0);
  y[i] = mask[i] ? x[i] : (OUTPUT0_TYPE)FILL;
}
