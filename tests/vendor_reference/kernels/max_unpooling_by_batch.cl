// A work item clears one batch element of the output, and puts the values at their places.
__kernel void unpool(const __global float* values, const __global int* indices, __global float* output) {
  const int size = OUTPUT0_PITCHES[0], in_size = INPUT0_PITCHES[0], batch = get_global_id(0);
  for (int i = 0; i < size; ++i) output[batch * size + i] = 0;
  for (int i = 0; i < in_size; ++i) {
    const int place = indices[batch * in_size + i];
    if (place >= 0 && place < size) output[batch * size + place] = values[batch * in_size + i];
  }
}
