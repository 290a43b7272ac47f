// Convolutions of each channel by itself.

// result[n, y, x, c] = activate(bias[c] + sum(weights[i, j, c] * input[n, v, w, c / multiplier])), over the taps i, j
// for which v = y * stride_height + i * dilation_height - top, w = x * stride_width + j * dilation_width - left are
// inside.
//
// weights: [kernel_height, kernel_width, channels]. bias: [channels], or nowhere. Tensors begin
// `..._first` behind their places; their strides are in floats, too.
typedef struct {
  Place input, weights, bias, result;
  uint batches, input_height, input_width, result_height, result_width, channels, multiplier;
  uint input_first, input_pixel, input_row, input_batch, result_first, result_pixel, result_row, result_batch;
  uint kernel_height, kernel_width, stride_height, stride_width, dilation_height, dilation_width, top, left;
  uint activation;
  float low, high;
} Depthwise;

// A row of results, and the input that it is made of.
//
// x: the input of tap (0, 0) of the row's first pixel, perhaps in front of the tensor.
// first, end: the rows of taps that are inside.
// channel, end_channel: the channels to make, at least WIDTH. pixel, end_pixel: the pixels.
// tap_row, tap_column, step: from tap to tap of the input, and from pixel to pixel; y_step: of the result.
struct DepthwiseRow {
  const __global float *x, *weights, *bias;
  __global float* y;
  size_t first, end, channel, end_channel, pixel, end_pixel, tap_row, tap_column, step, weight_step, y_step;
};

// The first of the taps that are inside, of those that begin at `begin` and are `apart`; and the end of these.
size_t first_tap(const long begin, const uint apart) { return begin >= 0 ? 0 : (size_t)((apart - 1 - begin) / apart); }
size_t end_tap(const long begin, const uint apart, const uint taps, const uint size) {
  return begin >= (long)size ? 0 : min((size_t)taps, (size_t)((size - begin + apart - 1) / apart));
}

// A pixel's channels from `c`, `count` vectors of them, in a row of any taps.
INLINE void depthwise_pixel(const __global Depthwise* d, const struct DepthwiseRow* r, const size_t x, const size_t c,
                            const size_t first, const size_t end, const uint count) {
  Vector sum[4];
#pragma unroll
  for (uint v = 0; v < count; ++v) sum[v] = r->bias ? LOAD(r->bias + c + v * WIDTH) : (Vector)0;
  for (size_t i = r->first; i < r->end; ++i)
    for (size_t j = first; j < end; ++j) {
      const __global float* const in = r->x + x * r->step + i * r->tap_row + j * r->tap_column + c;
      const __global float* const w = r->weights + (i * d->kernel_width + j) * r->weight_step + c;
#pragma unroll
      for (uint v = 0; v < count; ++v) sum[v] = mad(LOAD(in + v * WIDTH), LOAD(w + v * WIDTH), sum[v]);
    }
#pragma unroll
  for (uint v = 0; v < count; ++v)
    STORE(activate(sum[v], d->activation, d->low, d->high), r->y + x * r->y_step + c + v * WIDTH);
}

// The pixels from `begin` to `end`, whatever taps are outside.
void depthwise_pixels(const __global Depthwise* d, const struct DepthwiseRow* r, const size_t begin, const size_t end) {
  for (size_t x = begin; x < end; ++x) {
    const long at = (long)(x * d->stride_width) - d->left;
    const size_t first = first_tap(at, d->dilation_width);
    const size_t last = end_tap(at, d->dilation_width, d->kernel_width, d->input_width);
    size_t c = r->channel;
    for (; c + 4 * WIDTH <= r->end_channel; c += 4 * WIDTH) depthwise_pixel(d, r, x, c, first, last, 4);
    for (; c < r->end_channel; c += WIDTH) depthwise_pixel(d, r, x, min(c, r->end_channel - WIDTH), first, last, 1);
  }
}

