// Samples a picture [1, H, W, C] at the centres of the output's pixels, which the first two rows of a matrix [1, 4, 4]
// transform. Pixels outside of the picture are zero. One work item computes one number.

#define IN_H ((size_t)INPUT0_DIMS[2])
#define IN_W ((size_t)INPUT0_DIMS[3])
#define CHANNELS ((size_t)INPUT0_DIMS[1])
#define OUT_W ((size_t)OUTPUT0_DIMS[3])

__kernel void TransformTensorBilinear(const __global float* input, const __global float* matrix,
                                      __global float* output) {
  const size_t i = get_global_id(0), pixel = i / CHANNELS, channel = i % CHANNELS;
  const float x = pixel % OUT_W + 0.5f, y = pixel / OUT_W + 0.5f;
  const float at_x = matrix[0] * x + matrix[1] * y + matrix[3] - 0.5f;
  const float at_y = matrix[4] * x + matrix[5] * y + matrix[7] - 0.5f;
  if (!(at_x >= 0 && at_x <= IN_W - 1 && at_y >= 0 && at_y <= IN_H - 1)) {
    output[i] = 0;
    return;
  }
  const size_t left = (size_t)at_x, top = (size_t)at_y;
  const size_t right = min(left + 1, IN_W - 1), bottom = min(top + 1, IN_H - 1);
#define AT(row, column) input[((row)*IN_W + (column)) * CHANNELS + channel]
  const float upper = mix(AT(top, left), AT(top, right), at_x - left);
  const float lower = mix(AT(bottom, left), AT(bottom, right), at_x - left);
  output[i] = mix(upper, lower, at_y - top);
}
