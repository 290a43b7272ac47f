// Products of rows with panels: the inner loops of convolutions and matrix products.
//
// Weights lie in panels of 16 columns, [ceil(columns / 16)][depth][16], padded with zeros. A block is up to ROWS rows
// by up to two vectors of columns: its sums stay in registers.

#define PANEL 16
#define BLOCK (2 * WIDTH)
#define TAPS 32
#define INLINE __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))

// How a residual operand is added: to the sums, or behind the activation.
#define NO_RESIDUAL 0
#define BEFORE_ACTIVATION 1
#define BEHIND_ACTIVATION 2

// The floats of panels from their beginning to a column of row 0, where a panel has `depth` rows.
size_t panel_column(const size_t column, const size_t depth) {
  return column / PANEL * (depth * PANEL) + column % PANEL;
}

union Lanes {
  Vector vector;
  float floats[WIDTH];
};

// The floats from `begin` to `end` of a vector that lies at `from`, at most WIDTH; the others are 0.
NOINLINE Vector load_part(const __global float* from, const size_t begin, const size_t end) {
  if (begin == 0 && end >= WIDTH) return LOAD(from);
  union Lanes part;
  for (size_t i = 0; i < WIDTH; ++i) part.floats[i] = i >= begin && i < end ? from[i] : 0;
  return part.vector;
}

NOINLINE void store_part(const Vector value, __global float* to, const size_t begin, const size_t end) {
  if (begin == 0 && end >= WIDTH) {
    STORE(value, to);
    return;
  }
  union Lanes part;
  part.vector = value;
  for (size_t i = begin; i < min(end, (size_t)WIDTH); ++i) to[i] = part.floats[i];
}

// The rows of a block: `num_rows`, and up to ROWS of them that repeat the last.
//   taps: where the `num_taps` stretches of `depth` floats begin that each row is made of.
//   weights: of each stretch, floats from a panel's beginning.
//   results, residuals: where the first column of each row lies.
struct BlockRows {
  const __global float* taps[TAPS][ROWS];
  size_t weights[TAPS];
  size_t num_rows, num_taps, depth;
  __global float* results[ROWS];
  const __global float* residuals[ROWS];
};

// The columns of a block, from `first` on; those from `begin` to `end` are made.
//   weights: the first column of row 0.
//   second: floats to the same of the second vector.
struct BlockColumns {
  size_t first, begin, end;
  const __global float* weights;
  size_t second;
  Vector bias[2], slopes[2];
};

// What becomes of sums.
struct Finish {
  uint residual_mode, activation;
  float low, high;
};

// Up to two vectors of what there is for each column, or zeros.
void load_columns(const __global float* from, const size_t first, const size_t end, Vector* to) {
  to[0] = from ? load_part(from + first, 0, end - first) : 0;
  to[1] = from && first + WIDTH < end ? load_part(from + first + WIDTH, 0, end - first - WIDTH) : 0;
}

// The columns from `first` on, a multiple of WIDTH, of a product whose panels have `depth` rows.
struct BlockColumns block_columns(const size_t first, const size_t begin, const size_t end, const size_t depth,
                                  const __global float* weights, const __global float* bias,
                                  const __global float* slopes) {
  struct BlockColumns c;
  c.first = first;
  c.begin = begin;
  c.end = end;
  c.weights = weights + panel_column(first, depth);
  c.second = panel_column(first + WIDTH, depth) - panel_column(first, depth);
  load_columns(bias, first, end, c.bias);
  load_columns(slopes, first, end, c.slopes);
  return c;
}

// Sums become results, one by one.
NOINLINE void finish_block(const struct BlockRows* rows, const struct BlockColumns* columns,
                           const struct Finish* finish, Vector (*sums)[2]) {
  for (size_t v = 0; v < 2 && columns->first + v * WIDTH < columns->end; ++v) {
    const size_t first = columns->first + v * WIDTH, end = columns->end - first;
    const size_t begin = max(columns->begin, first) - first;
    for (size_t r = 0; r < rows->num_rows; ++r) {
      Vector sum = sums[r][v], residual = 0;
      if (finish->residual_mode) residual = load_part(rows->residuals[r] + first, begin, end);
      if (finish->residual_mode == BEFORE_ACTIVATION) sum += residual;
      sum = finish->activation == PRELU ? (sum < 0 ? sum * columns->slopes[v] : sum)
                                        : activate(sum, finish->activation, finish->low, finish->high);
      if (finish->residual_mode == BEHIND_ACTIVATION) sum += residual;
      store_part(sum, rows->results[r] + first, begin, end);
    }
  }
}

