// Copies of elements without conversion; an element is a word of 1, 2, 4, 8 or 16 bytes.

// Nested loops over some views, the outermost first: the strides of a view are elements, LOOPS of them.
#define VIEWS 3

// Iteration over the outer loops; holds the current position of each view.
typedef struct Walk {
  uint index[LOOPS];
  long at[VIEWS];
} Walk;

Walk begin_walk(const __global uint* sizes, const __global int* strides, const uint num_views, const uint num_loops,
                uint round) {
  Walk walk;
  for (uint view = 0; view < num_views; ++view) walk.at[view] = 0;
  for (uint loop = num_loops; loop-- > 0;) {
    walk.index[loop] = 0;
    if (sizes[loop] == 1) continue;
    walk.index[loop] = round % sizes[loop];
    round /= sizes[loop];
    for (uint view = 0; view < num_views; ++view)
      walk.at[view] += (long)walk.index[loop] * strides[view * LOOPS + loop];
  }
  return walk;
}

void walk_on(Walk* walk, const __global uint* sizes, const __global int* strides, const uint num_views,
             const uint num_loops) {
  for (uint loop = num_loops; loop-- > 0;) {
    const bool is_over = ++walk->index[loop] == sizes[loop];
    for (uint view = 0; view < num_views; ++view)
      walk->at[view] += (is_over ? -(long)(sizes[loop] - 1) : 1) * strides[view * LOOPS + loop];
    if (!is_over) return;
    walk->index[loop] = 0;
  }
}

uint count_rounds(const __global uint* sizes, const uint num_loops) {
  uint rounds = 1;
  for (uint loop = 0; loop < num_loops; ++loop) rounds *= sizes[loop];
  return rounds;
}

// Words anywhere in memory.
#define ANYWHERE(T) typedef T Anywhere_##T __attribute__((aligned(1)));
ANYWHERE(uint8) ANYWHERE(uint4) ANYWHERE(ulong) ANYWHERE(uint) ANYWHERE(ushort)
#define WORD(T, pointer) (*(__global Anywhere_##T*)(pointer))
#define READ_WORD(T, pointer) (*(const __global Anywhere_##T*)(pointer))

void copy_bytes(const __global uchar* from, __global uchar* to, const size_t size) {
  size_t i = 0;
  for (; i + 32 <= size; i += 32) WORD(uint8, to + i) = READ_WORD(uint8, from + i);
  if (size & 16) WORD(uint4, to + i) = READ_WORD(uint4, from + i), i += 16;
  if (size & 8) WORD(ulong, to + i) = READ_WORD(ulong, from + i), i += 8;
  if (size & 4) WORD(uint, to + i) = READ_WORD(uint, from + i), i += 4;
  if (size & 2) WORD(ushort, to + i) = READ_WORD(ushort, from + i), i += 2;
  if (size & 1) to[i] = from[i];
}

// A word of up to 8 bytes, repeated to 8.
ulong repeat_word(const __global uchar* word, const uint bytes) {
  switch (bytes) {
    case 1: return *word * 0x0101010101010101ul;
    case 2: return READ_WORD(ushort, word) * 0x0001000100010001ul;
    case 4: return READ_WORD(uint, word) * 0x0000000100000001ul;
    default: return READ_WORD(ulong, word);
  }
}

void fill_bytes(ulong value, __global uchar* to, const size_t size) {
  const uint8 values = as_uint8((ulong4)value);
  size_t i = 0;
  for (; i + 32 <= size; i += 32) WORD(uint8, to + i) = values;
  for (; i + 8 <= size; i += 8) WORD(ulong, to + i) = value;
  for (; i < size; ++i, value >>= 8) to[i] = (uchar)value;
}

