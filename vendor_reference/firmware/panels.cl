// Products of rows with panels: the inner loops of convolutions and matrix products.
//
// Weights lie in panels of 16 columns, [ceil(columns / 16)][depth][16], padded with zeros. A block is some rows by some
// vectors of columns, of which the sums stay in registers: it is multiplied to its end before the next begins.

#define PANEL 16
#define BLOCK (2 * WIDTH)
#define INLINE __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))

// The rows of a block of one and of three vectors; two vectors have ROWS.
#define ROWS_OF_1 8
#define ROWS_OF_3 (WIDTH == 16 ? 8 : 4)
#define MOST_ROWS 8
#define MOST_VECTORS 3

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

// The first `count` of four floats, or all of them; the others are 0.
INLINE float4 load_quad(const __global float* from, const long count) {
  if (count >= 4) return vload4(0, from);
  float4 quad = 0;
  if (count > 0) quad.x = from[0];
  if (count > 1) quad.y = from[1];
  if (count > 2) quad.z = from[2];
  return quad;
}

INLINE void store_quad(const float4 quad, __global float* to, const long count) {
  if (count >= 4) vstore4(quad, 0, to);
  else if (count > 0) {
    to[0] = quad.x;
    if (count > 1) to[1] = quad.y;
    if (count > 2) to[2] = quad.z;
  }
}

// The same of a vector.
INLINE Vector load_first(const __global float* from, const long count) {
  if (count >= WIDTH) return LOAD(from);
  const float8 eight = (float8)(load_quad(from, count), load_quad(from + 4, count - 4));
#if WIDTH == 16
  return (Vector)(eight, load_quad(from + 8, count - 8), load_quad(from + 12, count - 12));
#else
  return eight;
#endif
}

INLINE void store_first(const Vector value, __global float* to, const long count) {
  if (count >= WIDTH) {
    STORE(value, to);
    return;
  }
#if WIDTH == 16
  store_quad(value.hi.lo, to + 8, count - 8);
  store_quad(value.hi.hi, to + 12, count - 12);
  const float8 eight = value.lo;
#else
  const float8 eight = value;
#endif
  store_quad(eight.lo, to, count);
  store_quad(eight.hi, to + 4, count - 4);
}

// Rows that lie evenly. Each is made of `num_taps` stretches of `depth` floats, `taps_across` of them side by side.
//   x, y, residual: where the first row, its result and its residual lie; ..._row: floats to those of the next row.
//   weights: floats from a panel's beginning to the weights of the first stretch.
//   x_tap, weights_tap: floats from a stretch to the next beside it, and from the last of those to the first below.
struct Run {
  const __global float *x, *residual;
  __global float* y;
  size_t num_rows, num_taps, taps_across, depth, weights;
  long x_row, y_row, residual_row, x_tap[2], weights_tap[2];
};

// What rows are multiplied with: of the columns from `begin` to `end`, those from `first` to `last`, where `first` is a
// multiple of WIDTH. The panels have `depth` rows.
//   narrow: the columns as rows of `depth` floats, where they are so few; else null.
struct Matrix {
  const __global float *weights, *bias, *slopes, *narrow;
  size_t depth, begin, end, first, last;
};

// What becomes of sums.
struct Finish {
  uint residual_mode, activation;
  float low, high;
};

NOINLINE Vector finish_sum(const struct Finish* finish, Vector sum, const Vector slopes, const Vector residual) {
  if (finish->residual_mode == BEFORE_ACTIVATION) sum += residual;
  sum = finish->activation == PRELU ? (sum < 0 ? sum * slopes : sum)
                                    : activate(sum, finish->activation, finish->low, finish->high);
  return finish->residual_mode == BEHIND_ACTIVATION ? sum + residual : sum;
}

// The columns of a block, from `first` on; those from `begin` to `end` are made.
//   weights: the first column of row 0.
//   offsets: floats from there to the same of each vector.
struct Columns {
  size_t first, begin, end;
  const __global float* weights;
  size_t offsets[MOST_VECTORS];
  Vector bias[MOST_VECTORS], slopes[MOST_VECTORS];
};

