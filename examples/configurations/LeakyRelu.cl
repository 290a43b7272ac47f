// One work item for each element. Pitches and offsets are in elements, so the kernel works for each format and padding.
__kernel void leaky_relu(const __global INPUT0_TYPE* x, __global OUTPUT0_TYPE* y) {
  const size_t b = get_global_id(2) / OUTPUT0_DIMS[1];
  const size_t f = get_global_id(2) % OUTPUT0_DIMS[1];
  const size_t from = INPUT0_OFFSET + b * INPUT0_PITCHES[0] + f * INPUT0_PITCHES[1] +
                      get_global_id(1) * INPUT0_PITCHES[2] + get_global_id(0) * INPUT0_PITCHES[3];
  const size_t to = OUTPUT0_OFFSET + b * OUTPUT0_PITCHES[0] + f * OUTPUT0_PITCHES[1] +
                    get_global_id(1) * OUTPUT0_PITCHES[2] + get_global_id(0) * OUTPUT0_PITCHES[3];
  const INPUT0_TYPE value = x[from];
  y[to] = value < 0 ? value * SLOPE : value;
}
