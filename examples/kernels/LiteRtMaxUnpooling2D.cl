// Max unpooling: writes each value to the element with its index, which is flat over H, W, C of its batch element; the
// other elements of the output are zero. One work group first clears one batch element, and then scatters its values.

#define SIZE(dims) ((size_t)dims[1] * dims[2] * dims[3])

__kernel void LiteRtMaxUnpooling2D(const __global float* values, const __global int* indices,
                                   __global float* output) {
  const size_t batch = get_group_id(0);
  const size_t in_size = SIZE(INPUT0_DIMS);
  const size_t out_size = SIZE(OUTPUT0_DIMS);
  values += batch * in_size;
  indices += batch * in_size;
  output += batch * out_size;

  for (size_t i = get_local_id(0); i < out_size; i += get_local_size(0)) output[i] = 0.0f;
  barrier(CLK_GLOBAL_MEM_FENCE);
  for (size_t i = get_local_id(0); i < in_size; i += get_local_size(0)) {
    const int place = indices[i];
    if (place >= 0 && (size_t)place < out_size) output[place] = values[i];
  }
}