// One vector of channels of `pixels` pixels whose columns of taps are all inside: each input is loaded once for all of
// them.
INLINE void depthwise_block(const __global Depthwise* d, const struct DepthwiseRow* r, const size_t x, const size_t c,
                            const uint taps, const uint stride, const uint pixels) {
  Vector sum[8], w[5];
#pragma unroll
  for (uint p = 0; p < pixels; ++p) sum[p] = r->bias ? LOAD(r->bias + c) : (Vector)0;
  const __global float* row = r->x + x * r->step + r->first * r->tap_row + c;
  const __global float* weights = r->weights + r->first * taps * r->weight_step + c;
  for (size_t i = r->first; i < r->end; ++i, row += r->tap_row) {
#pragma unroll
    for (uint j = 0; j < taps; ++j, weights += r->weight_step) w[j] = LOAD(weights);
#pragma unroll
    for (uint q = 0; q < (pixels - 1) * stride + taps; ++q) {
      const Vector in = LOAD(row + q * r->tap_column);
#pragma unroll
      for (uint p = 0; p < pixels; ++p)
        if (q >= p * stride && q < p * stride + taps) sum[p] = mad(in, w[q - p * stride], sum[p]);
    }
  }
#pragma unroll
  for (uint p = 0; p < pixels; ++p)
    STORE(activate(sum[p], d->activation, d->low, d->high), r->y + (x + p) * r->y_step + c);
}

// The pixels from `begin` to `end`, at least two, whose columns of taps are all inside, `pixels` or two at once.
// What is left of two or of a vector is done by going back a little.
INLINE void depthwise_middle(const __global Depthwise* d, const struct DepthwiseRow* r, const size_t begin,
                             const size_t end, const uint taps, const uint stride, const uint pixels) {
  size_t x = begin;
  for (; x + pixels <= end; x += pixels)
    for (size_t c = r->channel; c < r->end_channel; c += WIDTH)
      depthwise_block(d, r, x, min(c, r->end_channel - WIDTH), taps, stride, pixels);
  for (; x < end; x += 2)
    for (size_t c = r->channel; c < r->end_channel; c += WIDTH)
      depthwise_block(d, r, min(x, end - 2), min(c, r->end_channel - WIDTH), taps, stride, 2);
}

void depthwise_row(const __global Depthwise* d, const struct DepthwiseRow* r) {
  const size_t reach = (d->kernel_width - 1) * d->dilation_width, last = d->input_width + d->left;
  const size_t begin = clamp((size_t)divide_up(d->left, d->stride_width), r->pixel, r->end_pixel);
  const size_t end = clamp(last > reach ? (last - reach - 1) / d->stride_width + 1 : 0, begin, r->end_pixel);
  const uint kind = d->dilation_width == 1 && end - begin >= 2 ? d->kernel_width * 10 + d->stride_width : 0;
  depthwise_pixels(d, r, r->pixel, begin);
  if (kind == 11) depthwise_middle(d, r, begin, end, 1, 1, 8);
  else if (kind == 31) depthwise_middle(d, r, begin, end, 3, 1, 6);
  else if (kind == 32) depthwise_middle(d, r, begin, end, 3, 2, 4);
  else if (kind == 51) depthwise_middle(d, r, begin, end, 5, 1, 6);
  else if (kind == 52) depthwise_middle(d, r, begin, end, 5, 2, 4);
  else depthwise_pixels(d, r, begin, end);
  depthwise_pixels(d, r, end, r->end_pixel);
}

// Whether lanes of a vector are not neighbours in the input and in the result.
bool depthwise_is_spread(const __global Depthwise* d) { return d->multiplier > 1 || d->channels < WIDTH; }

// An item is some channels of some pixels of a row of results. Items are in an order in which a CPU's first cache keeps
// the rows that results share: a group of rows, then the next pixels, then the next channels.
//
// is_packed: whether a worker first copies what a group's items read to its scratch, channel by channel of the result:
// where the channels are spread, and where the pixels of a large window are so far apart that they drive each other out
// of the cache.
struct DepthwiseItems {
  uint channels, pixels, rows, parts, tiles, count;
  bool is_packed;
};

struct DepthwiseItems depthwise_items(const __global Depthwise* d) {
  const bool is_spread = depthwise_is_spread(d), is_far = d->input_pixel % 128 == 0 && d->kernel_width > 4;
  const struct DepthwiseItems in_place = {WIDTH * max(96 / max(d->result_width, 1u), 8u), max(d->result_width, 1u), 8};
  struct DepthwiseItems all = in_place;
  all.is_packed = is_spread || is_far;
  if (all.is_packed) {
    all.channels = (is_spread ? 1 : 4) * WIDTH;
    all.pixels = clamp(d->result_width, 1u, 32u);
    const ulong width = (all.pixels - 1) * d->stride_width + (d->kernel_width - 1) * d->dilation_width + 1;
    const ulong kept = WIDTH * (1 + all.pixels + (ulong)d->kernel_height * d->kernel_width);
    const ulong fits = kept < SCRATCH ? (SCRATCH - kept) / (width * all.channels) : 0;
    const ulong reach = (ulong)(d->kernel_height - 1) * d->dilation_height;
    all.rows = fits > reach ? min((fits - reach - 1) / d->stride_height + 1, 8ul) : 0;
    if (!all.rows) all = in_place;
  }
  all.parts = divide_up(d->channels, all.channels);
  all.tiles = divide_up(d->result_width, all.pixels);
  all.count = d->batches * d->result_height * all.parts * all.tiles;
  return all;
}

