// Transposed convolution with bias, as in MediaPipe's networks: TFLite's TRANSPOSE_CONV, plus a bias.
// Input and output are N, H, W, C; weights are O, H, W, I. One work item computes one output row, to which it adds
// the products of each input pixel.
//
// All sizes are constants in the build, so the inner loops unroll. The description beside this file takes STRIDE_H,
// STRIDE_W and PADDING from the op's options. The host defines the DIMS: B, F, Y, X of each tensor.
#ifndef STRIDE_H  // without a description: the values of the selfie segmentation network
#define STRIDE_H 2
#define STRIDE_W 2
#define PADDING SAME
#endif

#define IN_H ((int)INPUT0_DIMS[2])
#define IN_W ((int)INPUT0_DIMS[3])
#define IN_C ((int)INPUT0_DIMS[1])
#define FILTER_H ((int)INPUT1_DIMS[2])
#define FILTER_W ((int)INPUT1_DIMS[3])
#define OUT_H ((int)OUTPUT0_DIMS[2])
#define OUT_W ((int)OUTPUT0_DIMS[3])
#define OUT_C ((int)OUTPUT0_DIMS[1])

#define SAME 1
#define PAD(in, filter, stride) \
  (PADDING == SAME ? max(0, (filter) - ((in) - 1) % (stride) - 1) / 2 : 0)
#define PAD_TOP PAD(IN_H, FILTER_H, STRIDE_H)
#define PAD_LEFT PAD(IN_W, FILTER_W, STRIDE_W)

// Whether each output element has one filter tap: the kernel then writes the element once, and never reads it.
#define IS_TILED (FILTER_H == STRIDE_H && FILTER_W == STRIDE_W)
// Whether also an input pixel makes two neighbouring elements of a row: the kernel then writes both at once.
#define MAKES_PAIRS (IS_TILED && FILTER_W == 2 && OUT_C == 1 && PAD_LEFT == 0 && OUT_W == 2 * IN_W)

// Unaligned vectors: the pixels of a tensor are only aligned to a float.
typedef float8 __attribute__((aligned(4))) float8u;
typedef float2 __attribute__((aligned(4))) float2u;

// Dot product over the input channels, as eight partial sums: PoCL 3.0 crashes on some 16-wide vectors.
static inline float8 dot_channels(const __global float* a, const __global float* b) {
  float8 sums = 0.0f;
  int c = 0;
#pragma unroll 4
  for (; c + 8 <= IN_C; c += 8)
    sums += *(const __global float8u*)(a + c) * *(const __global float8u*)(b + c);
  for (; c < IN_C; ++c) sums.s0 += a[c] * b[c];
  return sums;
}

// Adds up two vectors of eight partial sums; both together take fewer steps.
static inline float2 totals(float8 a, float8 b) {
  const float8 halves = (float8)(a.lo + a.hi, b.lo + b.hi);
  const float4 quarters = halves.even + halves.odd;
  return quarters.even + quarters.odd;
}

// The hint vectorizes inside a work item. Without it, Intel's driver would vectorize over eight rows with gather loads,
// which takes twelve times as long.
__attribute__((vec_type_hint(float8)))
__kernel void Convolution2DTransposeBias(const __global float* restrict input,
                                         const __global float* restrict weights,
                                         const __global float* restrict bias,
                                         __global float* restrict output) {
  if (get_global_id(0) >= INPUT0_DIMS[0] * OUT_H) return;  // without a description: one work item for each element
  const size_t n = get_global_id(0) / OUT_H;
  const size_t y = get_global_id(0) % OUT_H;
  __global float* row = output + get_global_id(0) * OUT_W * OUT_C;

  if (!IS_TILED)
    for (int x = 0; x < OUT_W; ++x)
      for (int o = 0; o < OUT_C; ++o) row[x * OUT_C + o] = bias[o];

  for (int ky = 0; ky < FILTER_H; ++ky) {
    const size_t in_y = (y + PAD_TOP - ky) / STRIDE_H;
    if (y + PAD_TOP < ky || (y + PAD_TOP - ky) % STRIDE_H != 0 || in_y >= IN_H) continue;
    const __global float* in_row = input + (n * IN_H + in_y) * IN_W * IN_C;
    for (int in_x = 0; in_x < IN_W; ++in_x) {
      const __global float* pixel = in_row + in_x * IN_C;
      if (MAKES_PAIRS) {
        const __global float* taps = weights + ky * FILTER_W * IN_C;
        *(__global float2u*)(row + 2 * in_x) =
            totals(dot_channels(pixel, taps), dot_channels(pixel, taps + IN_C)) + bias[0];
        continue;
      }
#pragma unroll 4
      for (int kx = 0; kx < FILTER_W; ++kx) {
        const int x = in_x * STRIDE_W + kx - PAD_LEFT;
        if (x < 0 || x >= OUT_W) continue;
        for (int o = 0; o < OUT_C; ++o) {
          const float8 sums =
              dot_channels(pixel, weights + ((o * FILTER_H + ky) * FILTER_W + kx) * IN_C);
          row[x * OUT_C + o] = (IS_TILED ? bias[o] : row[x * OUT_C + o]) + totals(sums, 0.0f).x;
        }
      }
    }
  }
}