// The product of R rows with V vectors of columns: adds to `sums` or to the bias, and finishes it or leaves it in
// `sums`. R and V are constants.
INLINE void multiply(const uint R, const uint V, const struct BlockRows* rows, const struct BlockColumns* columns,
                     const struct Finish* finish, const bool adds, const bool ends, Vector (*sums)[2]) {
  Vector s[ROWS][2];
#pragma unroll
  for (uint r = 0; r < R; ++r)
#pragma unroll
    for (uint v = 0; v < V; ++v) s[r][v] = adds ? sums[r][v] : columns->bias[v];
  const size_t second = columns->second, depth = rows->depth;
  for (size_t tap = 0; tap < rows->num_taps; ++tap) {
    const __global float* x[ROWS];
#pragma unroll
    for (uint r = 0; r < R; ++r) x[r] = rows->taps[tap][r];
    const __global float* w = columns->weights + rows->weights[tap];
    for (size_t k = 0; k < depth; ++k, w += PANEL) {
      Vector b[2];
#pragma unroll
      for (uint v = 0; v < V; ++v) b[v] = LOAD(w + v * second);
#pragma unroll
      for (uint r = 0; r < R; ++r) {
        const Vector a = (Vector)x[r][k];
#pragma unroll
        for (uint v = 0; v < V; ++v) s[r][v] = fma(a, b[v], s[r][v]);
      }
    }
  }
  const bool whole = columns->begin <= columns->first && columns->first + V * WIDTH <= columns->end;
  if (ends && whole && (finish->activation == CLAMP || finish->activation == PRELU)) {
#define EACH_SUM                      \
  _Pragma("unroll") for (uint r = 0; r < R; ++r) _Pragma("unroll") for (uint v = 0; v < V; ++v)
    const size_t first = columns->first;
    if (finish->residual_mode == BEFORE_ACTIVATION) EACH_SUM s[r][v] += LOAD(rows->residuals[r] + first + v * WIDTH);
    if (finish->activation == CLAMP) {
      const Vector low = finish->low, high = finish->high;
      EACH_SUM {
        s[r][v] = s[r][v] < low ? low : s[r][v];
        s[r][v] = s[r][v] > high ? high : s[r][v];
      }
    } else {
      EACH_SUM s[r][v] = s[r][v] < 0 ? s[r][v] * columns->slopes[v] : s[r][v];
    }
    if (finish->residual_mode == BEHIND_ACTIVATION) EACH_SUM s[r][v] += LOAD(rows->residuals[r] + first + v * WIDTH);
    EACH_SUM STORE(s[r][v], rows->results[r] + first + v * WIDTH);
    return;
  }
#pragma unroll
  for (uint r = 0; r < R; ++r)
#pragma unroll
    for (uint v = 0; v < V; ++v) sums[r][v] = s[r][v];
  if (ends) finish_block(rows, columns, finish, sums);
}

// A block of a product, or a part of its depth.
//   adds: whether `sums` has what comes of the parts before. It has ROWS rows.
//   ends: whether the sums are complete.
NOINLINE void multiply_block(const struct BlockRows* rows, const struct BlockColumns* columns, const struct Finish* finish,
                             const bool adds, const bool ends, Vector (*sums)[2]) {
#define MULTIPLY(R)                                                                      \
  do {                                                                                   \
    if (columns->first + WIDTH < columns->end) multiply(R, 2, rows, columns, finish, adds, ends, sums); \
    else multiply(R, 1, rows, columns, finish, adds, ends, sums);                        \
  } while (0)
  if (rows->num_rows > 4) MULTIPLY(ROWS);
  else if (rows->num_rows > 2) MULTIPLY(4);
  else if (rows->num_rows == 2) MULTIPLY(2);
  else MULTIPLY(1);
}

