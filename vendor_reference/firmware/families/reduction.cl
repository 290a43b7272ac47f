// Many elements become one: sums, products, extremes and where these are; and rows that are divided by a sum of theirs.

// Kinds. What is no number makes an extreme forget what was before it; vectors pass over it, and tell.
#define SUM 0
#define PRODUCT 1
#define GREATEST 2
#define LEAST 3
#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
#define GREATER(a, b) ((a) > (b) ? (a) : (b))
#define LESS(a, b) ((a) < (b) ? (a) : (b))
#define BY_KIND(kind, DO)              \
  switch (kind) {                      \
    case SUM: DO(PLUS); break;         \
    case PRODUCT: DO(TIMES); break;    \
    case GREATEST: DO(GREATER); break; \
    default: DO(LESS);                 \
  }

float first_float(const uint kind) {
  return kind == SUM ? 0.0f : kind == PRODUCT ? 1.0f : kind == GREATEST ? -INFINITY : INFINITY;
}

Vector join_vectors(const uint kind, Vector a, const Vector b) {
#define JOIN_INTO_A(STEP) a = STEP(a, b)
  BY_KIND(kind, JOIN_INTO_A)
  return a;
}

float join_floats(const uint kind, float a, const float b) {
  BY_KIND(kind, JOIN_INTO_A)
  return a;
}

float join_lanes(const uint kind, const Vector v) {
  const float* const lanes = (const float*)&v;
  float a = lanes[0];
  for (uint i = 1; i < WIDTH; ++i) a = join_floats(kind, a, lanes[i]);
  return a;
}

// Results so far, in vectors.
//   unlike: where an element was unlike itself, which is no number.
typedef JOIN(int, WIDTH) Mask;
typedef struct Totals {
  Vector v[4];
  Mask unlike;
} Totals;

Totals begin_totals(const uint kind) {
  Totals totals;
  for (uint i = 0; i < 4; ++i) totals.v[i] = (Vector)first_float(kind);
  totals.unlike = (Mask)0;
  return totals;
}

// Rows of four vectors, which lie `step` apart. Sums have two levels, for the sake of small errors.
#define REDUCED_AT_ONCE 64u
void reduce_fours(const uint kind, const __global float* x, const size_t step, const size_t stride, size_t rows,
                  Totals* totals) {
  while (rows) {
    const size_t count = min(rows, (size_t)REDUCED_AT_ONCE);
    Vector a0 = (Vector)first_float(kind), a1 = a0, a2 = a0, a3 = a0;
    Mask unlike = (Mask)0;
#define REDUCE_FOUR(STEP)                                                                                  \
  for (size_t row = 0; row < count; ++row) {                                                               \
    const __global float* const from = x + row * stride;                                                   \
    const Vector b0 = LOAD(from), b1 = LOAD(from + step), b2 = LOAD(from + 2 * step), b3 = LOAD(from + 3 * step); \
    a0 = STEP(b0, a0), a1 = STEP(b1, a1), a2 = STEP(b2, a2), a3 = STEP(b3, a3);                            \
    unlike |= (b0 != b0) | (b1 != b1) | (b2 != b2) | (b3 != b3);                                           \
  }
    BY_KIND(kind, REDUCE_FOUR)
    totals->v[0] = join_vectors(kind, totals->v[0], a0);
    totals->v[1] = join_vectors(kind, totals->v[1], a1);
    totals->v[2] = join_vectors(kind, totals->v[2], a2);
    totals->v[3] = join_vectors(kind, totals->v[3], a3);
    totals->unlike |= unlike;
    x += count * stride;
    rows -= count;
  }
}

Vector reduce_vector(const uint kind, const __global float* x, Vector a, Totals* totals) {
  const Vector b = LOAD(x);
  totals->unlike |= b != b;
#define JOIN_A_AND_B(STEP) a = STEP(b, a)
  BY_KIND(kind, JOIN_A_AND_B)
  return a;
}