void move_row(const __global uchar* from, const long from_step, __global uchar* to, const long to_step,
              const size_t count, const uint bytes) {
  if (from_step == 1 && to_step == 1) return copy_bytes(from, to, count * bytes);
  if (from_step == 0 && to_step == 1 && bytes <= 8) return fill_bytes(repeat_word(from, bytes), to, count * bytes);
#define MOVE_WORDS(T) \
  for (size_t i = 0; i < count; ++i) ((__global T*)to)[i * to_step] = ((const __global T*)from)[i * from_step]
  switch (bytes) {
    case 1: MOVE_WORDS(uchar); break;
    case 2: MOVE_WORDS(ushort); break;
    case 4: MOVE_WORDS(uint); break;
    case 8: MOVE_WORDS(ulong); break;
    default: MOVE_WORDS(uint4);
  }
}

// Eight words of up to 4 bytes.
uint8 load_words(const __global uchar* from, const uint bytes) {
  if (bytes == 4) return READ_WORD(uint8, from);
  return bytes == 2 ? convert_uint8(vload8(0, (const __global ushort*)from)) : convert_uint8(vload8(0, from));
}

void store_words(const uint8 words, __global uchar* to, const uint bytes) {
  if (bytes == 4)
    WORD(uint8, to) = words;
  else if (bytes == 2)
    vstore8(convert_ushort8(words), 0, (__global ushort*)to);
  else
    vstore8(convert_uchar8(words), 0, to);
}

// Eight rows become eight columns, in registers: halves of rows, then words and pairs of words within halves.
void turn_words(const __global uchar* from, const size_t from_step, __global uchar* to, const size_t to_step,
                const uint bytes) {
  uint8 v[8], w[8];
#pragma unroll
  for (uint i = 0; i < 8; ++i) v[i] = load_words(from + i * from_step, bytes);
#pragma unroll
  for (uint i = 0; i < 4; ++i) {
    w[i] = (uint8)(v[i].lo, v[i + 4].lo);
    w[i + 4] = (uint8)(v[i].hi, v[i + 4].hi);
  }
#pragma unroll
  for (uint i = 0; i < 8; i += 2) {
    const uint8 a = w[i], b = w[i + 1];
    v[i] = (uint8)(a.s0, b.s0, a.s1, b.s1, a.s4, b.s4, a.s5, b.s5);
    v[i + 1] = (uint8)(a.s2, b.s2, a.s3, b.s3, a.s6, b.s6, a.s7, b.s7);
  }
#pragma unroll
  for (uint i = 0; i < 8; ++i) {
    const uint first = (i & 4) + (i >> 1 & 1);
    const uint8 a = v[first], b = v[first + 2];
    w[i] = i & 1 ? (uint8)(a.s23, b.s23, a.s67, b.s67) : (uint8)(a.s01, b.s01, a.s45, b.s45);
  }
#pragma unroll
  for (uint i = 0; i < 8; ++i) store_words(w[i], to + i * to_step, bytes);
}

// to[row][column] = from[column][row]; steps are words from a column, or row, to the next.
void turn_tile(const __global uchar* from, const long from_step, __global uchar* to, const long to_step,
               const size_t rows, const size_t columns, const uint bytes) {
  const size_t whole_rows = bytes <= 4 ? rows & ~7ul : 0, whole_columns = columns & ~7ul;
  for (size_t row = 0; row < whole_rows; row += 8)
    for (size_t column = 0; column < whole_columns; column += 8)
      turn_words(from + (column * from_step + row) * bytes, from_step * bytes, to + (row * to_step + column) * bytes,
                 to_step * bytes, bytes);
  for (size_t column = whole_columns; column < columns; ++column)
    move_row(from + column * from_step * bytes, 1, to + column * bytes, to_step, whole_rows, bytes);
  for (size_t row = whole_rows; row < rows; ++row)
    move_row(from + row * bytes, from_step, to + row * to_step * bytes, 1, columns, bytes);
}

// Each element of `result` is copied from `input`; without an input, each element is `value`.
//   bytes: Size of an element.
//   offsets: elements to the first of input and result.
//   sizes: of loops, the outermost first.
//   strides: elements from one round to the next, of the input in each loop, then of the result. Where the innermost
//     loop reads apart what it writes in a row, the one around it is best one that reads in a row.
typedef struct {
  Place input, result;
  uint value[2];
  uint bytes;
  int offsets[2];
  uint sizes[8];
  int strides[16];
} Move;

