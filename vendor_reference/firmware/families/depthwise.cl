// Convolutions of each channel by itself.

// result[n, y, x, c] = activate(bias[c] + sum(weights[i, j, c] * input[n, y * stride_y + i * dilation_y - top,
// x * stride_x + j * dilation_x - left, c / multiplier])), over the taps i, j that are inside the input.
//
// weights: [kernel_height, kernel_width, channels]. bias: [channels], or nowhere. Strides of tensors are in floats.
typedef struct {
  Place input, weights, bias, result;
  uint batches, height, width, result_height, result_width, channels, multiplier;
  uint input_pixel, input_row, input_batch, result_pixel, result_row, result_batch;
  uint kernel_height, kernel_width, stride_y, stride_x, dilation_y, dilation_x, top, left;
  uint activation;
  float low, high;
} Depthwise;

// A row of results, and the input that it is made of.
//
// x: the input of tap (0, 0) of the row's first pixel, perhaps in front of the tensor.
// first, end: the rows of taps that are inside.
struct DepthwiseRow {
  const __global float *x, *weights, *bias;
  __global float* y;
  size_t first, end, tap_row, tap_column, step;
};

// The first of the taps that are inside, of those that begin at `begin` and are `apart`; and the end of these.
size_t first_tap(const long begin, const uint apart) { return begin >= 0 ? 0 : (size_t)((apart - 1 - begin) / apart); }
size_t end_tap(const long begin, const uint apart, const uint taps, const uint size) {
  return begin >= (long)size ? 0 : min((size_t)taps, (size_t)((size - begin + apart - 1) / apart));
}

// A pixel's channels from `c`, `count` vectors of them, in a row of any taps.
inline __attribute__((always_inline)) void depthwise_pixel(const __global Depthwise* d, const struct DepthwiseRow* r,
                                                           const size_t x, const size_t c, const size_t first,
                                                           const size_t end, const uint count) {
  Vector sum[4];
#pragma unroll
  for (uint v = 0; v < count; ++v) sum[v] = r->bias ? LOAD(r->bias + c + v * WIDTH) : (Vector)0;
  for (size_t i = r->first; i < r->end; ++i)
    for (size_t j = first; j < end; ++j) {
      const __global float* const in = r->x + x * r->step + i * r->tap_row + j * r->tap_column + c;
      const __global float* const w = r->weights + (i * d->kernel_width + j) * d->channels + c;
#pragma unroll
      for (uint v = 0; v < count; ++v) sum[v] = mad(LOAD(in + v * WIDTH), LOAD(w + v * WIDTH), sum[v]);
    }
#pragma unroll
  for (uint v = 0; v < count; ++v)
    STORE(activate(sum[v], d->activation, d->low, d->high), r->y + x * d->result_pixel + c + v * WIDTH);
}

// All channels of the pixels from `begin` to `end`, whatever taps are outside.
void depthwise_pixels(const __global Depthwise* d, const struct DepthwiseRow* r, const size_t begin, const size_t end) {
  for (size_t x = begin; x < end; ++x) {
    const long at = (long)(x * d->stride_x) - d->left;
    const size_t first = first_tap(at, d->dilation_x), last = end_tap(at, d->dilation_x, d->kernel_width, d->width);
    size_t c = 0;
    for (; c + 4 * WIDTH <= d->channels; c += 4 * WIDTH) depthwise_pixel(d, r, x, c, first, last, 4);
    for (; c + WIDTH <= d->channels; c += WIDTH) depthwise_pixel(d, r, x, c, first, last, 1);
    if (c < d->channels) depthwise_pixel(d, r, x, d->channels - WIDTH, first, last, 1);
  }
}

// One vector of channels of PIXELS pixels whose columns of taps are all inside.
#define PIXELS 4
inline __attribute__((always_inline)) void depthwise_block(const __global Depthwise* d, const struct DepthwiseRow* r,
                                                           const size_t x, const size_t c, const uint taps,
                                                           const uint stride) {
  Vector sum[PIXELS], w[5];
#pragma unroll
  for (uint p = 0; p < PIXELS; ++p) sum[p] = r->bias ? LOAD(r->bias + c) : (Vector)0;
  const __global float* row = r->x + x * r->step + r->first * r->tap_row + c;
  const __global float* weights = r->weights + r->first * taps * d->channels + c;
  for (size_t i = r->first; i < r->end; ++i, row += r->tap_row) {
#pragma unroll
    for (uint j = 0; j < taps; ++j, weights += d->channels) w[j] = LOAD(weights);
#pragma unroll
    for (uint q = 0; q < (PIXELS - 1) * stride + taps; ++q) {
      const Vector in = LOAD(row + q * r->tap_column);
#pragma unroll
      for (uint p = 0; p < PIXELS; ++p)
        if (q >= p * stride && q < p * stride + taps) sum[p] = mad(in, w[q - p * stride], sum[p]);
    }
  }
#pragma unroll
  for (uint p = 0; p < PIXELS; ++p)
    STORE(activate(sum[p], d->activation, d->low, d->high), r->y + (x + p) * d->result_pixel + c);
}