Vector join_fours(const uint kind, const Totals* totals) {
  const Vector* const v = totals->v;
  return join_vectors(kind, join_vectors(kind, v[0], v[1]), join_vectors(kind, v[2], v[3]));
}

// `size` floats in a row; the result is in the first vector.
void reduce_row(const uint kind, const __global float* x, const size_t size, Totals* totals) {
  const size_t rows = size / (4 * WIDTH);
  reduce_fours(kind, x, WIDTH, 4 * WIDTH, rows, totals);
  for (size_t i = rows * 4 * WIDTH; i < size; i += WIDTH) {
    if (i + WIDTH <= size) {
      totals->v[0] = reduce_vector(kind, x + i, totals->v[0], totals);
      continue;
    }
    float* const last = (float*)&totals->v[1];
    int* const unlike = (int*)&totals->unlike;
    for (size_t k = i; k < size; ++k) {
      last[k - i] = join_floats(kind, x[k], last[k - i]);
      unlike[k - i] |= -(x[k] != x[k]);  // as comparisons of vectors have it
    }
  }
}

// A column of vectors; the result is in all four.
void reduce_column(const uint kind, const __global float* x, const size_t stride, const size_t rows, Totals* totals) {
  reduce_fours(kind, x, stride, 4 * stride, rows / 4, totals);
  for (size_t row = rows & ~3ul; row < rows; ++row)
    totals->v[0] = reduce_vector(kind, x + row * stride, totals->v[0], totals);
}

// Types of elements.
#define FLOAT_32 0
#define FLOAT_16 1
#define INT_8 2
#define UINT_8 3
#define INT_16 4
#define INT_32 5
#define INT_64 6

uint bytes_of(const uint type) {
  return type == INT_8 || type == UINT_8 ? 1 : type == FLOAT_16 || type == INT_16 ? 2 : type == INT_64 ? 8 : 4;
}

float float_at(const __global void* x, const uint type, const long i) {
  return type == FLOAT_16 ? vload_half(i, (const __global half*)x) : ((const __global float*)x)[i];
}

void put_float(const float value, __global void* y, const uint type, const long i) {
  if (type == FLOAT_16)
    vstore_half(value, i, (__global half*)y);
  else
    ((__global float*)y)[i] = value;
}

long integer_at(const __global void* x, const uint type, const long i) {
  switch (type) {
    case INT_8: return ((const __global char*)x)[i];
    case UINT_8: return ((const __global uchar*)x)[i];
    case INT_16: return ((const __global short*)x)[i];
    case INT_32: return ((const __global int*)x)[i];
    default: return ((const __global long*)x)[i];
  }
}

void put_integer(const long value, __global void* y, const uint type, const long i) {
  switch (type) {
    case INT_8: ((__global char*)y)[i] = (char)value; break;
    case UINT_8: ((__global uchar*)y)[i] = (uchar)value; break;
    case INT_16: ((__global short*)y)[i] = (short)value; break;
    case INT_32: ((__global int*)y)[i] = (int)value; break;
    default: ((__global long*)y)[i] = value;
  }
}

// result = elements of input, reduced.
//   kind, type: see above.
//   count: what results are divided by, for a mean.
//   num_kept: the first of the loops, which the result has; the others but the last are reduced. The last one is best
//     over elements in a row, be it reduced or not: its stride in the result is 0 if it is.
//   parts: shares of what is reduced, each with a result of its own, `part_stride` elements apart.
//   offsets, sizes, strides: as those of a Move.
typedef struct {
  Place input, result;
  uint kind, type, count, num_kept, parts;
  int part_stride;
  int offsets[2];
  uint sizes[8];
  int strides[16];
} Reduce;

