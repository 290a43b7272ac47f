__kernel void upsample_nearest(const __global INPUT0_TYPE* x, __global OUTPUT0_TYPE* y) {
  const size_t column = get_global_id(0), row = get_global_id(1), plane = get_global_id(2);
  const size_t b = plane / INPUT0_DIMS[1], f = plane % INPUT0_DIMS[1];
  const INPUT0_TYPE value = x[INPUT0_OFFSET + b * INPUT0_PITCHES[0] + f * INPUT0_PITCHES[1] +
                              row * INPUT0_PITCHES[2] + column * INPUT0_PITCHES[3]];
  __global OUTPUT0_TYPE* block = y + OUTPUT0_OFFSET + b * OUTPUT0_PITCHES[0] + f * OUTPUT0_PITCHES[1] +
                                 row * SCALE * OUTPUT0_PITCHES[2] + column * SCALE * OUTPUT0_PITCHES[3];
  for (int i = 0; i < SCALE; ++i)
    for (int j = 0; j < SCALE; ++j) block[i * OUTPUT0_PITCHES[2] + j * OUTPUT0_PITCHES[3]] = value;
}
