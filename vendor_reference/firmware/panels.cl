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

// The first `count` floats, at least 1; the others are 0.
NOINLINE Vector load_part(const __global float* from, const size_t count) {
  if (count >= WIDTH) return LOAD(from);
  float part[WIDTH];
  for (size_t i = 0; i < WIDTH; ++i) part[i] = i < count ? from[i] : 0;
  return JOIN(vload, WIDTH)(0, part);
}

NOINLINE void store_part(const Vector value, __global float* to, const size_t count) {
  if (count >= WIDTH) {
    STORE(value, to);
    return;
  }
  float part[WIDTH];
  JOIN(vstore, WIDTH)(value, 0, part);
  for (size_t i = 0; i < count; ++i) to[i] = part[i];
}

// What rows of a product are made of: `count` stretches of `depth` floats.
//   rows: where each stretch of each row begins. Rows of a block that are not there repeat others.
//   weights: of each stretch, floats from a panel's beginning.
struct Taps {
  const __global float* rows[TAPS][ROWS];
  size_t weights[TAPS];
  size_t count, depth;
};

// Adds the product of R rows with V vectors of columns to `sums`, or writes it there; R and V are constants.
//   weights: the panel, or the part of it where the columns begin.
//   second: floats to the same of the second vector.
INLINE void multiply(const uint R, const uint V, const struct Taps* taps, const __global float* weights,
                     const size_t second, const bool adds, Vector (*sums)[2]) {
  Vector s[ROWS][2];
#pragma unroll
  for (uint r = 0; r < R; ++r)
#pragma unroll
    for (uint v = 0; v < V; ++v) s[r][v] = adds ? sums[r][v] : (Vector)0;
  for (size_t tap = 0; tap < taps->count; ++tap) {
    const __global float* rows[ROWS];
#pragma unroll
    for (uint r = 0; r < R; ++r) rows[r] = taps->rows[tap][r];
    const __global float* w = weights + taps->weights[tap];
    for (size_t k = 0; k < taps->depth; ++k, w += PANEL) {
      Vector b[2];
#pragma unroll
      for (uint v = 0; v < V; ++v) b[v] = LOAD(w + v * second);
#pragma unroll
      for (uint r = 0; r < R; ++r) {
        const Vector a = (Vector)rows[r][k];
#pragma unroll
        for (uint v = 0; v < V; ++v) s[r][v] = fma(a, b[v], s[r][v]);
      }
    }
  }
#pragma unroll
  for (uint r = 0; r < R; ++r)
#pragma unroll
    for (uint v = 0; v < V; ++v) sums[r][v] = s[r][v];
}

// The same for the first `rows` rows, and for one vector of columns or two; where there are fewer rows, some more may
// be written.
NOINLINE void multiply_block(const uint rows, const bool is_wide, const struct Taps* taps, const __global float* weights,
                             const size_t second, const bool adds, Vector (*sums)[2]) {
#define MULTIPLY(R)                                                   \
  do {                                                                \
    if (is_wide) multiply(R, 2, taps, weights, second, adds, sums);   \
    else multiply(R, 1, taps, weights, second, adds, sums);           \
  } while (0)
  if (rows > 4) MULTIPLY(ROWS);
  else if (rows > 2) MULTIPLY(4);
  else if (rows == 2) MULTIPLY(2);
  else MULTIPLY(1);
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
