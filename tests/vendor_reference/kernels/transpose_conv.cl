// The transposed convolution with bias of the selfie network: SAME padding, stride 2. A work item computes one
// element of the output, from its definition.
#include "transpose_conv.h"

__kernel void Convolution2DTransposeBias(
    const __global float* input, const __global float* weights, const __global float* bias, __global float* output) {
  output[get_global_id(0)] = transpose_conv(get_global_id(0), 1, 2, 2, input, weights, bias);
}
