// Windows of pixels, each channel by itself.

// result[n, y, x, c] = activate(mean or maximum of the input in the window that starts at y * stride_height - top, x *
// stride_width - left). Only the part of the window inside the input counts. The maximum ignores NaN.
// Tensors begin `..._first` floats after their `Place`; strides are in floats, too.
typedef struct {
  Place input, result;
  uint batches, input_height, input_width, result_height, result_width, channels;
  uint input_first, input_pixel, input_row, input_batch, result_first, result_pixel, result_row, result_batch;
  uint window_height, window_width, stride_height, stride_width, top, left, is_mean;
  uint activation;
  float low, high;
} Pool;

// Whether each window along one dimension begins within the input, and ends there.
bool meets_input(const uint input, const uint result, const uint window, const uint stride, const uint before) {
  return !result || (before <= window && (ulong)(result - 1) * stride <= (ulong)before + input);
}

uint check_Pool(const Check* check, const __global Pool* p) {
  CHECK_FIELDS(p->activation <= HARD_SWISH);
  CHECK_FIELDS(is_window(p->input_height, p->result_height, p->window_height, p->stride_height, 1, p->top));
  CHECK_FIELDS(is_window(p->input_width, p->result_width, p->window_width, p->stride_width, 1, p->left));
  CHECK_FIELDS(meets_input(p->input_height, p->result_height, p->window_height, p->stride_height, p->top));
  CHECK_FIELDS(meets_input(p->input_width, p->result_width, p->window_width, p->stride_width, p->left));
  CHECK_PLACE(1, reach_image(p->input_first, p->batches, p->input_batch, p->input_height, p->input_row,
                             p->input_width, p->input_pixel, p->channels), 4);
  CHECK_PLACE(2, reach_image(p->result_first, p->batches, p->result_batch, p->result_height, p->result_row,
                             p->result_width, p->result_pixel, p->channels), 4);
  CHECK_COUNT(2, count_image(p->batches, p->result_height, p->result_width, p->channels), 4);
  return FITS;
}

// A window's part that is inside, from its first pixel.
struct PoolWindow {
  const __global float* input;
  size_t height, width;
};

#define POOL_CHANNELS (4 * WIDTH)

// The mean sums each row first, so that its error does not grow with the window. `count` is a compile-time constant.
INLINE void pool_vectors(const __global Pool* p, const __global float* input, const size_t height, const size_t width,
                         __global float* y, const uint count) {
  Vector all[4], row[4];
#pragma unroll
  for (uint v = 0; v < count; ++v) all[v] = p->is_mean ? (Vector)0 : (Vector)-FLT_MAX;
  for (size_t i = 0; i < height; ++i) {
    const __global float* x = input + i * p->input_row;
    if (p->is_mean) {
#pragma unroll
      for (uint v = 0; v < count; ++v) row[v] = 0;
      for (size_t j = 0; j < width; ++j, x += p->input_pixel)
#pragma unroll
        for (uint v = 0; v < count; ++v) row[v] += LOAD(x + v * WIDTH);
#pragma unroll
      for (uint v = 0; v < count; ++v) all[v] += row[v];
    } else
      for (size_t j = 0; j < width; ++j, x += p->input_pixel)
#pragma unroll
        for (uint v = 0; v < count; ++v) {
          const Vector in = LOAD(x + v * WIDTH);
          all[v] = in > all[v] ? in : all[v];
        }
  }
  const float size = height * width;
#pragma unroll
  for (uint v = 0; v < count; ++v)
    STORE(activate(p->is_mean ? all[v] / size : all[v], p->activation, p->low, p->high), y + v * WIDTH);
}

// The channels from `begin` to `end` of the greatest of two by two pixels, all inside, for `pixels` results.
void pool_pairs(const __global Pool* p, const __global float* x, const size_t begin, const size_t end,
                const size_t pixels, __global float* y) {
  const size_t row = p->input_row, pixel = p->input_pixel, step = p->stride_width * pixel, y_step = p->result_pixel;
  const Vector low = p->low, high = p->high;
  for (size_t i = 0; i < pixels; ++i, x += step, y += y_step)
    for (size_t c = begin; c < end; c += WIDTH) {
      const size_t channel = min(c, end - WIDTH);
      const __global float* const in = x + channel;
      Vector all = -FLT_MAX;
      all = LOAD(in) > all ? LOAD(in) : all;
      all = LOAD(in + pixel) > all ? LOAD(in + pixel) : all;
      all = LOAD(in + row) > all ? LOAD(in + row) : all;
      all = LOAD(in + row + pixel) > all ? LOAD(in + row + pixel) : all;
      all = all < low ? low : all;
      STORE(all > high ? high : all, y + channel);
    }
}

