// Convolutions as matrix products: a row contains the part of the input that a pixel of the result depends on, and is
// read in place.

// result = activation(bias + convolution of input with weights), for images [batches, height, width, channels].
//   input, result, residual: The first float of each lies `..._first` floats after its `Place`; strides are in floats.
//   depth, columns: Number of channels of a group, in the input and in the result.
//   weights: Panels of the columns of all groups, with kernel_height * kernel_width * depth rows.
//   top, left: Number of rows and columns of zeros around the input; for a transposed convolution, of rows and columns
//   that are omitted from the result.
//   transposed: Whether the convolution is transposed: each pixel of the input contributes to several pixels of the
//   result, and strides are those of the result.
//   slopes: Slope of each column, for PRELU.
//   residual_mode: How the residual is added, see NO_RESIDUAL.
typedef struct {
  Place input, weights, bias, slopes, residual, result;
  uint batches, groups, depth, columns;
  uint input_first, input_height, input_width, input_batch, input_row, input_pixel;
  uint result_first, result_height, result_width, result_batch, result_row, result_pixel;
  uint residual_first, residual_batch, residual_row, residual_pixel, residual_mode;
  uint kernel_height, kernel_width, stride_height, stride_width, dilation_height, dilation_width;
  int top, left;
  uint transposed, activation;
  float low, high;
} Convolution;

uint check_Convolution(const Check* check, const __global Convolution* c) {
  CHECK_FIELDS(c->groups && c->activation <= PRELU && c->residual_mode <= BEHIND_ACTIVATION);
  CHECK_FIELDS(is_window(c->input_height, c->result_height, c->kernel_height, c->stride_height, c->dilation_height,
                         abs(c->top)));
  CHECK_FIELDS(is_window(c->input_width, c->result_width, c->kernel_width, c->stride_width, c->dilation_width,
                         abs(c->left)));
  CHECK_FIELDS(!c->transposed || count_of(c->stride_height, c->stride_width) < 1u << 16);
  const ulong columns = count_of(c->groups, c->columns), taps = count_of(c->kernel_height, c->kernel_width);
  CHECK_FIELDS(taps < MOST_SIZE && columns < MOST_SIZE && c->depth < MOST_SIZE);
  CHECK_PLACE(1, reach_image(c->input_first, c->batches, c->input_batch, c->input_height, c->input_row,
                             c->input_width, c->input_pixel, count_of(c->groups, c->depth)), 4);
  CHECK_COUNT(2, count_of(count_of(divide_up((uint)columns, PANEL), PANEL), count_of(taps, c->depth)), 4);
  if (c->bias.region != NOWHERE) CHECK_COUNT(3, columns, 4);
  if (c->activation == PRELU) CHECK_COUNT(4, columns, 4);
  if (c->residual_mode != NO_RESIDUAL)
    CHECK_PLACE(5, reach_image(c->residual_first, c->batches, c->residual_batch, c->result_height, c->residual_row,
                               c->result_width, c->residual_pixel, columns), 4);
  CHECK_PLACE(6, reach_image(c->result_first, c->batches, c->result_batch, c->result_height, c->result_row,
                             c->result_width, c->result_pixel, columns), 4);
  CHECK_COUNT(6, count_image(c->batches, c->result_height, c->result_width, columns), 4);
  return FITS;
}

// A dimension of the images, in one phase: result `out + i * out_step` sees, by tap `tap + t * tap_step` of the kernel,
// input `in + i * in_step + t * in_tap`. A transposed convolution has a phase for each rest of result and stride.
struct Axis {
  int count, taps, out, out_step, tap, tap_step, in, in_step, in_tap;
};

struct Axis convolution_axis(const bool transposed, const int phase, const int result, const int window,
                             const int stride, const int dilation, const int before) {
  const struct Axis plain = {result, window, 0, 1, 0, 1, -before, stride, dilation};
  if (!transposed) return plain;
  const int out = (phase + stride - before % stride) % stride;
  const struct Axis spread = {max(result - out + stride - 1, 0) / stride, max(window - phase + stride - 1, 0) / stride,
                              out, stride, phase, stride, (out + before - phase) / stride, 1, -1};
  return spread;
}


struct ProductTiles convolution_tiles(const Core* core, const __global Convolution* c) {
  const uint step_y = c->transposed ? c->stride_height : 1, step_x = c->transposed ? c->stride_width : 1;
  const uint pixels = divide_up(c->result_height, step_y) * divide_up(c->result_width, step_x);
  const uint depth = c->kernel_height * c->kernel_width * c->depth / (step_y * step_x);
  const uint columns = c->groups == 1 ? c->columns : c->columns + WIDTH - 1;  // a group may begin within a vector
  return product_tiles(core, c->batches * pixels, columns, depth, c->groups * step_y * step_x);
}

