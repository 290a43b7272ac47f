// One element of a transposed convolution: every input and filter place that meets in it.

int pad_before(int padding, int in, int filter, int stride) {
  return padding == 1 ? max(0, filter - (in - 1) % stride - 1) / 2 : 0;
}

float transpose_conv(int element, int padding, int stride_h, int stride_w,
                     const __global float* input, const __global float* weights, const __global float* bias) {
  const int in_c = INPUT0_DIMS[1], in_h = INPUT0_DIMS[2], in_w = INPUT0_DIMS[3];
  const int filter_h = INPUT1_DIMS[2], filter_w = INPUT1_DIMS[3];
  const int out_c = OUTPUT0_DIMS[1], out_h = OUTPUT0_DIMS[2], out_w = OUTPUT0_DIMS[3];
  const int o = element % out_c, x = element / out_c % out_w;
  const int y = element / out_c / out_w % out_h, n = element / out_c / out_w / out_h;
  float sum = bias[o];
  for (int ky = 0; ky < filter_h; ++ky)
    for (int kx = 0; kx < filter_w; ++kx) {
      const int at_y = y + pad_before(padding, in_h, filter_h, stride_h) - ky;
      const int at_x = x + pad_before(padding, in_w, filter_w, stride_w) - kx;
      if (at_y < 0 || at_x < 0 || at_y % stride_h || at_x % stride_w) continue;
      if (at_y / stride_h >= in_h || at_x / stride_w >= in_w) continue;
      const int from = n * INPUT0_PITCHES[0] + at_y / stride_h * INPUT0_PITCHES[2] + at_x / stride_w * INPUT0_PITCHES[3];
      const int weight = o * INPUT1_PITCHES[0] + ky * INPUT1_PITCHES[2] + kx * INPUT1_PITCHES[3];
      for (int i = 0; i < in_c; ++i) sum += input[from + i] * weights[weight + i];
    }
  return sum;
}
