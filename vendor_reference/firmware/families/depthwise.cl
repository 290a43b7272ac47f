// Convolutions of each channel by itself.

// result[n, y, x, c] = activate(bias[c] + sum(weights[i, j, c] * input[n, v, w, c / multiplier])), over the taps i, j
// for which v = y * stride_height + i * dilation_height - top, w = x * stride_width + j * dilation_width - left are
// inside.
//
// weights: [kernel_height, kernel_width, channels]. bias, and slopes for PRELU: [channels], or nowhere. residual: of the
// result's shape, see NO_RESIDUAL. Tensors begin `..._first` behind their places; their strides are in floats, too.
typedef struct {
  Place input, weights, bias, slopes, residual, result;
  uint batches, input_height, input_width, result_height, result_width, channels, multiplier;
  uint input_first, input_pixel, input_row, input_batch, result_first, result_pixel, result_row, result_batch;
  uint residual_first, residual_pixel, residual_row, residual_batch, residual_mode;
  uint kernel_height, kernel_width, stride_height, stride_width, dilation_height, dilation_width, top, left;
  uint activation;
  float low, high;
} Depthwise;

uint check_Depthwise(const Check* check, const __global Depthwise* d) {
  CHECK_FIELDS(d->multiplier && d->channels < MOST_SIZE && d->activation <= PRELU && d->residual_mode <= 2);
  CHECK_FIELDS(is_window(d->input_height, d->result_height, d->kernel_height, d->stride_height, d->dilation_height,
                         d->top));
  CHECK_FIELDS(is_window(d->input_width, d->result_width, d->kernel_width, d->stride_width, d->dilation_width,
                         d->left));
  const uint channels = d->channels / d->multiplier + (d->channels % d->multiplier > 0);
  CHECK_PLACE(1, reach_image(d->input_first, d->batches, d->input_batch, d->input_height, d->input_row,
                             d->input_width, d->input_pixel, channels), 4);
  CHECK_COUNT(2, count_image(1, d->kernel_height, d->kernel_width, d->channels), 4);
  if (d->bias.region != NOWHERE) CHECK_COUNT(3, d->channels, 4);
  if (d->slopes.region != NOWHERE || d->activation == PRELU) CHECK_COUNT(4, d->channels, 4);
  if (d->residual_mode != NO_RESIDUAL)
    CHECK_PLACE(5, reach_image(d->residual_first, d->batches, d->residual_batch, d->result_height, d->residual_row,
                               d->result_width, d->residual_pixel, d->channels), 4);
  CHECK_PLACE(6, reach_image(d->result_first, d->batches, d->result_batch, d->result_height, d->result_row,
                             d->result_width, d->result_pixel, d->channels), 4);
  CHECK_COUNT(6, count_image(d->batches, d->result_height, d->result_width, d->channels), 4);
  return FITS;
}

// A row of results, and the input that it is made of.
//
// x: the input of tap (0, 0) of the row's first pixel, perhaps in front of the tensor.
// first, end: the rows of taps that are inside.
// channel, end_channel: the channels to make, at least WIDTH. pixel, end_pixel: the pixels.
// tap_row, tap_column, step: from tap to tap of the input, and from pixel to pixel; y_step, residual_step: of these.
struct DepthwiseRow {
  const __global float *x, *weights, *bias, *slopes, *residual;
  __global float* y;
  size_t first, end, channel, end_channel, pixel, end_pixel, tap_row, tap_column, step, weight_step, y_step;
  size_t residual_step;
  struct Finish finish;
};

// The first of the taps that are inside, of those that begin at `begin` and are `apart`; and the end of these.
size_t first_tap(const long begin, const uint apart) { return begin >= 0 ? 0 : (size_t)((apart - 1 - begin) / apart); }
size_t end_tap(const long begin, const uint apart, const uint taps, const uint size) {
  return begin >= (long)size ? 0 : min((size_t)taps, (size_t)((size - begin + apart - 1) / apart));
}

// A vector of sums becomes results: the channels from `c` of pixel `x`.
NOINLINE void depthwise_store(const struct DepthwiseRow* r, const Vector sum, const size_t x, const size_t c) {
  const Vector slopes = r->slopes ? LOAD(r->slopes + c) : (Vector)0;
  const Vector residual = r->finish.residual_mode ? LOAD(r->residual + x * r->residual_step + c) : (Vector)0;
  STORE(finish_sum(&r->finish, sum, slopes, residual), r->y + x * r->y_step + c);
}

