// Transforms MediaPipe's landmarks [1, N, 2 or 3] by the first two rows of a matrix [1, 4, 4], and copies a third number
// unchanged. One work item computes one number.

#define NUMBERS INPUT0_DIMS[2]

__kernel void TransformLandmarks(const __global float* landmarks, const __global float* matrix,
                                 __global float* output) {
  const size_t i = get_global_id(0), which = i % NUMBERS;
  const __global float* row = matrix + 4 * min(which, (size_t)1);
  const __global float* landmark = landmarks + (i - which);
  output[i] = which < 2 ? row[0] * landmark[0] + row[1] * landmark[1] + row[3] : landmark[which];
}