// What a unit works on: one phase, and one group: `x` is at its first channel.
//   is_joined: whether taps of a row of the kernel lie behind each other in the input: they are one stretch.
struct ConvolutionUnit {
  const __global float *x, *residual;
  __global float* y;
  size_t channels, kernel_width;
  long x_image, x_row, x_pixel, y_image, y_row, y_pixel, residual_image, residual_row, residual_pixel;
  int images, height, width;
  bool is_joined;
  struct Axis vertical, horizontal;
};

// Numbers from `begin` to `end`.
struct Span {
  int begin, end;
};

// The taps by which result `i` sees the input, which has `size` elements.
struct Span taps_inside(const struct Axis a, const int i, const int size) {
  const int at = a.in + i * a.in_step;
  struct Span s;
  if (a.in_tap > 0) {
    s.begin = at < 0 ? (a.in_tap - 1 - at) / a.in_tap : 0;
    s.end = at < size ? (size - 1 - at) / a.in_tap + 1 : 0;
  } else {
    s.begin = max(at - size + 1, 0);
    s.end = at + 1;
  }
  s.end = min(s.end, a.taps);
  s.begin = min(s.begin, max(s.end, 0));
  s.end = max(s.end, s.begin);
  return s;
}

// The results that see the input by all taps.
struct Span inner_results(const struct Axis a, const int size) {
  const int reach = max(a.taps - 1, 0) * a.in_tap, before = a.in + min(reach, 0), behind = a.in + max(reach, 0);
  struct Span s;
  s.begin = min(before < 0 ? (a.in_step - 1 - before) / a.in_step : 0, a.count);
  s.end = behind < size ? min((size - 1 - behind) / a.in_step + 1, a.count) : 0;
  s.end = max(s.end, s.begin);
  return s;
}

// Makes `count` results that see the input by the same taps, from one on: side by side or one below the other.
void convolve(const struct ConvolutionUnit* u, const int image, const int row, const int column, const int count,
              const bool is_down, const struct Matrix* m, const struct Finish* finish) {
  const struct Axis a = u->vertical, b = u->horizontal;
  const struct Span high = taps_inside(a, row, u->height), wide = taps_inside(b, column, u->width);
  const long y = a.in + row * a.in_step + high.begin * a.in_tap, x = b.in + column * b.in_step + wide.begin * b.in_tap;
  const size_t tap = (a.tap + high.begin * a.tap_step) * u->kernel_width + b.tap + wide.begin * b.tap_step;
  const long to_row = a.out + row * a.out_step, to_column = b.out + column * b.out_step;
  struct Run run;
  run.num_rows = count;
  run.taps_across = wide.end - wide.begin;
  run.depth = u->channels;
  if (u->is_joined) run.depth *= run.taps_across, run.taps_across = 1;
  run.num_taps = (high.end - high.begin) * run.taps_across;
  run.x = u->x + image * u->x_image + y * u->x_row + x * u->x_pixel;
  run.y = u->y + image * u->y_image + to_row * u->y_row + to_column * u->y_pixel;
  run.residual = u->residual + image * u->residual_image + to_row * u->residual_row + to_column * u->residual_pixel;
  run.x_row = is_down ? a.in_step * u->x_row : b.in_step * u->x_pixel;
  run.y_row = is_down ? a.out_step * u->y_row : b.out_step * u->y_pixel;
  run.residual_row = is_down ? a.out_step * u->residual_row : b.out_step * u->residual_pixel;
  run.weights = tap * u->channels * PANEL;
  run.x_tap[0] = b.in_tap * u->x_pixel;
  run.weights_tap[0] = b.tap_step * u->channels * PANEL;
  const long back = (long)run.taps_across - 1;
  run.x_tap[1] = a.in_tap * u->x_row - back * run.x_tap[0];
  run.weights_tap[1] = a.tap_step * u->kernel_width * u->channels * PANEL - back * run.weights_tap[0];
  multiply_run(&run, m, finish);
}

// Makes the results from number `first` to `last` of an image: the inner ones of a row side by side, and those at the
// left and the right one below the other, as far as they see the input by the same taps.
void convolve_image(const struct ConvolutionUnit* u, const int image, const int first, const int last,
                    const struct Matrix* m, const struct Finish* finish) {
  const int width = u->horizontal.count, begin = first / width, end = (last + width - 1) / width;
  const struct Span high = inner_results(u->vertical, u->height);
  struct Span wide = inner_results(u->horizontal, u->width);
  if (wide.end - wide.begin < min(high.end - high.begin, MOST_ROWS)) wide.begin = wide.end = 0;
  for (int row = begin; row < end && wide.begin < wide.end; ++row) {
    const int from = max(first - row * width, wide.begin), to = min(last - row * width, wide.end);
    if (from < to) convolve(u, image, row, from, to - from, false, m, finish);
  }
  for (int column = wide.begin ? 0 : wide.end; column < width; column = column + 1 == wide.begin ? wide.end : column + 1) {
    const int top = begin + (begin * width + column < first), bottom = end - ((end - 1) * width + column >= last);
    for (int row = top; row < bottom;) {
      const bool is_inner = row >= high.begin && row < high.end;
      const int count = is_inner ? min(bottom, high.end) - row : 1;
      convolve(u, image, row, column, count, true, m, finish);
      row += count;
    }
  }
}