// The same of `pixels` neighbours, a constant.
INLINE void depthwise_finish(const struct DepthwiseRow* r, Vector* sum, const size_t x, const size_t c,
                             const uint pixels) {
#define EACH_PIXEL _Pragma("unroll") for (uint p = 0; p < pixels; ++p)
  const uint activation = r->finish.activation;
  if (activation != CLAMP && activation != PRELU && activation != HARD_SWISH) {
    EACH_PIXEL depthwise_store(r, sum[p], x + p, c);
    return;
  }
  const __global float* const residual = r->residual + x * r->residual_step + c;
  if (r->finish.residual_mode == BEFORE_ACTIVATION) EACH_PIXEL sum[p] += LOAD(residual + p * r->residual_step);
  if (activation == CLAMP) {
    const Vector low = r->finish.low, high = r->finish.high;
    EACH_PIXEL {
      sum[p] = sum[p] < low ? low : sum[p];
      sum[p] = sum[p] > high ? high : sum[p];
    }
  } else if (activation == PRELU) {
    const Vector slopes = LOAD(r->slopes + c);
    EACH_PIXEL sum[p] = sum[p] < 0 ? sum[p] * slopes : sum[p];
  } else {
    EACH_PIXEL sum[p] = activate(sum[p], HARD_SWISH, 0, 0);
  }
  if (r->finish.residual_mode == BEHIND_ACTIVATION) EACH_PIXEL sum[p] += LOAD(residual + p * r->residual_step);
  __global float* const y = r->y + x * r->y_step + c;
  EACH_PIXEL STORE(sum[p], y + p * r->y_step);
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
  for (uint v = 0; v < count; ++v) depthwise_store(r, sum[v], x, c + v * WIDTH);
}

// The pixels of a row, whatever its taps are.
void depthwise_pixels(const __global Depthwise* d, const struct DepthwiseRow* r) {
  for (size_t x = r->pixel; x < r->end_pixel; ++x) {
    const long at = (long)(x * d->stride_width) - d->left;
    const size_t first = first_tap(at, d->dilation_width);
    const size_t last = end_tap(at, d->dilation_width, d->kernel_width, d->input_width);
    size_t c = r->channel;
    for (; c + 4 * WIDTH <= r->end_channel; c += 4 * WIDTH) depthwise_pixel(d, r, x, c, first, last, 4);
    for (; c < r->end_channel; c += WIDTH) depthwise_pixel(d, r, x, min(c, r->end_channel - WIDTH), first, last, 1);
  }
}

// One vector of channels of `pixels` pixels: each input is loaded once for all of them.
//   first, last: the columns of the input to take, from the first tap of pixel `x` on; all, where `inside`.
//   taps, stride, pixels, inside: constants.
INLINE void depthwise_block(const struct DepthwiseRow* r, const size_t x, const size_t c, const long first,
                            const long last, const uint taps, const uint stride, const uint pixels, const bool inside) {
  Vector sum[8], w[5];
  const Vector bias = r->bias ? LOAD(r->bias + c) : (Vector)0;
  EACH_PIXEL sum[p] = bias;
  const __global float* row = r->x + x * r->step + r->first * r->tap_row + c;
  const __global float* weights = r->weights + r->first * taps * r->weight_step + c;
  for (size_t i = r->first; i < r->end; ++i, row += r->tap_row) {
#pragma unroll
    for (uint j = 0; j < taps; ++j, weights += r->weight_step) w[j] = LOAD(weights);
#pragma unroll
    for (uint q = 0; q < (pixels - 1) * stride + taps; ++q) {
      if (!inside && (q < first || q >= last)) continue;
      const Vector in = LOAD(row + q * r->tap_column);
      EACH_PIXEL if (q >= p * stride && q < p * stride + taps) sum[p] = mad(in, w[q - p * stride], sum[p]);
    }
  }
  depthwise_finish(r, sum, x, c, pixels);
}

// The pixels from `x` on, all of whose channels.
INLINE void depthwise_blocks(const __global Depthwise* d, const struct DepthwiseRow* r, const size_t x, const uint taps,
                             const uint stride, const uint pixels) {
  const long first = (long)d->left - (long)(x * stride), last = (long)d->input_width + first;
  if (first <= 0 && last >= (pixels - 1) * stride + taps) {
    for (size_t c = r->channel; c < r->end_channel; c += WIDTH)
      depthwise_block(r, x, min(c, r->end_channel - WIDTH), 0, 0, taps, stride, pixels, true);
  } else {
    for (size_t c = r->channel; c < r->end_channel; c += WIDTH)
      depthwise_block(r, x, min(c, r->end_channel - WIDTH), first, last, taps, stride, pixels, false);
  }
}