uint depthwise_items_per_unit(const Core* core, const __global Depthwise* d, const struct DepthwiseItems* all) {
  const ulong taps = (ulong)d->kernel_height * d->kernel_width;
  return items_per_unit(core, all->count, all->pixels * taps * min(d->channels, all->channels) / 4);
}

uint units_Depthwise(const Core* core, const __global Depthwise* d) {
  const struct DepthwiseItems all = depthwise_items(d);
  return divide_up(all.count, depthwise_items_per_unit(core, d, &all));
}

// Copies the weights and the bias of fewer channels than a vector has.
void depthwise_pack_weights(const __global Depthwise* d, struct DepthwiseRow* r, __global float* to) {
  const size_t taps = d->kernel_height * d->kernel_width;
  for (size_t i = 0; i < taps; ++i)
    for (size_t c = 0; c < WIDTH; ++c) to[i * WIDTH + c] = c < d->channels ? r->weights[i * d->channels + c] : 0;
  for (size_t c = 0; c < WIDTH; ++c) to[taps * WIDTH + c] = r->bias && c < d->channels ? r->bias[c] : 0;
}

// Copies `count` channels of the result from `channel`, of a row of pixels of the input; any numbers behind the last.
void depthwise_pack_row(const __global Depthwise* d, const __global float* from, const size_t pixels,
                        const size_t channel, const size_t count, __global float* to) {
  const __global float* const end = from + (pixels - 1) * d->input_pixel + d->channels / d->multiplier;
  for (size_t x = 0; x < pixels; ++x, from += d->input_pixel, to += count) {
    size_t in = channel / d->multiplier, copy = channel % d->multiplier, c = 0;
    if (d->multiplier == 1)
      for (; c < count && from + in + WIDTH <= end; c += WIDTH, in += WIDTH) STORE(LOAD(from + in), to + c);
    for (; c < count; ++c) {
      to[c] = channel + c < d->channels ? from[in] : 0;
      if (++copy == d->multiplier) copy = 0, ++in;
    }
  }
}

// Has a row read copies in the scratch. They are made where `skip` is 0, for `rows` rows of results; elsewhere `skip`
// rows have been made of them.
void depthwise_packed(const Core* core, const __global Depthwise* d, struct DepthwiseRow* r, const __global float* in,
                      const long above, const size_t skip, const size_t rows) {
  const size_t taps = d->kernel_height * d->kernel_width, lanes = r->end_channel - r->channel;
  const long across = (long)(d->kernel_width - 1) * d->dilation_width + 1;
  const long down = (long)(d->kernel_height - 1) * d->dilation_height + 1;
  const long top = max(above - (long)(skip * d->stride_height), 0l);
  const long left = max((long)(r->pixel * d->stride_width) - d->left, 0l);
  const long bottom = min(above + (long)((rows - 1) * d->stride_height) + down, (long)d->input_height);
  const long right = min((long)((r->end_pixel - 1) * d->stride_width) - d->left + across, (long)d->input_width);
  const size_t width = max(right - left, 0l);
  __global float* const window = core->scratch + WIDTH * (taps + 1);
  if (skip == 0) {
    if (d->channels < WIDTH) depthwise_pack_weights(d, r, core->scratch);
    for (long y = top; y < bottom; ++y)
      depthwise_pack_row(d, in + y * d->input_row + left * d->input_pixel, width, r->channel, lanes,
                         window + (y - top) * width * lanes);
  }
  r->x = window + ((above - top) * (long)width - d->left - left) * (long)lanes - r->channel;
  r->tap_column = lanes * d->dilation_width;
  r->tap_row = lanes * d->dilation_height * width;
  r->step = lanes * d->stride_width;
  if (d->channels < WIDTH) {
    r->weights = core->scratch;
    r->bias = core->scratch + WIDTH * taps;
    r->weight_step = WIDTH;
  }
}

