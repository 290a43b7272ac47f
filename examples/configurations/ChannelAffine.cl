// A work group computes GROUP pixels of one channel; the last work group may have unused work items.
__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void channel_affine(const __global INPUT0_TYPE* x, const __global INPUT1_TYPE* scale,
                             const __global INPUT2_TYPE* bias, __global OUTPUT0_TYPE* y) {
  const size_t place = get_global_id(0), f = get_global_id(1), b = get_global_id(2);
  if (place >= OUTPUT0_DIMS[2] * OUTPUT0_DIMS[3]) return;
  const float value = x[b * INPUT0_PITCHES[0] + place * INPUT0_PITCHES[3] + f];
  y[b * OUTPUT0_PITCHES[0] + f * OUTPUT0_PITCHES[1] + place] =
      clip(value * scale[f] + bias[f], (LIMITS)[0], (LIMITS)[1]);
}
