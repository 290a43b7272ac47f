// Convolutions as products: a row is what a pixel of the result sees of the input, and is read where it lies.

// result = activation(bias + convolution of input with weights), for images [batches, height, width, channels].
//   input, result, residual: their first floats are `..._first` behind the places; strides are in floats.
//   depth, columns: channels of a group, of the input and of the result.
//   weights: panels of all groups' columns, with kernel_height * kernel_width * depth rows.
//   top, left: rows and columns of zeros around the input; of a transposed one, those of the result that are left out.
//   transposed: whether each pixel of the input is spread over the result, and strides are those of the result.
//   slopes: of the columns, for PRELU.
//   residual_mode: see NO_RESIDUAL.
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

// What a unit works on: one phase, and one group: `x` is at its first channel, its columns are from `begin` to `end`.
//   joined: taps of a row of the kernel that lie behind each other in the input: they are one tap of `depth` floats.
struct ConvolutionUnit {
  const __global float *x, *weights, *bias, *slopes, *residual;
  __global float *y, *zeros, *copies;
  size_t depth, weights_depth, begin, end, channels;
  size_t x_image, x_row, x_pixel, y_image, y_row, y_pixel, residual_image, residual_row, residual_pixel;
  int images, height, width, joined, kernel_width;
  struct Axis vertical, horizontal;
};

// A pixel of the result, counted in one phase.
struct Pixel {
  int image, row, column;
};

struct Pixel next_pixel(const struct ConvolutionUnit* u, const struct Pixel p) {
  struct Pixel next = {p.image, p.row, p.column + 1};
  if (next.column < u->horizontal.count) return next;
  next.column = 0;
  if (++next.row < u->vertical.count) return next;
  next.row = 0;
  ++next.image;
  return next;
}

// What pixel `p` sees by a tap, from row `y` of the input on; taps that lie partly outside are copied to `copy`.
const __global float* convolution_row(const struct ConvolutionUnit* u, const struct Pixel p, const int tap_y,
                                      const int tap_x, __global float* copy) {
  const int y = u->vertical.in + p.row * u->vertical.in_step + tap_y * u->vertical.in_tap;
  const int x = u->horizontal.in + p.column * u->horizontal.in_step + tap_x * u->horizontal.in_tap;
  const int width = u->width, taps = u->joined;
  if (y < 0 || y >= u->height || x + taps <= 0 || x >= width) return u->zeros;
  const __global float* const row = u->x + p.image * u->x_image + y * u->x_row;
  if (x >= 0 && x + taps <= width) return row + x * u->x_pixel;
  const size_t before = max(-x, 0) * u->channels, end = min(width - x, taps) * u->channels;
  for (size_t i = 0; i < u->depth; ++i) copy[i] = i >= before && i < end ? row[x * (long)u->channels + (long)i] : 0;
  return copy;
}

// Whether `rows` pixels from `p` on lie in one row, and see nothing outside but whole rows.
bool is_inside(const struct ConvolutionUnit* u, const struct Pixel p, const int rows) {
  const struct Axis a = u->horizontal;
  const int first = a.in + p.column * a.in_step, last = first + (rows - 1) * a.in_step;
  const int reach = (a.taps - 1) * a.in_tap;
  return p.column + rows <= a.count && min(first, first + reach) >= 0 &&
         max(last, last + reach) + u->joined <= u->width;
}

// Finds what the block's rows see by the taps from number `tap` on; returns the next tap's number.
NOINLINE int find_taps(const struct ConvolutionUnit* u, const struct Pixel first, int tap, struct BlockRows* block) {
  const bool inside = is_inside(u, first, block->num_rows);
  const int across = u->horizontal.taps, end = u->vertical.taps * across;
  const size_t step = u->horizontal.in_step * u->x_pixel, last = block->num_rows - 1;
  int y = across == 1 ? tap : tap / across, x = tap - y * across;
  size_t count = 0;
  for (; tap < end && count < TAPS; ++tap, y += ++x == across, x = x == across ? 0 : x) {
    const __global float** const rows = block->taps[count];
    const __global float* row = convolution_row(u, first, y, x, u->copies + count * ROWS * u->depth);
    if (inside) {
      if (row == u->zeros) continue;
      for (size_t r = 0; r < ROWS; ++r) rows[r] = row + min(r, last) * step;
    } else {
      struct Pixel pixel = first;
      for (size_t r = 0; r < ROWS; ++r) {
        rows[r] = row;
        if (r >= last) continue;
        pixel = next_pixel(u, pixel);
        row = convolution_row(u, pixel, y, x, u->copies + (count * ROWS + r + 1) * u->depth);
      }
    }
    const size_t number = (u->vertical.tap + y * u->vertical.tap_step) * u->kernel_width + u->horizontal.tap +
                          x * u->horizontal.tap_step;
    block->weights[count++] = number * u->channels * PANEL;
  }
  block->num_taps = count;
  block->depth = u->depth;
  return tap;
}

