// Windows of pixels, each channel by itself.

// result[n, y, x, c] = activate(the mean, or the greatest, of the input in the window at y * stride_height - top,
// x * stride_width - left, of what of it is inside the input). The greatest leaves out what is no number.
// Tensors begin `..._first` behind their places; their strides are in floats, too.
typedef struct {
  Place input, result;
  uint batches, input_height, input_width, result_height, result_width, channels;
  uint input_first, input_pixel, input_row, input_batch, result_first, result_pixel, result_row, result_batch;
  uint window_height, window_width, stride_height, stride_width, top, left, is_mean;
  uint activation;
  float low, high;
} Pool;

// A window's part that is inside, from its first pixel.
struct PoolWindow {
  const __global float* input;
  size_t height, width;
};

#define POOL_CHANNELS (4 * WIDTH)

// The mean sums rows first: then its error does not grow with the window. `count` is a constant.
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

// The greatest of two by two pixels.
INLINE void pool_four(const __global Pool* p, const __global float* x, __global float* y) {
  Vector all = -FLT_MAX;
#pragma unroll
  for (uint i = 0; i < 4; ++i) {
    const Vector in = LOAD(x + i / 2 * p->input_row + i % 2 * p->input_pixel);
    all = in > all ? in : all;
  }
  STORE(activate(all, p->activation, p->low, p->high), y);
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
  if (w->height == 2 && w->width == 2 && !p->is_mean) {
    for (; c < end; c += WIDTH) pool_four(p, w->input + min(c, end - WIDTH), y + min(c, end - WIDTH));
    return;
  }
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
  for (uint item = unit * items; item < end; ++item) {
    const size_t row = item / parts, batch = row / p->result_height, y = row % p->result_height;
    const long above = (long)(y * p->stride_height) - p->top;
    const size_t first = max(above, 0l), last = min(above + (long)p->window_height, (long)p->input_height);
    const __global float* const image = FLOATS(core, p->input) + p->input_first + batch * p->input_batch;
    __global float* result = FLOATS(core, p->result) + p->result_first + batch * p->result_batch + y * p->result_row;
    for (size_t x = 0; x < p->result_width; ++x, result += p->result_pixel) {
      const long before = (long)(x * p->stride_width) - p->left;
      const size_t left = max(before, 0l), right = min(before + (long)p->window_width, (long)p->input_width);
      const __global float* const corner = image + first * p->input_row + left * p->input_pixel;
      const struct PoolWindow window = {corner, last - first, right - left};
      pool_pixel(p, &window, (size_t)(item % parts) * POOL_CHANNELS, result);
    }
  }
}