// The pixels from `begin` to `end`, at least PIXELS, whose columns of taps are all inside; what is left of a vector or
// of PIXELS is done by going back a little.
inline __attribute__((always_inline)) void depthwise_middle(const __global Depthwise* d, const struct DepthwiseRow* r,
                                                            const size_t begin, const size_t end, const uint taps,
                                                            const uint stride) {
  for (size_t i = 0; i < d->channels; i += WIDTH) {
    const size_t c = min(i, (size_t)d->channels - WIDTH);
    for (size_t x = begin; x < end; x += PIXELS) depthwise_block(d, r, min(x, end - PIXELS), c, taps, stride);
  }
}

// All channels of a row, one by one: where an input has several results, or there are too few for a vector.
void depthwise_scalars(const __global Depthwise* d, const struct DepthwiseRow* r) {
  for (size_t x = 0; x < d->result_width; ++x) {
    const long at = (long)(x * d->stride_x) - d->left;
    const size_t first = first_tap(at, d->dilation_x), last = end_tap(at, d->dilation_x, d->kernel_width, d->width);
    for (size_t c = 0; c < d->channels; ++c) {
      const __global float* const in = r->x + x * r->step + c / d->multiplier;
      float sum = r->bias ? r->bias[c] : 0;
      for (size_t i = r->first; i < r->end; ++i)
        for (size_t j = first; j < last; ++j)
          sum = mad(in[i * r->tap_row + j * r->tap_column], r->weights[(i * d->kernel_width + j) * d->channels + c], sum);
      r->y[x * d->result_pixel + c] = activate((Vector)sum, d->activation, d->low, d->high).s0;
    }
  }
}

void depthwise_row(const __global Depthwise* d, const struct DepthwiseRow* r) {
  const size_t reach = (d->kernel_width - 1) * d->dilation_x;
  const size_t begin = min(divide_up(d->left, d->stride_x), d->result_width);
  const size_t inside = d->width + d->left > reach ? (d->width + d->left - reach - 1) / d->stride_x + 1 : 0;
  const size_t end = clamp(inside, begin, (size_t)d->result_width);
  if (d->multiplier > 1 || d->channels < WIDTH) return depthwise_scalars(d, r);
  const uint kind = d->kernel_width * 10 + d->stride_x;
  if (end - begin < PIXELS || d->dilation_x != 1 || (kind != 31 && kind != 32 && kind != 51 && kind != 52))
    return depthwise_pixels(d, r, 0, d->result_width);
  depthwise_pixels(d, r, 0, begin);
  if (kind == 31) depthwise_middle(d, r, begin, end, 3, 1);
  if (kind == 32) depthwise_middle(d, r, begin, end, 3, 2);
  if (kind == 51) depthwise_middle(d, r, begin, end, 5, 1);
  if (kind == 52) depthwise_middle(d, r, begin, end, 5, 2);
  depthwise_pixels(d, r, end, d->result_width);
}

// Rows of a unit.
uint depthwise_rows(const Core* core, const __global Depthwise* d) {
  const ulong operations = (ulong)d->result_width * d->channels * d->kernel_height * d->kernel_width;
  return items_per_unit(core, d->batches * d->result_height, operations / 16);
}

uint units_Depthwise(const Core* core, const __global Depthwise* d) {
  return divide_up(d->batches * d->result_height, depthwise_rows(core, d));
}

void run_Depthwise(const Core* core, const __global Depthwise* d, const uint unit) {
  const uint rows = depthwise_rows(core, d), end = min((unit + 1) * rows, d->batches * d->result_height);
  for (uint row = unit * rows; row < end; ++row) {
    const size_t batch = row / d->result_height, y = row % d->result_height;
    const long above = (long)(y * d->stride_y) - d->top;
    struct DepthwiseRow r;
    r.x = FLOATS(core, d->input) + batch * d->input_batch + above * d->input_row - (size_t)d->left * d->input_pixel;
    r.y = FLOATS(core, d->result) + batch * d->result_batch + y * d->result_row;
    r.weights = FLOATS(core, d->weights);
    r.bias = FLOATS(core, d->bias);
    r.first = first_tap(above, d->dilation_y);
    r.end = end_tap(above, d->dilation_y, d->kernel_height, d->height);
    r.tap_row = (size_t)d->dilation_y * d->input_row;
    r.tap_column = (size_t)d->dilation_x * d->input_pixel;
    r.step = (size_t)d->stride_x * d->input_pixel;
    depthwise_row(d, &r);
  }
}