uint check_Reduce(const Check* check, const __global Reduce* c) {
  CHECK_FIELDS(c->kind <= LEAST && c->type <= INT_64 && c->num_kept < LOOPS && c->parts);
  const bool is_row = c->strides[2 * LOOPS - 1] == 0;
  const uint bytes = bytes_of(c->type);
  Reach input = reach_of(c->offsets[0]), result = reach_of(c->offsets[1]);
  reach_loops(&input, c->sizes, c->strides, LOOPS);
  reach_loops(&result, c->sizes, c->strides + LOOPS, c->num_kept);
  if (!is_row) reach_over(&result, c->sizes[LOOPS - 1], c->strides[2 * LOOPS - 1]);
  reach_over(&result, c->parts, c->part_stride);
  CHECK_FIELDS(c->count || c->type <= FLOAT_16 || result.is_empty);
  CHECK_PLACE(1, input, bytes);
  CHECK_PLACE(2, result, bytes);
  const ulong kept = count_of(count_loops(c->sizes, c->num_kept), is_row ? 1 : c->sizes[LOOPS - 1]);
  CHECK_COUNT(2, count_of(kept, c->parts), bytes);
  CHECK_FIELDS(count_loops(c->sizes + c->num_kept, LOOPS - c->num_kept) < MOST_ELEMENTS);
  return FITS;
}

// Columns that are reduced together.
#define REDUCED_COLUMNS (4u * WIDTH)

// How a reduction is cut.
//   is_row: whether the last loop is reduced.
//   run: rounds of the innermost reduced loop, whose elements lie `step` apart; chunk: of them; chunks: how many.
//   num_walked, rounds: of the reduced loops around it.
//   groups: of columns; items: of work.
typedef struct Reduction {
  bool is_row;
  uint run, chunk, chunks, num_walked, rounds, columns, groups, items, per_unit;
  long step;
} Reduction;

Reduction cut_reduction(const Core* core, const __global Reduce* c) {
  Reduction r;
  r.is_row = c->strides[2 * LOOPS - 1] == 0;
  const uint loop = LOOPS - 2 + r.is_row;
  const bool has_run = c->num_kept <= loop;  // else all loops are kept
  r.run = has_run ? c->sizes[loop] : 1;
  r.step = c->strides[loop];
  r.chunk = r.is_row ? 4096 : 512;
  r.chunks = divide_up(r.run, r.chunk);
  r.num_walked = has_run ? loop - c->num_kept : 0;
  r.rounds = count_rounds(c->sizes + c->num_kept, r.num_walked);
  r.columns = r.is_row ? 1 : c->sizes[LOOPS - 1];
  r.groups = divide_up(r.columns, REDUCED_COLUMNS);
  r.items = count_rounds(c->sizes, c->num_kept) * r.groups * c->parts;
  const ulong elements = (ulong)r.rounds * r.run * min(r.columns, REDUCED_COLUMNS);
  r.per_unit = items_per_unit(core, r.items, elements / c->parts + 16);
  return r;
}

uint units_Reduce(const Core* core, const __global Reduce* c) {
  const Reduction r = cut_reduction(core, c);
  return divide_up(r.items, r.per_unit);
}

// The runs of a share of the reduced rounds, or of chunks of them: elements from `at` on.
typedef struct Runs {
  Walk walk;
  uint next, end, size;
  long at;
} Runs;

Runs begin_runs(const __global Reduce* c, const Reduction* r, const uint part) {
  Runs runs;
  const ulong count = (ulong)r->rounds * r->chunks;
  runs.next = part ? count * part / c->parts : 0;
  runs.end = part + 1 < c->parts ? count * (part + 1) / c->parts : count;
  runs.walk = begin_walk(c->sizes + c->num_kept, c->strides + c->num_kept, 1, r->num_walked,
                         runs.next / max(r->chunks, 1u));
  return runs;
}

bool next_run(Runs* runs, const __global Reduce* c, const Reduction* r) {
  if (runs->next >= runs->end) return false;
  const uint chunk = runs->next++ % r->chunks, begin = chunk * r->chunk;
  runs->size = min(r->run - begin, r->chunk);
  runs->at = runs->walk.at[0] + begin * r->step;
  if (chunk == r->chunks - 1)
    walk_on(&runs->walk, c->sizes + c->num_kept, c->strides + c->num_kept, 1, r->num_walked);
  return true;
}

