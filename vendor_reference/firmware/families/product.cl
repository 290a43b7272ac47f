// Products of matrices; the right matrices lie in panels.

// result = activation(bias + left * right), for each of `batches`.
//   left: Contiguous rows of `depth` floats.
//   right: Panels of `panel_depth` rows; the panels of consecutive batches lie `right_batch` floats apart.
//   ..._batch: floats from one batch to the next, in each of three dimensions.
typedef struct {
  Place left, right, bias, result;
  uint rows, columns, depth, panel_depth;
  uint batches[3], left_batch[3], right_batch[3], result_batch[3];
  uint left_first, left_row, result_first, result_row;
  uint activation;
  float low, high;
} Product;

Reach reach_batches(const ulong first, const __global uint* batches, const __global uint* strides) {
  Reach reach = reach_of(first);
  for (uint i = 0; i < 3; ++i) reach_over(&reach, batches[i], strides[i]);
  return reach;
}

uint check_Product(const Check* check, const __global Product* c) {
  CHECK_FIELDS(c->activation <= HARD_SWISH && c->depth <= c->panel_depth);
  Reach left = reach_batches(c->left_first, c->batches, c->left_batch);
  reach_over(&left, c->rows, c->left_row);
  reach_over(&left, c->depth, 1);
  CHECK_PLACE(1, left, 4);
  Reach right = reach_batches(0, c->batches, c->right_batch);
  reach_over(&right, c->rows ? divide_up(c->columns, PANEL) : 0, (long)c->panel_depth * PANEL);
  reach_over(&right, count_of(c->depth, PANEL), 1);
  CHECK_PLACE(2, right, 4);
  if (c->bias.region != NOWHERE) {
    Reach bias = reach_of(0);
    reach_over(&bias, c->columns, 1);
    CHECK_PLACE(3, bias, 4);
  }
  Reach result = reach_batches(c->result_first, c->batches, c->result_batch);
  reach_over(&result, c->rows, c->result_row);
  reach_over(&result, c->columns, 1);
  CHECK_PLACE(4, result, 4);
  CHECK_COUNT(4, count_of(count_loops(c->batches, 3), count_of(c->rows, c->columns)), 4);
  return FITS;
}

struct ProductTiles tiles_of_product(const Core* core, const __global Product* c) {
  return product_tiles(core, c->rows, c->columns, c->depth, c->batches[0] * c->batches[1] * c->batches[2]);
}

// The floats from the first batch to batch `number`.
size_t batch_offset(const __global uint* batches, const __global uint* strides, const size_t number) {
  const size_t last = number % batches[2], rest = number / batches[2];
  return last * strides[2] + rest % batches[1] * strides[1] + rest / batches[1] * strides[0];
}

uint units_Product(const Core* core, const __global Product* c) {
  const struct ProductTiles tiles = tiles_of_product(core, c);
  return tiles.row_tiles * tiles.column_tiles * c->batches[0] * c->batches[1] * c->batches[2];
}

void run_Product(const Core* core, const __global Product* c, const uint unit) {
  const struct ProductTiles tiles = tiles_of_product(core, c);
  const size_t column_tile = unit / tiles.row_tiles % tiles.column_tiles;
  const size_t batch = unit / tiles.row_tiles / tiles.column_tiles;
  const __global float* const left =
      FLOATS(core, c->left) + c->left_first + batch_offset(c->batches, c->left_batch, batch);
  const __global float* const right = FLOATS(core, c->right) + batch_offset(c->batches, c->right_batch, batch);
  __global float* const result =
      FLOATS(core, c->result) + c->result_first + batch_offset(c->batches, c->result_batch, batch);
  const size_t first_row = unit % tiles.row_tiles * tiles.rows, last_row = min(first_row + tiles.rows, (size_t)c->rows);
  const size_t first_column = column_tile * tiles.columns;
  const size_t last_column = min(first_column + tiles.columns, (size_t)c->columns);
  const struct Finish finish = {NO_RESIDUAL, c->activation, c->low, c->high};
  const struct Run run = {
      left + first_row * c->left_row, 0, result + first_row * c->result_row, last_row - first_row, 1, 1, c->depth, 0,
      c->left_row, c->result_row, 0, {0, 0}, {0, 0}};
  const struct Matrix m = {right, FLOATS(core, c->bias), 0, 0, c->panel_depth, 0, c->columns, first_column, last_column};
  multiply_run(&run, &m, &finish);
}

// Packs matrices [rows, columns] with any strides into panels of `panel` columns, dense and padded with zeros.
typedef struct {
  Place input, result;
  uint rows, columns, panel;
  uint batches[3], input_batch[3];
  uint input_first, input_row, input_column;
} Pack;

uint check_Pack(const Check* check, const __global Pack* c) {
  CHECK_FIELDS(c->panel && c->panel < MOST_SIZE && c->columns < MOST_SIZE);
  Reach input = reach_batches(c->input_first, c->batches, c->input_batch);
  reach_over(&input, c->rows, c->input_row);
  reach_over(&input, c->columns, c->input_column);
  CHECK_PLACE(1, input, 4);
  const ulong panels = count_of(divide_up(c->columns, c->panel), count_loops(c->batches, 3));
  CHECK_COUNT(2, count_of(panels, count_of(c->rows, c->panel)), 4);
  return FITS;
}

uint units_Pack(const Core* core, const __global Pack* c) {
  const uint items = divide_up(c->columns, c->panel) * c->batches[0] * c->batches[1] * c->batches[2];
  return divide_up(items, items_per_unit(core, items, (ulong)c->rows * c->panel));
}

void run_Pack(const Core* core, const __global Pack* c, const uint unit) {
  const size_t panels = divide_up(c->columns, c->panel), panel = c->panel, num_rows = c->rows;
  const size_t items = panels * c->batches[0] * c->batches[1] * c->batches[2];
  const size_t count = items_per_unit(core, items, (ulong)num_rows * panel);
  for (size_t item = unit * count; item < min((unit + 1) * count, items); ++item) {
    const size_t first = item % panels * panel, width = min((size_t)c->columns - first, panel);
    const __global float* const from = FLOATS(core, c->input) + c->input_first +
                                       batch_offset(c->batches, c->input_batch, item / panels) +
                                       first * c->input_column;
    __global float* const to = FLOATS(core, c->result) + item * num_rows * panel;
    for (size_t row = 0; row < num_rows; ++row)
      for (size_t column = 0; column < panel; ++column)
        to[row * panel + column] = column < width ? from[row * c->input_row + column * c->input_column] : 0;
  }
}