// So few columns are made one by one, by vectors along the depth.
#define NARROW (WIDTH / 2)

float sum_of(const Vector v) {
#if WIDTH == 16
  const float8 eight = v.lo + v.hi;
#else
  const float8 eight = v;
#endif
  const float4 four = eight.lo + eight.hi;
  const float2 two = four.lo + four.hi;
  return two.x + two.y;
}

// The columns of a panel, at most NARROW, as rows of `depth` floats.
void unpack_narrow(const __global float* panel, const size_t columns, const size_t depth, __global float* to) {
  for (size_t column = 0; column < columns; ++column)
    for (size_t k = 0; k < depth; ++k) *to++ = panel[k * PANEL + column];
}

// A whole block of at most NARROW columns.
//   weights: as `unpack_narrow` makes them.
NOINLINE void multiply_narrow(const struct BlockRows* rows, const struct BlockColumns* columns,
                              const struct Finish* finish, const __global float* weights, const size_t depth) {
  union Lanes made[ROWS], bias;
  bias.vector = columns->bias[0];
  for (size_t column = columns->begin; column < columns->end; ++column) {
    Vector s[ROWS];
    float rest[ROWS];
#pragma unroll
    for (uint r = 0; r < ROWS; ++r) s[r] = 0, rest[r] = 0;
    for (size_t tap = 0; tap < rows->num_taps; ++tap) {
      const __global float* x[ROWS];
#pragma unroll
      for (uint r = 0; r < ROWS; ++r) x[r] = rows->taps[tap][r];
      const __global float* const w = weights + column * depth + rows->weights[tap] / PANEL;
      size_t k = 0;
      for (; k + WIDTH <= rows->depth; k += WIDTH) {
        const Vector b = LOAD(w + k);
#pragma unroll
        for (uint r = 0; r < ROWS; ++r) s[r] = fma(LOAD(x[r] + k), b, s[r]);
      }
      for (; k < rows->depth; ++k) {
#pragma unroll
        for (uint r = 0; r < ROWS; ++r) rest[r] = fma(x[r][k], w[k], rest[r]);
      }
    }
    const bool is_done = finish->activation == CLAMP && !finish->residual_mode;
#pragma unroll
    for (uint r = 0; r < ROWS; ++r) {
      const float sum = sum_of(s[r]) + rest[r], value = sum + bias.floats[column];
      if (is_done)
        rows->results[r][column] = value < finish->low ? finish->low : value > finish->high ? finish->high : value;
      else
        made[r].floats[column] = value;
    }
    if (is_done && column + 1 == columns->end) return;
  }
  Vector sums[ROWS][2];
  for (uint r = 0; r < ROWS; ++r) sums[r][0] = made[r].vector;
  finish_block(rows, columns, finish, sums);
}

// How a product is cut into units: tiles of blocks of rows and columns; and how many of these there are.
struct ProductTiles {
  uint rows, columns, row_tiles, column_tiles;
};

// A tile's weights stay in a CPU's second cache.
#define TILE_FLOATS 65536

struct ProductTiles product_tiles(const Core* core, const uint rows, const uint columns, const uint depth,
                                  const uint products) {
  const uint row_blocks = max(divide_up(rows, ROWS), 1u), column_blocks = max(divide_up(columns, BLOCK), 1u);
  const uint block_depth = max(depth, 16u);
  const uint fitting = clamp(TILE_FLOATS / (block_depth * BLOCK), 1u, column_blocks);
  const uint blocks = items_per_unit(core, row_blocks * column_blocks * products, (ulong)block_depth * ROWS);
  struct ProductTiles t;
  t.column_tiles = divide_up(column_blocks, min(fitting, max(blocks, 1u)));
  t.columns = divide_up(column_blocks, t.column_tiles) * BLOCK;
  t.column_tiles = divide_up(column_blocks * BLOCK, t.columns);
  t.rows = clamp(blocks / (t.columns / BLOCK), 1u, row_blocks) * ROWS;
  t.row_tiles = divide_up(row_blocks * ROWS, t.rows);
  return t;
}