// One result out of elements of any type, wherever they are, one after the other.
void reduce_elements(const __global Reduce* c, const Reduction* r, const __global void* x, const long from,
                     const uint part, __global void* y, const long to) {
  const bool is_float = c->type <= FLOAT_16, is_extreme = c->kind >= GREATEST;
  float total = first_float(c->kind);
  long integer = c->kind == GREATEST ? LONG_MIN : c->kind == LEAST ? LONG_MAX : c->kind == PRODUCT;
  for (Runs runs = begin_runs(c, r, part); next_run(&runs, c, r);)
    for (uint i = 0; i < runs.size;) {
      const uint end = min(i + REDUCED_AT_ONCE, runs.size);
      const long begin = from + runs.at;
      float sum = is_extreme ? total : first_float(c->kind);
#define REDUCE_FLOATS(STEP)            \
  for (; i < end; ++i) {               \
    const float b = float_at(x, c->type, begin + i * r->step); \
    sum = STEP(sum, b);                \
  }
#define REDUCE_INTEGERS(STEP)          \
  for (; i < end; ++i) {               \
    const long b = integer_at(x, c->type, begin + i * r->step); \
    integer = STEP(integer, b);        \
  }
      if (is_float)
        BY_KIND(c->kind, REDUCE_FLOATS)
      else
        BY_KIND(c->kind, REDUCE_INTEGERS)
      total = is_extreme ? sum : join_floats(c->kind, total, sum);
    }
  if (is_float)
    put_float(total / c->count, y, c->type, to);
  else
    put_integer(integer / (long)c->count, y, c->type, to);
}

bool forgets(const __global Reduce* c, const Totals* totals) { return c->kind >= GREATEST && any(totals->unlike); }

// One result out of rows of floats.
void reduce_rows(const __global Reduce* c, const Reduction* r, const __global float* x, const long from,
                 const uint part, __global float* y, const long to) {
  Totals totals = begin_totals(c->kind);
  for (Runs runs = begin_runs(c, r, part); next_run(&runs, c, r);)
    reduce_row(c->kind, x + from + runs.at, runs.size, &totals);
  if (forgets(c, &totals))
    reduce_elements(c, r, x, from, part, y, to);
  else
    y[to] = join_lanes(c->kind, join_fours(c->kind, &totals)) / c->count;
}

// One or four vectors of results out of columns of floats.
void reduce_columns(const __global Reduce* c, const Reduction* r, const __global float* x, const long from,
                    const uint part, __global float* y, const long to, const uint num_vectors) {
  Totals totals = begin_totals(c->kind);
  for (Runs runs = begin_runs(c, r, part); next_run(&runs, c, r);)
    if (num_vectors == 4)
      reduce_fours(c->kind, x + from + runs.at, WIDTH, r->step, runs.size, &totals);
    else
      reduce_column(c->kind, x + from + runs.at, r->step, runs.size, &totals);
  if (num_vectors == 1) totals.v[0] = join_fours(c->kind, &totals);
  for (uint i = 0; i < num_vectors * WIDTH && forgets(c, &totals); ++i)
    reduce_elements(c, r, x, from + i, part, y, to + i);
  for (uint i = 0; i < num_vectors && !forgets(c, &totals); ++i) STORE(totals.v[i] / c->count, y + to + i * WIDTH);
}

// The results of a group of columns, or one of elements that are no rows of floats.
void reduce_group(const __global Reduce* c, const Reduction* r, const __global float* x, const long from,
                  const uint part, __global float* y, const long to, uint column, const bool is_vector) {
  const uint end = min(column + REDUCED_COLUMNS, r->columns);
  while (column < end) {
    const uint left = end - column;
    if (!is_vector || r->columns < WIDTH) {
      const long i = column++;
      reduce_elements(c, r, x, from + i * c->strides[LOOPS - 1], part, y, to + i * c->strides[2 * LOOPS - 1]);
      continue;
    }
    const uint num_vectors = left == REDUCED_COLUMNS ? 4 : 1;
    if (left < WIDTH) column = end - WIDTH;  // so that the last vector is whole
    reduce_columns(c, r, x, from + column, part, y, to + column, num_vectors);
    column += num_vectors * WIDTH;
  }
}