bool is_word(const uint bytes) { return bytes && bytes <= 16 && !(bytes & (bytes - 1)); }

uint check_Move(const Check* check, const __global Move* c) {
  CHECK_FIELDS(is_word(c->bytes) && (c->input.region != NOWHERE || c->bytes <= 8));
  Reach input = reach_of(c->offsets[0]), result = reach_of(c->offsets[1]);
  reach_loops(&input, c->sizes, c->strides, LOOPS);
  reach_loops(&result, c->sizes, c->strides + LOOPS, LOOPS);
  CHECK_FIELDS(c->input.region != NOWHERE || is_inside(input, sizeof(c->value), c->bytes));
  if (c->input.region != NOWHERE) CHECK_PLACE(1, input, c->bytes);
  CHECK_PLACE(2, result, c->bytes);
  CHECK_COUNT(2, count_loops(c->sizes, LOOPS), c->bytes);
  return FITS;
}

// The two innermost loops are done in tiles.
#define MOVE_TILE 4096u
#define TURN_TILE 64u

typedef struct MoveTiles {
  bool is_turned;
  uint rows, columns, across, down;  // of a tile; and tiles
} MoveTiles;

MoveTiles move_tiles(const __global Move* c) {
  const uint rows = c->sizes[LOOPS - 2], columns = c->sizes[LOOPS - 1];
  MoveTiles tiles;
  tiles.is_turned = rows > 1 && c->strides[LOOPS - 2] == 1 && c->strides[LOOPS - 1] != 1 && c->strides[LOOPS - 1] &&
                    c->strides[2 * LOOPS - 1] == 1;
  tiles.columns = min(columns, tiles.is_turned ? max(TURN_TILE, MOVE_TILE / rows) : MOVE_TILE);
  tiles.rows = clamp(MOVE_TILE / max(tiles.columns, 1u), 1u, max(rows, 1u));
  tiles.across = divide_up(columns, max(tiles.columns, 1u));
  tiles.down = divide_up(rows, tiles.rows);
  return tiles;
}

uint count_move_tiles(const __global Move* c, const MoveTiles* tiles) {
  return count_rounds(c->sizes, LOOPS - 2) * tiles->across * tiles->down;
}

uint units_Move(const Core* core, const __global Move* c) {
  const MoveTiles tiles = move_tiles(c);
  const uint items = count_move_tiles(c, &tiles);
  return divide_up(items, items_per_unit(core, items, tiles.rows * tiles.columns + 16));
}

void run_Move(const Core* core, const __global Move* c, const uint unit) {
  const MoveTiles tiles = move_tiles(c);
  const uint items = count_move_tiles(c, &tiles), count = tiles.across * tiles.down;
  const uint per_unit = items_per_unit(core, items, tiles.rows * tiles.columns + 16), bytes = c->bytes;
  const uint first = unit * per_unit, last = min(first + per_unit, items);
  const __global int* const from_steps = c->strides + LOOPS - 2;
  const __global int* const to_steps = c->strides + 2 * LOOPS - 2;
  const __global uchar* input = at(core, c->input);
  __global uchar* const result = at(core, c->result);
  if (!input) input = (const __global uchar*)c->value;
  Walk walk = begin_walk(c->sizes, c->strides, 2, LOOPS - 2, first / count);
  for (uint item = first, tile = first % count; item < last; ++item) {
    const long row = tile / tiles.across * tiles.rows, column = tile % tiles.across * tiles.columns;
    const size_t rows = min(tiles.rows, c->sizes[LOOPS - 2] - (uint)row);
    const size_t columns = min(tiles.columns, c->sizes[LOOPS - 1] - (uint)column);
    const __global uchar* const from =
        input + (c->offsets[0] + walk.at[0] + row * from_steps[0] + column * from_steps[1]) * bytes;
    __global uchar* const to =
        result + (c->offsets[1] + walk.at[1] + row * to_steps[0] + column * to_steps[1]) * bytes;
    if (tiles.is_turned)
      turn_tile(from, from_steps[1], to, to_steps[0], rows, columns, bytes);
    else
      for (size_t i = 0; i < rows; ++i)
        move_row(from + i * from_steps[0] * bytes, from_steps[1], to + i * to_steps[0] * bytes, to_steps[1], columns,
                 bytes);
    if (++tile == count) {
      tile = 0;
      walk_on(&walk, c->sizes, c->strides, 2, LOOPS - 2);
    }
  }
}