// `V` vectors of columns, from column `first` on.
INLINE void choose_columns(const struct Matrix* m, const size_t first, const uint V, const bool has_slopes,
                           struct Columns* c) {
  const size_t place = panel_column(first, m->depth);
  c->first = first;
  c->begin = m->begin;
  c->end = m->last;
  c->weights = m->weights + place;
#pragma unroll
  for (uint v = 0; v < V; ++v) {
    const size_t column = first + v * WIDTH;
    c->offsets[v] = panel_column(column, m->depth) - place;
    c->bias[v] = m->bias ? load_first(m->bias + column, c->end - column) : 0;
    if (has_slopes) c->slopes[v] = load_first(m->slopes + column, c->end - column);
  }
}

// Sums become results, one by one.
NOINLINE void finish_block(const struct Run* run, const size_t row, const size_t num_rows, const uint vectors,
                           const struct Columns* columns, const struct Finish* finish, const Vector* sums) {
  for (size_t v = 0; v < vectors; ++v) {
    const size_t first = columns->first + v * WIDTH;
    const size_t begin = max(columns->begin, first) - first, end = min(columns->end - first, (size_t)WIDTH);
    for (size_t r = 0; r < num_rows; ++r) {
      __global float* const y = run->y + (row + r) * run->y_row + first;
      const __global float* const from = run->residual + (row + r) * run->residual_row + first;
      union Lanes residual, sum;
      residual.vector = 0;
      sum.vector = sums[r * vectors + v];
      if (finish->residual_mode)
        for (size_t i = begin; i < end; ++i) residual.floats[i] = from[i];
      sum.vector = finish_sum(finish, sum.vector, columns->slopes[v], residual.vector);
      for (size_t i = begin; i < end; ++i) y[i] = sum.floats[i];
    }
  }
}

// The product of R rows, from `row` on, with V vectors of columns. R, V and `repeats` are constants: whether there may
// be fewer rows, so that the last is made again.
INLINE void multiply(const uint R, const bool repeats, const uint V, const struct Run* run, const size_t row,
                     const struct Columns* columns, const struct Finish* finish) {
  const size_t last = repeats ? min(run->num_rows - row, (size_t)R) - 1 : R - 1;
  Vector s[MOST_ROWS][MOST_VECTORS];
  size_t offsets[MOST_VECTORS];
#define EACH_ROW _Pragma("unroll") for (uint r = 0; r < R; ++r)
#define EACH_VECTOR _Pragma("unroll") for (uint v = 0; v < V; ++v)
#define EACH_SUM EACH_ROW EACH_VECTOR
#define NUMBER(r) (repeats ? (long)min((size_t)r, last) : (long)r)
  EACH_SUM s[r][v] = columns->bias[v];
  EACH_VECTOR offsets[v] = columns->offsets[v];
  const size_t depth = run->depth;
  const __global float* x_tap = run->x + (long)row * run->x_row;
  const __global float* weights = columns->weights + run->weights;
  for (size_t tap = 0, column = 0; tap < run->num_taps; ++tap) {
    const __global float* x[MOST_ROWS];
    const __global float* w = weights;
    EACH_ROW x[r] = x_tap + NUMBER(r) * run->x_row;
    for (size_t k = 0; k < depth; ++k, w += PANEL) {
      Vector b[MOST_VECTORS];
      EACH_VECTOR b[v] = LOAD(w + offsets[v]);
      EACH_ROW {
        const Vector a = (Vector)x[r][k];
        EACH_VECTOR s[r][v] = fma(a, b[v], s[r][v]);
      }
    }
    const bool is_last = ++column == run->taps_across;
    if (is_last) column = 0;
    x_tap += run->x_tap[is_last];
    weights += run->weights_tap[is_last];
  }
  const uint activation = finish->activation;
  if (columns->begin > columns->first || activation == TANH || activation == LOGISTIC) {
    Vector sums[MOST_ROWS * MOST_VECTORS];
    EACH_SUM sums[r * V + v] = s[r][v];
    finish_block(run, row, last + 1, V, columns, finish, sums);
    return;
  }
  const size_t rest = columns->end - columns->first - (V - 1) * WIDTH;
  const __global float* residual = run->residual + row * run->residual_row + columns->first;
  __global float* y = run->y + row * run->y_row + columns->first;
#define ADD_RESIDUAL                                                           \
  EACH_ROW {                                                                   \
    const __global float* const from = residual + NUMBER(r) * run->residual_row; \
    _Pragma("unroll") for (uint v = 0; v + 1 < V; ++v) s[r][v] += LOAD(from + v * WIDTH);  \
    s[r][V - 1] += load_first(from + (V - 1) * WIDTH, rest);                   \
  }
  if (finish->residual_mode == BEFORE_ACTIVATION) ADD_RESIDUAL
  if (activation == CLAMP) {
    const Vector low = finish->low, high = finish->high;
    EACH_SUM {
      s[r][v] = s[r][v] < low ? low : s[r][v];
      s[r][v] = s[r][v] > high ? high : s[r][v];
    }
  } else if (activation == PRELU) {
    EACH_SUM s[r][v] = s[r][v] < 0 ? s[r][v] * columns->slopes[v] : s[r][v];
  } else {
    EACH_SUM s[r][v] = activate(s[r][v], HARD_SWISH, 0, 0);
  }
  if (finish->residual_mode == BEHIND_ACTIVATION) ADD_RESIDUAL
  EACH_ROW {
    __global float* const to = y + NUMBER(r) * run->y_row;
    _Pragma("unroll") for (uint v = 0; v + 1 < V; ++v) STORE(s[r][v], to + v * WIDTH);
    store_first(s[r][V - 1], to + (V - 1) * WIDTH, rest);
  }
}