void run_Reduce(const Core* core, const __global Reduce* c, const uint unit) {
  const Reduction r = cut_reduction(core, c);
  const uint first = unit * r.per_unit, last = min(first + r.per_unit, r.items);
  const __global float* const x = FLOATS(core, c->input);
  __global float* const y = FLOATS(core, c->result);
  const uint per_output = c->parts * r.groups;
  const long to_step = c->strides[2 * LOOPS - 1];
  const bool is_vector = c->type == FLOAT_32 && c->strides[LOOPS - 1] == 1 && (r.is_row || to_step == 1);
  Walk walk = begin_walk(c->sizes, c->strides, 2, c->num_kept, first / per_output);
  for (uint item = first; item < last; ++item) {
    const uint part = item % c->parts, column = item % per_output / c->parts * REDUCED_COLUMNS;
    const long from = c->offsets[0] + walk.at[0];
    const long to = c->offsets[1] + walk.at[1] + part * c->part_stride;
    if (is_vector && r.is_row)
      reduce_rows(c, &r, x, from, part, y, to);
    else
      reduce_group(c, &r, x, from, part, y, to, column, is_vector);
    if (item % per_output == per_output - 1) walk_on(&walk, c->sizes, c->strides, 2, c->num_kept);
  }
}

// Where the greatest or least of the last loop's elements is, the first of equal ones: an index of 4 or 8 bytes. What
// is no number is passed over. The last stride in the result counts nothing.
typedef struct {
  Place input, result;
  uint kind, type, index_bytes;
  int offsets[2];
  uint sizes[8];
  int strides[16];
} FindExtreme;

uint check_FindExtreme(const Check* check, const __global FindExtreme* c) {
  CHECK_FIELDS(c->type <= INT_64 && (c->index_bytes == 4 || c->index_bytes == 8));
  Reach input = reach_of(c->offsets[0]), result = reach_of(c->offsets[1]);
  reach_loops(&input, c->sizes, c->strides, LOOPS - 1);
  reach_over(&input, c->type <= FLOAT_16 ? c->sizes[LOOPS - 1] : max(c->sizes[LOOPS - 1], 1u), c->strides[LOOPS - 1]);
  reach_loops(&result, c->sizes, c->strides + LOOPS, LOOPS - 1);
  CHECK_PLACE(1, input, bytes_of(c->type));
  CHECK_PLACE(2, result, c->index_bytes);
  CHECK_COUNT(2, count_loops(c->sizes, LOOPS - 1), c->index_bytes);
  return FITS;
}

uint extremes_per_unit(const Core* core, const __global FindExtreme* c) {
  return items_per_unit(core, count_rounds(c->sizes, LOOPS - 1), c->sizes[LOOPS - 1] * 2 + 16);
}

uint units_FindExtreme(const Core* core, const __global FindExtreme* c) {
  return divide_up(count_rounds(c->sizes, LOOPS - 1), extremes_per_unit(core, c));
}

uint find_float(const __global float* x, const uint size, const float wanted) {
  uint i = 0;
  for (; i + WIDTH <= size && !any(LOAD(x + i) == (Vector)wanted);) i += WIDTH;
  while (i < size && x[i] != wanted) ++i;
  return i < size ? i : 0;
}

uint find_extreme(const __global FindExtreme* c, const __global void* x, const long from) {
  const uint size = c->sizes[LOOPS - 1];
  const long step = c->strides[LOOPS - 1];
  const bool is_least = c->kind == LEAST;
  uint found = 0;
  if (c->type == FLOAT_32 && step == 1) {
    const __global float* const row = (const __global float*)x + from;
    Totals totals = begin_totals(c->kind);
    reduce_row(c->kind, row, size, &totals);
    return find_float(row, size, join_lanes(c->kind, join_fours(c->kind, &totals)));
  }
  if (c->type <= FLOAT_16) {
    float best = NAN;
    for (uint i = 0; i < size; ++i) {
      const float value = float_at(x, c->type, from + i * step);
      if ((is_least ? value < best : value > best) || (isnan(best) && !isnan(value))) best = value, found = i;
    }
    return found;
  }
  long best = integer_at(x, c->type, from);
  for (uint i = 1; i < size; ++i) {
    const long value = integer_at(x, c->type, from + i * step);
    if (is_least ? value < best : value > best) best = value, found = i;
  }
  return found;
}

