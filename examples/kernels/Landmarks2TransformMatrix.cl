// Computes MediaPipe's matrix [1, 4, 4], which maps a box of output_width x output_height elements to a picture. The box
// contains some of the landmarks [1, N, 3], is enlarged by scale_x and scale_y, and is rotated by the angle between two
// landmarks. Each of the 16 work items computes the whole matrix, and writes one number.

__constant int subset[] = {PARAM_subset_idxs};

__kernel void Landmarks2TransformMatrix(const __global float* landmarks, __global float* output) {
  const __global float* left = landmarks + 3 * PARAM_left_rotation_idx;
  const __global float* right = landmarks + 3 * PARAM_right_rotation_idx;
  const float angle = atan2(right[1] - left[1], right[0] - left[0]) - PARAM_target_rotation_radians;
  const float c = cos(angle), s = sin(angle);

  float2 low = INFINITY, high = -INFINITY;  // bounds of the landmarks after the rotation
  for (size_t i = 0; i < sizeof(subset) / sizeof(subset[0]); ++i) {
    const __global float* landmark = landmarks + 3 * subset[i];
    const float2 upright = (float2)(c * landmark[0] + s * landmark[1],
                                    c * landmark[1] - s * landmark[0]);
    low = fmin(low, upright);
    high = fmax(high, upright);
  }

  const float2 size = (float2)(PARAM_output_width, PARAM_output_height);
  const float2 scale = (float2)(PARAM_scale_x, PARAM_scale_y) * (high - low) / size;
  const size_t row = get_global_id(0) / 4, column = get_global_id(0) % 4;
  const float2 turn = row == 0 ? (float2)(c, -s) : (float2)(s, c);
  const float2 numbers = turn * scale;
  float result = row == column;
  if (row < 2) {
    const float shift = (dot(turn, low + high) - dot(numbers, size)) / 2;
    result = column == 0 ? numbers.x : column == 1 ? numbers.y : column == 3 ? shift : 0;
  }
  output[get_global_id(0)] = result;
}