// All rows of a run by V vectors of columns from `first` on, in blocks of R rows; the last rows in smaller ones.
#define MULTIPLY(name, R, V)                                                                                     \
  NOINLINE void name(const struct Run* run, const struct Matrix* m, const size_t first, const struct Finish* finish) { \
    struct Columns columns;                                                                                      \
    choose_columns(m, first, V, finish->activation == PRELU, &columns);                                          \
    size_t row = 0;                                                                                              \
    for (; row + R <= run->num_rows; row += R) multiply(R, false, V, run, row, &columns, finish);                \
    const size_t rest = run->num_rows - row;                                                                     \
    if (rest > 4) multiply(R, true, V, run, row, &columns, finish);                                              \
    else if (rest > 2) multiply(4, true, V, run, row, &columns, finish);                                         \
    else if (rest == 2) multiply(2, false, V, run, row, &columns, finish);                                       \
    else if (rest) multiply(1, false, V, run, row, &columns, finish);                                            \
  }
MULTIPLY(multiply_1, ROWS_OF_1, 1)
MULTIPLY(multiply_2, ROWS, 2)
MULTIPLY(multiply_3, ROWS_OF_3, 3)

// Few columns are made one by one, by vectors along the depth. The rest of a stretch is no vector, and each sum of a
// vector's floats takes some steps.
#define NARROW (WIDTH / 2)
#define ROWS_OF_NARROW 4
#define STEPS_OF_SUM 6

// Whether that takes fewer steps than a vector of columns, which takes one for each float of a row.
bool is_narrow(const size_t columns, const size_t num_taps, const size_t depth) {
  const size_t steps = num_taps * (depth / WIDTH + depth % WIDTH) + STEPS_OF_SUM;
  return columns <= NARROW && columns * steps < num_taps * depth;
}

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