void run_FindExtreme(const Core* core, const __global FindExtreme* c, const uint unit) {
  const uint per_unit = extremes_per_unit(core, c), first = unit * per_unit;
  const uint last = min(first + per_unit, count_rounds(c->sizes, LOOPS - 1));
  Walk walk = begin_walk(c->sizes, c->strides, 2, LOOPS - 1, first);
  for (uint row = first; row < last; ++row) {
    const uint found = find_extreme(c, at(core, c->input), c->offsets[0] + walk.at[0]);
    put_integer(found, at(core, c->result), c->index_bytes == 4 ? INT_32 : INT_64, c->offsets[1] + walk.at[1]);
    walk_on(&walk, c->sizes, c->strides, 2, LOOPS - 1);
  }
}

// Rows along the last loop: exp(beta * x) by its sum; its logarithm, with a beta of 1; x by its length.
#define SOFTMAX 0
#define LOG_SOFTMAX 1
#define UNIT_LENGTH 2
// Stages: rows as a whole; or first `statistics` of their parts, the greatest element and the sum of each, and then
// the results.
#define WHOLE 0
#define STATISTICS 1
#define RESULTS 2

typedef struct {
  Place input, statistics, result;
  uint kind, type, stage, parts;
  float beta;
  int offsets[2];
  uint sizes[8];
  int strides[16];
} Normalize;

uint check_Normalize(const Check* check, const __global Normalize* c) {
  CHECK_FIELDS(c->kind <= UNIT_LENGTH && c->type <= FLOAT_16 && c->stage <= RESULTS && c->parts);
  Reach input = reach_of(c->offsets[0]), result = reach_of(c->offsets[1]);
  reach_loops(&input, c->sizes, c->strides, LOOPS);
  reach_loops(&result, c->sizes, c->strides + LOOPS, LOOPS);
  CHECK_PLACE(1, input, bytes_of(c->type));
  if (c->stage != WHOLE) CHECK_COUNT(2, count_of(count_of(count_loops(c->sizes, LOOPS - 1), c->parts), 2), 4);
  if (c->stage != STATISTICS) {
    CHECK_PLACE(3, result, bytes_of(c->type));
    CHECK_COUNT(3, count_loops(c->sizes, LOOPS), bytes_of(c->type));
  }
  return FITS;
}

uint normalized_per_unit(const Core* core, const __global Normalize* c) {
  const uint rows = count_rounds(c->sizes, LOOPS - 1) * c->parts;
  return items_per_unit(core, rows, c->sizes[LOOPS - 1] / c->parts * 16 + 32);
}

uint units_Normalize(const Core* core, const __global Normalize* c) {
  return divide_up(count_rounds(c->sizes, LOOPS - 1) * c->parts, normalized_per_unit(core, c));
}

// A row or a part of one.
typedef struct Row {
  const __global void* x;
  __global void* y;
  long from, to, from_step, to_step;
  uint type, size;
} Row;

// Up to WIDTH elements from i on; what lies behind the last is `rest`.
Vector load_row(const Row* row, const uint i, const float rest) {
  if (row->type == FLOAT_32 && row->from_step == 1 && i + WIDTH <= row->size)
    return LOAD((const __global float*)row->x + row->from + i);
  Vector v = (Vector)rest;
  float* const lanes = (float*)&v;
  for (uint k = 0; k < WIDTH && i + k < row->size; ++k)
    lanes[k] = float_at(row->x, row->type, row->from + (long)(i + k) * row->from_step);
  return v;
}