void pool_scalars(const __global Pool* p, const struct PoolWindow* w, __global float* y) {
  for (size_t c = 0; c < p->channels; ++c) {
    float all = p->is_mean ? 0 : -FLT_MAX;
    for (size_t i = 0; i < w->height; ++i) {
      float row = 0;
      for (size_t j = 0; j < w->width; ++j) {
        const float x = w->input[i * p->input_row + j * p->input_pixel + c];
        if (p->is_mean) row += x;
        else if (x > all) all = x;
      }
      all += row;
    }
    const float result = p->is_mean ? all / (float)(w->height * w->width) : all;
    y[c] = activate((Vector)result, p->activation, p->low, p->high).s0;
  }
}

// The channels from `begin` of a pixel, at most POOL_CHANNELS; what is left of a vector is done by going back a little.
void pool_pixel(const __global Pool* p, const struct PoolWindow* w, const size_t begin, __global float* y) {
  const size_t end = min(begin + POOL_CHANNELS, (size_t)p->channels);
  if (p->channels < WIDTH) return pool_scalars(p, w, y);
  size_t c = begin;
  for (; c + 4 * WIDTH <= end; c += 4 * WIDTH) pool_vectors(p, w->input + c, w->height, w->width, y + c, 4);
  for (; c + 2 * WIDTH <= end; c += 2 * WIDTH) pool_vectors(p, w->input + c, w->height, w->width, y + c, 2);
  for (; c < end; c += WIDTH)
    pool_vectors(p, w->input + min(c, end - WIDTH), w->height, w->width, y + min(c, end - WIDTH), 1);
}

// An item is POOL_CHANNELS of a row of results.
uint pool_items(const __global Pool* p) {
  return p->batches * p->result_height * divide_up(p->channels, POOL_CHANNELS);
}
uint pool_items_per_unit(const Core* core, const __global Pool* p) {
  const ulong pixels = (ulong)p->result_width * p->window_height * p->window_width;
  return items_per_unit(core, pool_items(p), pixels * min(p->channels, (uint)POOL_CHANNELS));
}

uint units_Pool(const Core* core, const __global Pool* p) {
  return divide_up(pool_items(p), pool_items_per_unit(core, p));
}

void run_Pool(const Core* core, const __global Pool* p, const uint unit) {
  const uint items = pool_items_per_unit(core, p), parts = divide_up(p->channels, POOL_CHANNELS);
  const uint end = min((unit + 1) * items, pool_items(p));
  const bool has_pairs = p->window_height == 2 && p->window_width == 2 && p->input_width > 1 && !p->is_mean &&
                         !p->left && p->activation == CLAMP && p->channels >= WIDTH;
  for (uint item = unit * items; item < end; ++item) {
    const size_t row = item / parts, batch = row / p->result_height, y = row % p->result_height;
    const long above = (long)(y * p->stride_height) - p->top;
    const size_t first = max(above, 0l), last = min(above + (long)p->window_height, (long)p->input_height);
    const __global float* const image = FLOATS(core, p->input) + p->input_first + batch * p->input_batch;
    __global float* result = FLOATS(core, p->result) + p->result_first + batch * p->result_batch + y * p->result_row;
    const size_t part = (size_t)(item % parts) * POOL_CHANNELS;
    size_t x = 0;
    if (has_pairs && last - first == 2) {
      x = min((p->input_width - 2) / p->stride_width + 1, p->result_width);
      pool_pairs(p, image + first * p->input_row, part, min(part + POOL_CHANNELS, (size_t)p->channels), x, result);
      result += x * p->result_pixel;
    }
    for (; x < p->result_width; ++x, result += p->result_pixel) {
      const long before = (long)(x * p->stride_width) - p->left;
      const size_t left = max(before, 0l), right = min(before + (long)p->window_width, (long)p->input_width);
      const __global float* const corner = image + first * p->input_row + left * p->input_pixel;
      const struct PoolWindow window = {corner, last - first, right - left};
      pool_pixel(p, &window, part, result);
    }
  }
}