// result = input at indices from a tensor, along one dimension; an index out of range ends the run with an error.
//   bytes, index_bytes: of an element, and of an index.
//   axis_size, axis_stride: of the input's dimension.
//   offsets, strides: as those of a Move, for the input beside that dimension, the indices, and the result.
typedef struct {
  Place input, indices, result;
  uint bytes, index_bytes, axis_size;
  int axis_stride;
  int offsets[3];
  uint sizes[8];
  int strides[24];
} Gather;

uint check_Gather(const Check* check, const __global Gather* c) {
  CHECK_FIELDS(is_word(c->bytes) && is_word(c->index_bytes) && c->index_bytes > 1 && c->index_bytes < 16);
  Reach input = reach_of(c->offsets[0]), indices = reach_of(c->offsets[1]), result = reach_of(c->offsets[2]);
  reach_loops(&input, c->sizes, c->strides, LOOPS);
  reach_over(&input, c->axis_size, c->axis_stride);
  reach_loops(&indices, c->sizes, c->strides + LOOPS, LOOPS);
  reach_loops(&result, c->sizes, c->strides + 2 * LOOPS, LOOPS);
  CHECK_PLACE(1, input, c->bytes);
  CHECK_PLACE(2, indices, c->index_bytes);
  CHECK_PLACE(3, result, c->bytes);
  CHECK_COUNT(3, count_loops(c->sizes, LOOPS), c->bytes);
  return FITS;
}

long read_index(const __global uchar* index, const uint bytes) {
  switch (bytes) {
    case 2: return *(const __global short*)index;
    case 4: return *(const __global int*)index;
    default: return *(const __global long*)index;
  }
}

uint gather_rows(const Core* core, const __global Gather* c) {
  return items_per_unit(core, count_rounds(c->sizes, LOOPS - 1), c->sizes[LOOPS - 1] + 16);
}

uint units_Gather(const Core* core, const __global Gather* c) {
  return divide_up(count_rounds(c->sizes, LOOPS - 1), gather_rows(core, c));
}

void run_Gather(const Core* core, const __global Gather* c, const uint unit) {
  const uint rows = count_rounds(c->sizes, LOOPS - 1), per_unit = gather_rows(core, c), bytes = c->bytes;
  const uint first = unit * per_unit, last = min(first + per_unit, rows), columns = c->sizes[LOOPS - 1];
  const __global int* const steps = c->strides + LOOPS - 1;
  const long from_step = steps[0], index_step = steps[LOOPS], to_step = steps[2 * LOOPS];
  const __global uchar* const input = (const __global uchar*)at(core, c->input) + (long)c->offsets[0] * bytes;
  const __global uchar* const indices =
      (const __global uchar*)at(core, c->indices) + (long)c->offsets[1] * c->index_bytes;
  __global uchar* const result = (__global uchar*)at(core, c->result) + (long)c->offsets[2] * bytes;
  Walk walk = begin_walk(c->sizes, c->strides, 3, LOOPS - 1, first);
  for (uint row = first; row < last; ++row) {
    // Elements in a row that have one index are moved together.
    const uint together = index_step ? 1 : columns;
    for (uint column = 0; column < columns; column += together) {
      const long index = read_index(indices + (walk.at[1] + column * index_step) * c->index_bytes, c->index_bytes);
      __global uchar* const to = result + (walk.at[2] + column * to_step) * bytes;
      if (0 <= index && index < c->axis_size)
        move_row(input + (walk.at[0] + column * from_step + index * c->axis_stride) * bytes, from_step, to, to_step,
                 together, bytes);
      else
        report_index(core, index, c->axis_size);
    }
    walk_on(&walk, c->sizes, c->strides, 3, LOOPS - 1);
  }
}
