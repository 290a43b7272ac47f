// Images of another size.

// result[n, y, x, c] is the input around the place of pixel (y, x) in it: mixed of four pixels, or the nearest.
// Tensors begin `..._first` behind their places; their strides are in floats, too.
typedef struct {
  Place input, result;
  uint batches, input_height, input_width, result_height, result_width, channels;
  uint input_first, input_pixel, input_row, input_batch, result_first, result_pixel, result_row, result_batch;
  uint is_nearest, align_corners, half_pixel_centers;
} Resize;

uint check_Resize(const Check* check, const __global Resize* r) {
  CHECK_FIELDS(r->input_height && r->input_width && !(r->align_corners && r->half_pixel_centers));
  CHECK_FIELDS(max(max(r->input_height, r->input_width), max(r->result_height, r->result_width)) < MOST_SIZE);
  CHECK_PLACE(1, reach_image(r->input_first, r->batches, r->input_batch, r->input_height, r->input_row,
                             r->input_width, r->input_pixel, r->channels), 4);
  CHECK_PLACE(2, reach_image(r->result_first, r->batches, r->result_batch, r->result_height, r->result_row,
                             r->result_width, r->result_pixel, r->channels), 4);
  CHECK_COUNT(2, count_image(r->batches, r->result_height, r->result_width, r->channels), 4);
  return FITS;
}

// Where a pixel of the result is in the input, along one dimension: between two indices, `part` of the way.
struct ResizePoint {
  uint low, high;
  float part;
};

struct ResizePoint resize_point(const __global Resize* r, const uint i, const uint size, const uint result_size) {
  const bool align = r->align_corners && result_size > 1;
  const float scale = align ? (float)(size - 1) / (float)(result_size - 1) : (float)size / (float)result_size;
  const float half_pixel = r->half_pixel_centers ? 0.5f : 0.0f;
  float at = ((float)i + half_pixel) * scale;
  if (r->is_nearest) {
    const int index = (int)(r->align_corners ? round(at) : floor(at));
    const uint nearest = clamp(index, 0, (int)size - 1);
    return (struct ResizePoint){nearest, nearest, 0};
  }
  at -= half_pixel;
  const int low = clamp((int)floor(at), 0, (int)size - 1);
  return (struct ResizePoint){low, min((int)ceil(at), (int)size - 1), at - (float)low};
}

// A row of results, of rows `above` and `below` of the input. points: three floats for each pixel, with the bits of the
// offsets of `low` and `high`, and `part`. What is left of a vector is done by going back a little.
NOINLINE void resize_row(const __global Resize* r, const __global float* above, const __global float* below,
                         const float part, const __global float* points, __global float* y, const size_t count) {
  const size_t channels = r->channels, step = r->result_pixel;
  const Vector lower = part, upper = 1 - part;
  for (size_t x = 0; x < count; ++x, y += step, points += 3) {
    const size_t left = as_uint(points[0]), right = as_uint(points[1]);
    const Vector across = points[2], back = 1 - across;
    for (size_t i = 0; i < channels; i += WIDTH) {
      const size_t c = min(i, channels - WIDTH);
      const Vector up = LOAD(above + left + c) * back + LOAD(above + right + c) * across;
      const Vector down = LOAD(below + left + c) * back + LOAD(below + right + c) * across;
      STORE(up * upper + down * lower, y + c);
    }
  }
}

// The same of fewer channels than a vector has.
NOINLINE void resize_narrow_row(const __global Resize* r, const __global float* above, const __global float* below,
                                const float part, const __global float* points, __global float* y,
                                const size_t count) {
  for (size_t x = 0; x < count; ++x, y += r->result_pixel, points += 3) {
    const size_t left = as_uint(points[0]), right = as_uint(points[1]);
    for (size_t c = 0; c < r->channels; ++c) {
      const float up = above[left + c] * (1 - points[2]) + above[right + c] * points[2];
      const float down = below[left + c] * (1 - points[2]) + below[right + c] * points[2];
      y[c] = up * (1 - part) + down * part;
    }
  }
}

// The same of the nearest pixels, of any number of channels.
NOINLINE void repeat_row(const __global Resize* r, const __global float* from, const __global float* points,
                         __global float* y, const size_t count) {
  const size_t channels = r->channels, step = r->result_pixel;
  for (size_t x = 0; x < count; ++x, y += step, points += 3) {
    const __global float* const pixel = from + as_uint(points[0]);
    if (channels < WIDTH)
      for (size_t c = 0; c < channels; ++c) y[c] = pixel[c];
    else
      for (size_t c = 0; c < channels; c += WIDTH)
        STORE(LOAD(pixel + min(c, channels - WIDTH)), y + min(c, channels - WIDTH));
  }
}

uint resize_rows(const Core* core, const __global Resize* r) {
  return items_per_unit(core, r->batches * r->result_height, (ulong)r->result_width * r->channels);
}

uint units_Resize(const Core* core, const __global Resize* r) {
  return divide_up(r->batches * r->result_height, resize_rows(core, r));
}

void run_Resize(const Core* core, const __global Resize* r, const uint unit) {
  const uint rows = resize_rows(core, r), end = min((unit + 1) * rows, r->batches * r->result_height);
  const uint most = SCRATCH / 3;
  for (uint begin = 0; begin < r->result_width; begin += most) {
    const uint count = min(r->result_width - begin, most);
    for (uint i = 0; i < count; ++i) {
      const struct ResizePoint column = resize_point(r, begin + i, r->input_width, r->result_width);
      core->scratch[3 * i] = as_float(column.low * r->input_pixel);
      core->scratch[3 * i + 1] = as_float(column.high * r->input_pixel);
      core->scratch[3 * i + 2] = column.part;
    }
    for (uint item = unit * rows; item < end; ++item) {
      const size_t batch = item / r->result_height, line = item % r->result_height;
      const struct ResizePoint row = resize_point(r, line, r->input_height, r->result_height);
      const __global float* const in = FLOATS(core, r->input) + r->input_first + batch * r->input_batch;
      __global float* const image = FLOATS(core, r->result) + r->result_first + batch * r->result_batch;
      const __global float* const above = in + (size_t)row.low * r->input_row;
      const __global float* const below = in + (size_t)row.high * r->input_row;
      __global float* const y = image + line * r->result_row + begin * r->result_pixel;
      if (r->is_nearest) repeat_row(r, above, core->scratch, y, count);
      else if (r->channels < WIDTH) resize_narrow_row(r, above, below, row.part, core->scratch, y, count);
      else resize_row(r, above, below, row.part, core->scratch, y, count);
    }
  }
}