// Finds where the block's rows go; returns the pixel behind them.
struct Pixel find_results(const struct ConvolutionUnit* u, struct Pixel p, struct BlockRows* block) {
  const size_t last = block->num_rows - 1;
  __global float* y = 0;
  const __global float* residual = 0;
  for (size_t r = 0; r < ROWS; ++r) {
    if (r == 0 || (r <= last && p.column == 0)) {
      const size_t row = u->vertical.out + p.row * u->vertical.out_step;
      const size_t column = u->horizontal.out + p.column * u->horizontal.out_step;
      y = u->y + p.image * u->y_image + row * u->y_row + column * u->y_pixel;
      residual = u->residual + p.image * u->residual_image + row * u->residual_row + column * u->residual_pixel;
    } else if (r <= last) {
      y += u->horizontal.out_step * u->y_pixel;
      residual += u->horizontal.out_step * u->residual_pixel;
    }
    block->results[r] = y;
    block->residuals[r] = residual;
    if (r <= last) p = next_pixel(u, p);
  }
  return p;
}

uint units_Convolution(const Core* core, const __global Convolution* c) {
  const struct ProductTiles tiles = convolution_tiles(core, c);
  const uint phases = c->transposed ? c->stride_height * c->stride_width : 1;
  return tiles.row_tiles * tiles.column_tiles * c->groups * phases;
}

// A convolution that takes pixel for pixel is one over a single row, where the rows lie behind each other.
void join_rows(struct ConvolutionUnit* u) {
  const struct Axis a = u->horizontal, b = u->vertical;
  const bool plain = a.taps * b.taps * a.in_step * b.in_step * a.out_step * b.out_step == 1 && u->joined == 1 &&
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
  const size_t taps = (size_t)c->kernel_height * c->kernel_width;
  u.weights_depth = taps * c->depth;
  u.channels = c->depth;
  u.begin = (size_t)group * c->columns;
  u.end = u.begin + c->columns;
  u.x = FLOATS(core, c->input) + c->input_first + (size_t)group * c->depth;
  u.y = FLOATS(core, c->result) + c->result_first;
  u.residual = FLOATS(core, c->residual) + c->residual_first;
  u.bias = FLOATS(core, c->bias);
  u.slopes = FLOATS(core, c->slopes);
  u.weights = FLOATS(core, c->weights);
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
  const bool joined = !c->transposed && c->dilation_width == 1 && c->input_pixel == c->depth &&
                      c->kernel_width * c->depth * (c->kernel_height * ROWS + 1) <= SCRATCH / 2;
  u.joined = joined ? c->kernel_width : 1;
  u.depth = u.joined * u.channels;
  if (joined) u.horizontal.taps = 1;
  u.zeros = core->scratch;
  u.copies = core->scratch + u.depth;
  join_rows(&u);
  return u;
}

void run_Convolution(const Core* core, const __global Convolution* c, const uint unit) {
  const struct ProductTiles tiles = convolution_tiles(core, c);
  const uint column_tile = unit / tiles.row_tiles % tiles.column_tiles;
  const uint product = unit / tiles.row_tiles / tiles.column_tiles;
  const struct ConvolutionUnit u = convolution_unit(core, c, product % c->groups, product / c->groups);
  for (size_t i = 0; i < min(u.depth, (size_t)SCRATCH); ++i) u.zeros[i] = 0;  // padding has no greater depth
  const uint num_rows = u.images * u.vertical.count * u.horizontal.count;
  const uint first_row = unit % tiles.row_tiles * tiles.rows, last_row = min(first_row + tiles.rows, num_rows);
  const size_t first_column = u.begin / WIDTH * WIDTH + column_tile * tiles.columns;
  const size_t last_column = min(first_column + tiles.columns, u.end);
  if (first_row >= last_row || first_column >= last_column) return;
  struct Pixel pixel = {0, 0, 0};
  pixel.column = first_row % u.horizontal.count;
  pixel.row = first_row / u.horizontal.count % u.vertical.count;
  pixel.image = first_row / u.horizontal.count / u.vertical.count;
  const struct Finish finish = {c->residual_mode, c->activation, c->low, c->high};
  const int num_taps = u.vertical.taps * u.horizontal.taps;
  __global float* const narrow = core->scratch + SCRATCH / 2;
  const bool is_narrow = u.end <= NARROW && num_taps <= TAPS && u.end * u.weights_depth <= SCRATCH / 2;
  if (is_narrow) unpack_narrow(u.weights, u.end, u.weights_depth, narrow);
  struct BlockColumns columns =
      block_columns(first_column, u.begin, u.end, u.weights_depth, u.weights, u.bias, u.slopes);
  struct BlockRows rows;
  Vector sums[ROWS][2];
  for (uint row = first_row; row < last_row; row += ROWS) {
    rows.num_rows = min(last_row - row, (uint)ROWS);
    const struct Pixel next = find_results(&u, pixel, &rows);
    int tap = find_taps(&u, pixel, 0, &rows);
    for (size_t column = first_column; column < last_column; column += BLOCK) {
      if (column != columns.first)
        columns = block_columns(column, u.begin, u.end, u.weights_depth, u.weights, u.bias, u.slopes);
      if (is_narrow) {
        multiply_narrow(&rows, &columns, &finish, narrow, u.weights_depth);
        continue;
      }
      if (column > first_column && num_taps > TAPS) tap = find_taps(&u, pixel, 0, &rows);
      multiply_block(&rows, &columns, &finish, false, tap == num_taps, sums);
      while (tap < num_taps) {
        tap = find_taps(&u, pixel, tap, &rows);
        multiply_block(&rows, &columns, &finish, true, tap == num_taps, sums);
      }
    }
    pixel = next;
  }
}
