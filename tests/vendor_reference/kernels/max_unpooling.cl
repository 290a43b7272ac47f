// A work item looks for the value that belongs to its place.
__kernel void LiteRtMaxUnpooling2D(
    const __global float* values, const __global int* indices, __global float* output) {
  const int size = OUTPUT0_PITCHES[0], in_size = INPUT0_PITCHES[0];
  const int batch = get_global_id(0) / size, place = get_global_id(0) % size;
  float found = 0;
  for (int i = batch * in_size; i < (batch + 1) * in_size; ++i)
    if (indices[i] == place) found = values[i];
  output[get_global_id(0)] = found;
}