uint units_Convolution(const Core* core, const __global Convolution* c) {
  const struct ProductTiles tiles = convolution_tiles(core, c);
  const uint phases = c->transposed ? c->stride_height * c->stride_width : 1;
  return tiles.row_tiles * tiles.column_tiles * c->groups * phases;
}

// A convolution that takes pixel for pixel is one over a single row, where the rows lie behind each other.
void join_rows(struct ConvolutionUnit* u) {
  const struct Axis a = u->horizontal, b = u->vertical;
  const bool plain = a.taps * b.taps * a.in_step * b.in_step * a.out_step * b.out_step == 1 &&
                     (a.in | b.in | a.out | b.out) == 0 && a.count == u->width && b.count == u->height;
  if (!plain || u->x_row != u->width * u->x_pixel || u->y_row != u->width * u->y_pixel ||
      u->residual_row != u->width * u->residual_pixel)
    return;
  u->horizontal.count = u->width = u->width * u->height;
  u->vertical.count = u->height = 1;
  if (u->x_image != u->width * u->x_pixel || u->y_image != u->width * u->y_pixel ||
      u->residual_image != u->width * u->residual_pixel)
    return;
  u->horizontal.count = u->width = u->width * u->images;
  u->images = 1;
}

struct ConvolutionUnit convolution_unit(const Core* core, const __global Convolution* c, const uint group, const uint phase) {
  struct ConvolutionUnit u;
  u.channels = c->depth;
  u.x = FLOATS(core, c->input) + c->input_first + (size_t)group * c->depth;
  u.y = FLOATS(core, c->result) + c->result_first;
  u.residual = FLOATS(core, c->residual) + c->residual_first;
  u.kernel_width = c->kernel_width;
  u.images = c->batches;
  u.height = c->input_height;
  u.width = c->input_width;
  u.x_image = c->input_batch;
  u.x_row = c->input_row;
  u.x_pixel = c->input_pixel;
  u.y_image = c->result_batch;
  u.y_row = c->result_row;
  u.y_pixel = c->result_pixel;
  u.residual_image = c->residual_mode ? c->residual_batch : c->result_batch;
  u.residual_row = c->residual_mode ? c->residual_row : c->result_row;
  u.residual_pixel = c->residual_mode ? c->residual_pixel : c->result_pixel;
  const uint step_x = c->transposed ? c->stride_width : 1;
  u.vertical = convolution_axis(c->transposed, phase / step_x, c->result_height, c->kernel_height, c->stride_height,
                                c->dilation_height, c->top);
  u.horizontal = convolution_axis(c->transposed, phase % step_x, c->result_width, c->kernel_width, c->stride_width,
                                  c->dilation_width, c->left);
  u.is_joined = !c->transposed && c->dilation_width == 1 && c->input_pixel == c->depth;
  join_rows(&u);
  return u;
}

void run_Convolution(const Core* core, const __global Convolution* c, const uint unit) {
  const struct ProductTiles tiles = convolution_tiles(core, c);
  const uint column_tile = unit / tiles.row_tiles % tiles.column_tiles;
  const uint product = unit / tiles.row_tiles / tiles.column_tiles, group = product % c->groups;
  const struct ConvolutionUnit u = convolution_unit(core, c, group, product / c->groups);
  const uint size = u.vertical.count * u.horizontal.count;
  const uint first = unit % tiles.row_tiles * tiles.rows, last = min(first + tiles.rows, u.images * size);
  struct Matrix m;
  m.weights = FLOATS(core, c->weights);
  m.bias = FLOATS(core, c->bias);
  m.slopes = FLOATS(core, c->slopes);
  m.depth = (size_t)c->kernel_height * c->kernel_width * c->depth;
  m.begin = (size_t)group * c->columns;
  m.end = m.begin + c->columns;
  m.first = m.begin / WIDTH * WIDTH + column_tile * tiles.columns;
  m.last = min(m.first + tiles.columns, m.end);
  if (first >= last || m.first >= m.last) return;
  m.narrow = 0;
  const size_t taps_across = u.is_joined ? 1 : u.kernel_width, depth = c->depth * (u.is_joined ? u.kernel_width : 1);
  if (is_narrow(m.end, c->kernel_height * taps_across, depth) && m.end * m.depth <= SCRATCH) {
    m.narrow = core->scratch;
    unpack_narrow(m.weights, m.end, m.depth, core->scratch);
  }
  const struct Finish finish = {c->residual_mode, c->activation, c->low, c->high};
  for (uint image = first / size; image * size < last; ++image) {
    const uint before = image * size;
    convolve_image(&u, image, max(first, before) - before, min(last - before, size), &m, &finish);
  }
}