// A row of at least two pixels, eight at once; what is left of a block or of a vector is done by going back a little.
INLINE void depthwise_eights(const __global Depthwise* d, const struct DepthwiseRow* r, const uint taps,
                             const uint stride) {
  const size_t end = r->end_pixel, pixels = end - r->pixel;
  size_t x = r->pixel;
  if (pixels >= 8)
    for (; x + 4 < end; x += 8) depthwise_blocks(d, r, min(x, end - 8), taps, stride, 8);
  if (pixels >= 4)
    for (; x < end; x += 4) depthwise_blocks(d, r, min(x, end - 4), taps, stride, 4);
  for (; x < end; x += 2) depthwise_blocks(d, r, min(x, end - 2), taps, stride, 2);
}

void depthwise_row(const __global Depthwise* d, const struct DepthwiseRow* r) {
  const bool is_dense = d->dilation_width == 1 && r->end_pixel - r->pixel > 1;
  switch (is_dense ? d->kernel_width * 10 + d->stride_width : 0) {
    case 11: depthwise_eights(d, r, 1, 1); break;
    case 31: depthwise_eights(d, r, 3, 1); break;
    case 32: depthwise_eights(d, r, 3, 2); break;
    case 51: depthwise_eights(d, r, 5, 1); break;
    case 52: depthwise_eights(d, r, 5, 2); break;
    default: depthwise_pixels(d, r);
  }
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
    const ulong kept = WIDTH * (2 + 2 * all.pixels + (ulong)d->kernel_height * d->kernel_width);
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

// Copies bias, slopes and weights of fewer channels than a vector has.
void depthwise_pack_weights(const __global Depthwise* d, struct DepthwiseRow* r, __global float* to) {
  const size_t taps = d->kernel_height * d->kernel_width;
  STORE(r->bias ? load_first(r->bias, d->channels) : 0, to);
  STORE(r->slopes ? load_first(r->slopes, d->channels) : 0, to + WIDTH);
  for (size_t i = 0; i < taps; ++i)
    STORE(load_first(r->weights + i * d->channels, d->channels), to + (2 + i) * WIDTH);
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
  __global float* const window = core->scratch + WIDTH * (taps + 2);
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
    r->bias = core->scratch;
    r->slopes = core->scratch + WIDTH;
    r->weights = core->scratch + 2 * WIDTH;
    r->weight_step = WIDTH;
  }
}

// Makes a row of fewer channels than a vector has, by way of the end of the scratch.
void depthwise_narrow_row(const Core* core, const __global Depthwise* d, struct DepthwiseRow* r) {
  __global float* const y = r->y;
  __global float* const made = core->scratch + SCRATCH - WIDTH * (r->end_pixel - r->pixel);
  if (d->residual_mode) {
    __global float* const residual = made - WIDTH * (r->end_pixel - r->pixel) - r->pixel * WIDTH;
    for (size_t x = r->pixel; x < r->end_pixel; ++x)
      STORE(load_first(r->residual + x * r->residual_step, d->channels), residual + x * WIDTH);
    r->residual = residual;
    r->residual_step = WIDTH;
  }
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
      const float slope = r->slopes ? r->slopes[c] : 0;
      const float residual = d->residual_mode ? r->residual[x * r->residual_step + c] : 0;
      r->y[x * r->y_step + c] = finish_sum(&r->finish, (Vector)sum, (Vector)slope, (Vector)residual).s0;
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
  const struct Finish finish = {d->residual_mode, d->activation, d->low, d->high};
  struct DepthwiseRow r;
  r.finish = finish;
  r.x = in + above * d->input_row - (size_t)d->left * d->input_pixel;
  r.y = FLOATS(core, d->result) + d->result_first + batch * d->result_batch + y * d->result_row;
  r.weights = FLOATS(core, d->weights);
  r.bias = FLOATS(core, d->bias);
  r.slopes = FLOATS(core, d->slopes);
  r.residual = FLOATS(core, d->residual) + d->residual_first + batch * d->residual_batch + y * d->residual_row;
  r.residual_step = d->residual_pixel;
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
