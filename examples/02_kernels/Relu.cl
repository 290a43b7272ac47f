// Rectifier. The kernel computes the offset of each element from the pitches of the tensor, so that it works for each
// format.

__kernel void relu(const __global INPUT0_TYPE* in, __global OUTPUT0_TYPE* out) {
  const size_t x = get_global_id(0), y = get_global_id(1);
  const size_t b = get_global_id(2) / OUTPUT0_DIMS[1], f = get_global_id(2) % OUTPUT0_DIMS[1];

#define AT(TENSOR) \
  (TENSOR##_OFFSET + b * TENSOR##_PITCHES[0] + f * TENSOR##_PITCHES[1] + y * TENSOR##_PITCHES[2] + \
   x * TENSOR##_PITCHES[3])

  const INPUT0_TYPE value = in[AT(INPUT0)];
  out[AT(OUTPUT0)] = value < 0 ? value * SLOPE : value;
}