// Makes a row of fewer channels than a vector has, by way of the end of the scratch.
void depthwise_narrow_row(const Core* core, const __global Depthwise* d, struct DepthwiseRow* r) {
  __global float* const y = r->y;
  __global float* const made = core->scratch + SCRATCH - WIDTH * (r->end_pixel - r->pixel);
  r->y = made - r->pixel * WIDTH;
  r->y_step = WIDTH;
  depthwise_row(d, r);
  size_t x = r->pixel;
  const size_t end = d->result_pixel == d->channels ? r->end_pixel * d->channels : 0;
  for (; x * d->channels + WIDTH <= end; ++x)  // the next pixels come where this writes numbers behind a pixel
    STORE(LOAD(r->y + x * WIDTH), y + x * d->channels);
  for (; x < r->end_pixel; ++x)
    for (size_t c = 0; c < d->channels; ++c) y[x * d->result_pixel + c] = r->y[x * WIDTH + c];
}

// Makes a row one by one.
void depthwise_scalars(const __global Depthwise* d, const struct DepthwiseRow* r) {
  for (size_t x = r->pixel; x < r->end_pixel; ++x) {
    const long at = (long)(x * d->stride_width) - d->left;
    const size_t first = first_tap(at, d->dilation_width);
    const size_t last = end_tap(at, d->dilation_width, d->kernel_width, d->input_width);
    for (size_t c = r->channel; c < min(r->end_channel, (size_t)d->channels); ++c) {
      const __global float* const in = r->x + x * r->step + c / d->multiplier;
      const __global float* const w = r->weights + c;
      float sum = r->bias ? r->bias[c] : 0;
      for (size_t i = r->first; i < r->end; ++i)
        for (size_t j = first; j < last; ++j)
          sum = mad(in[i * r->tap_row + j * r->tap_column], w[(i * d->kernel_width + j) * d->channels], sum);
      r->y[x * d->result_pixel + c] = activate((Vector)sum, d->activation, d->low, d->high).s0;
    }
  }
}

// Makes an item of a unit whose items are from `begin` to `end`.
void depthwise_item(const Core* core, const __global Depthwise* d, const struct DepthwiseItems* all, const uint item,
                    const uint begin, const uint end) {
  const uint group = item / (all->rows * all->parts * all->tiles), rest = item % (all->rows * all->parts * all->tiles);
  const uint rows = min(d->batches * d->result_height - group * all->rows, all->rows);
  const uint part = rest / rows / all->tiles, tile = rest / rows % all->tiles, row = group * all->rows + rest % rows;
  const size_t batch = row / d->result_height, y = row % d->result_height;
  const long above = (long)(y * d->stride_height) - d->top;
  const __global float* const in = FLOATS(core, d->input) + d->input_first + batch * d->input_batch;
  struct DepthwiseRow r;
  r.x = in + above * d->input_row - (size_t)d->left * d->input_pixel;
  r.y = FLOATS(core, d->result) + d->result_first + batch * d->result_batch + y * d->result_row;
  r.weights = FLOATS(core, d->weights);
  r.bias = FLOATS(core, d->bias);
  r.first = first_tap(above, d->dilation_height);
  r.end = end_tap(above, d->dilation_height, d->kernel_height, d->input_height);
  r.end_channel = max(min((part + 1) * all->channels, d->channels), (uint)WIDTH);
  r.channel = min(part * all->channels, (uint)r.end_channel - WIDTH);
  r.pixel = tile * all->pixels;
  r.end_pixel = min((tile + 1) * all->pixels, d->result_width);
  r.tap_row = (size_t)d->dilation_height * d->input_row;
  r.tap_column = (size_t)d->dilation_width * d->input_pixel;
  r.step = (size_t)d->stride_width * d->input_pixel;
  r.weight_step = d->channels;
  r.y_step = d->result_pixel;
  if (all->is_packed) {
    const size_t skip = min((size_t)min(rest % rows, item - begin), y);
    const size_t left = min((size_t)min(rows - rest % rows, end - item), d->result_height - y);
    depthwise_packed(core, d, &r, in, above, skip, left);
  }
  if (depthwise_is_spread(d) && !all->is_packed) depthwise_scalars(d, &r);
  else if (d->channels < WIDTH) depthwise_narrow_row(core, d, &r);
  else depthwise_row(d, &r);
}

void run_Depthwise(const Core* core, const __global Depthwise* d, const uint unit) {
  const struct DepthwiseItems all = depthwise_items(d);
  const uint items = depthwise_items_per_unit(core, d, &all), end = min((unit + 1) * items, all.count);
  for (uint item = unit * items; item < end; ++item) depthwise_item(core, d, &all, item, unit * items, end);
}