void store_row(const Vector v, const Row* row, const uint i) {
  if (row->type == FLOAT_32 && row->to_step == 1 && i + WIDTH <= row->size) {
    STORE(v, (__global float*)row->y + row->to + i);
    return;
  }
  const float* const lanes = (const float*)&v;
  for (uint k = 0; k < WIDTH && i + k < row->size; ++k)
    put_float(lanes[k], row->y, row->type, row->to + (long)(i + k) * row->to_step);
}

float greatest_of(const Row* row) {
  Vector greatest = (Vector)-FLT_MAX;
  for (uint i = 0; i < row->size; i += WIDTH) {
    const Vector x = load_row(row, i, -FLT_MAX);
    greatest = GREATER(x, greatest);
  }
  return join_lanes(GREATEST, greatest);
}

// The sum of exp(beta * (x - greatest)), or of squares.
float row_sum(const Row* row, const uint kind, const float beta, const float greatest) {
  float total = 0;
  for (uint i = 0; i < row->size;) {
    const uint end = min(i + REDUCED_AT_ONCE * WIDTH, row->size);
    Vector sum = (Vector)0;
    for (; kind == UNIT_LENGTH && i < end; i += WIDTH) {
      const Vector x = load_row(row, i, 0);
      sum += x * x;
    }
    for (; i < end; i += WIDTH) sum += exp((load_row(row, i, -INFINITY) - greatest) * beta);
    total += join_lanes(SUM, sum);
  }
  return total;
}

void write_row(const Row* row, const uint kind, const float beta, const float greatest, const float sum) {
  const float factor = 1 / (kind == UNIT_LENGTH ? GREATER(1e-6f, sqrt(sum)) : sum), logarithm = log(sum);
  for (uint i = 0; i < row->size; i += WIDTH) {
    const Vector x = load_row(row, i, 0);
    const Vector y = kind == SOFTMAX       ? exp((x - greatest) * beta) * factor
                     : kind == LOG_SOFTMAX ? x - greatest - logarithm
                                           : x * factor;
    store_row(y, row, i);
  }
}

void run_Normalize(const Core* core, const __global Normalize* c, const uint unit) {
  const uint per_unit = normalized_per_unit(core, c), parts = c->parts, first = unit * per_unit;
  const uint last = min(first + per_unit, count_rounds(c->sizes, LOOPS - 1) * parts);
  __global float* const statistics = FLOATS(core, c->statistics);
  Walk walk = begin_walk(c->sizes, c->strides, 2, LOOPS - 1, first / parts);
  for (uint item = first; item < last; ++item) {
    const uint part = item % parts;
    const ulong size = c->sizes[LOOPS - 1], begin = size * part / parts;
    const long from_step = c->strides[LOOPS - 1], to_step = c->strides[2 * LOOPS - 1];
    const Row row = {at(core, c->input), at(core, c->result), c->offsets[0] + walk.at[0] + begin * from_step,
                     c->offsets[1] + walk.at[1] + begin * to_step, from_step, to_step, c->type,
                     size * (part + 1) / parts - begin};
    float greatest = 0, sum = 0;
    if (c->stage != RESULTS) {
      if (c->kind != UNIT_LENGTH) greatest = greatest_of(&row);
      sum = row_sum(&row, c->kind, c->beta, greatest);
    } else {
      const __global float* const of_row = statistics + (item - part) * 2;
      greatest = of_row[0];
      for (uint i = 1; i < parts; ++i) greatest = GREATER(greatest, of_row[2 * i]);
      for (uint i = 0; i < parts; ++i) sum += of_row[2 * i + 1] * exp((of_row[2 * i] - greatest) * c->beta);
    }
    if (c->stage == STATISTICS) {
      statistics[2 * item] = greatest;
      statistics[2 * item + 1] = sum;
    } else {
      write_row(&row, c->kind, c->beta, greatest, sum);
    }
    if (part == parts - 1) walk_on(&walk, c->sizes, c->strides, 2, LOOPS - 1);
  }
}