// A run of at most NARROW columns.
//   weights: as `unpack_narrow` makes them.
NOINLINE void multiply_narrow(const struct Run* run, const struct Matrix* m, const struct Finish* finish) {
  struct Columns columns;
  choose_columns(m, 0, 1, finish->activation == PRELU, &columns);
  union Lanes bias;
  bias.vector = columns.bias[0];
  const bool is_done = finish->activation == CLAMP, is_before = finish->residual_mode == BEFORE_ACTIVATION;
  const __global float* const residual = finish->residual_mode ? run->residual : 0;
  const float low = finish->low, high = finish->high;
  for (size_t row = 0; row < run->num_rows; row += ROWS_OF_NARROW) {
    const size_t last = min(run->num_rows - row, (size_t)ROWS_OF_NARROW) - 1;
    union Lanes made[ROWS_OF_NARROW];
    for (size_t column = m->begin; column < m->end; ++column) {
      const uint R = ROWS_OF_NARROW;
      Vector s[ROWS_OF_NARROW];
      float rest[ROWS_OF_NARROW];
      EACH_ROW s[r] = 0, rest[r] = 0;
      const __global float* x_tap = run->x + (long)row * run->x_row;
      const __global float* weights = m->narrow + column * m->depth + run->weights / PANEL;
      for (size_t tap = 0, across = 0; tap < run->num_taps; ++tap) {
        const __global float* x[ROWS_OF_NARROW];
        EACH_ROW x[r] = x_tap + min((size_t)r, last) * run->x_row;
        size_t k = 0;
        for (; k + WIDTH <= run->depth; k += WIDTH) {
          const Vector b = LOAD(weights + k);
          EACH_ROW s[r] = fma(LOAD(x[r] + k), b, s[r]);
        }
        for (; k < run->depth; ++k) EACH_ROW rest[r] = fma(x[r][k], weights[k], rest[r]);
        const bool is_last = ++across == run->taps_across;
        if (is_last) across = 0;
        x_tap += run->x_tap[is_last];
        weights += run->weights_tap[is_last] / PANEL;
      }
      EACH_ROW {
        const size_t at = row + min((size_t)r, last);
        float value = sum_of(s[r]) + rest[r] + bias.floats[column];
        if (is_done) {
          const float added = residual ? residual[at * run->residual_row + column] : 0;
          if (is_before) value += added;
          value = value < low ? low : value > high ? high : value;
          run->y[at * run->y_row + column] = residual && !is_before ? value + added : value;
        } else {
          made[r].floats[column] = value;
        }
      }
    }
    if (is_done) continue;
    Vector sums[ROWS_OF_NARROW];
    for (uint r = 0; r < ROWS_OF_NARROW; ++r) sums[r] = made[r].vector;
    finish_block(run, row, last + 1, 1, &columns, finish, sums);
  }
}

// Floats of rows, a part of a CPU's first cache: so many rows stay there while all columns go by.
#define RUN_FLOATS 4096

// Makes all rows of a run. Where rows have few floats, three vectors of columns load the least; where they have many,
// panels come from a farther cache, which pairs of vectors read in their order.
void multiply_run(const struct Run* run, const struct Matrix* m, const struct Finish* finish) {
  if (m->narrow) {
    multiply_narrow(run, m, finish);
    return;
  }
  const size_t num_rows = run->num_rows, fitting = RUN_FLOATS / max(run->num_taps * run->depth, (size_t)1);
  const bool are_short = fitting >= 40;
  const size_t step = are_short ? fitting / 24 * 24 : 2 * ROWS;
  for (size_t row = 0; row < num_rows; row += step) {
    struct Run part = *run;
    part.x += (long)row * run->x_row;
    part.y += (long)row * run->y_row;
    part.residual += (long)row * run->residual_row;
    part.num_rows = min(num_rows - row, step);
    size_t column = m->first;
    for (size_t left = divide_up(m->last - m->first, WIDTH); left;) {
      const size_t vectors = left == 3 || (left > 4 && are_short) ? 3 : min(left, (size_t)2);
      if (vectors == 3) multiply_3(&part, m, column, finish);
      else if (vectors == 2) multiply_2(&part, m, column, finish);
      else multiply_1(&part, m, column, finish);
      column += vectors * WIDTH;
      left -= vectors;
    }
  }
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
