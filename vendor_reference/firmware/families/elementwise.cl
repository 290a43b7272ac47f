// Element-wise computation: a program of steps over operands that are broadcast to the result's shape.
//
// The program runs on chunks of elements that fit into the first-level cache, so that a step needs only one switch per
// chunk, and computes vectors inside. Steps read and write registers. A register contains the elements of a chunk,
// either in scratch memory or in place in a tensor with contiguous elements. A register whose elements are all equal
// contains only WIDTH of them.

#define OPERANDS 8
#define CHUNK 512
#define REGISTERS (SCRATCH / CHUNK)

// result = program(a, b, ...), in `num_loops` loops of `sizes`, the outermost first.
//   program: a `Program`.
//   offsets: the first element of the result, then of the operands.
//   strides: elements from one round of a loop to the next: of the result, then of each operand.
typedef struct {
  Place program, result, a, b, c, d, e, f, g, h;
  uint num_loops;
  uint sizes[8], offsets[9], strides[72];
} Elementwise;

//   operation: its number in OPERATIONS.
//   y: the register that it writes.
//   a, b, c: those that it reads.
//   low, high: bits of a constant.
typedef struct Step {
  uchar operation, y, a, b;
  uint c, low, high;
} Step;

//   direct: the register that the last step stores, if the step before it computes what is there; else REGISTERS.
//   steps: constants; a load for each operand; what is computed; a store. What constants and loads write, no other
//     step writes.
typedef struct Program {
  uint num_constants, num_operands, num_steps, direct;
  Step steps[1];
} Program;

typedef struct Register {
  __global float* data;
  size_t mask;  // of an element's index: 0 where all are the same
} Register;

// Some rows of the innermost loop, or a part of one.
typedef struct Chunk {
  size_t row, rows, column, columns;
} Chunk;

// How the loops are cut into chunks.
typedef struct Cut {
  size_t rows, columns, chunk_rows, chunk_columns, chunks_in_row, count;
} Cut;

Cut cut_chunks(const __global Elementwise* c) {
  Cut cut;
  const uint inner = c->num_loops - 1;
  cut.rows = 1;
  for (uint i = 0; i < inner; ++i) cut.rows *= c->sizes[i];
  cut.columns = c->sizes[inner];
  cut.chunk_columns = min(cut.columns, (size_t)CHUNK);
  cut.chunk_rows = CHUNK / max(cut.chunk_columns, (size_t)1);
  if (cut.chunk_rows > WIDTH) cut.chunk_rows -= cut.chunk_rows % WIDTH;  // so that vectors leave no rest
  cut.chunks_in_row = (cut.columns + CHUNK - 1) / CHUNK;
  cut.count = cut.chunks_in_row * ((cut.rows + cut.chunk_rows - 1) / cut.chunk_rows);
  return cut;
}

Chunk chunk_at(const Cut* cut, const size_t index) {
  Chunk chunk;
  chunk.row = index / cut->chunks_in_row * cut->chunk_rows;
  chunk.rows = min(cut->chunk_rows, cut->rows - chunk.row);
  chunk.column = index % cut->chunks_in_row * cut->chunk_columns;
  chunk.columns = min(cut->chunk_columns, cut->columns - chunk.column);
  return chunk;
}

// A tensor, or the part of one that a chunk covers.
//   is_flat: whether its elements lie one after another, in the order of the loops.
//   has_one_row: whether all rows are the same.
//   step: from one element of a row to the next.
typedef struct Operand {
  __global uchar* data;
  const __global uint *sizes, *strides;
  uint outer;
  bool is_flat, has_one_row;
  size_t offset, step;
} Operand;

Operand operand_at(const Core* core, const __global Elementwise* c, const uint index) {
  Operand operand;
  operand.data = at(core, (&c->result)[index]);
  operand.sizes = c->sizes;
  operand.strides = c->strides + index * c->num_loops;
  operand.outer = c->num_loops - 1;
  operand.offset = c->offsets[index];
  operand.step = operand.strides[operand.outer];
  operand.is_flat = operand.has_one_row = true;
  size_t dense = 1;
  for (uint i = c->num_loops; i-- > 0; dense *= c->sizes[i]) {
    if (c->sizes[i] == 1) continue;
    operand.is_flat &= operand.strides[i] == dense;
    operand.has_one_row &= i == operand.outer || operand.strides[i] == 0;
  }
  return operand;
}

// Rows of an operand: `count` of them from element `first` on, `stride` apart.
typedef struct Rows {
  size_t row, end, column, columns, first, count, stride;
} Rows;

Rows rows_of(const Operand* operand, const Chunk* chunk) {
  Rows rows = {chunk->row, chunk->row + chunk->rows, chunk->column, chunk->columns, 0, 0, 0};
  if (operand->is_flat) {
    rows.column += chunk->row * operand->sizes[operand->outer];
    rows.columns *= chunk->rows;
    rows.row = 0;
    rows.end = 1;
  }
  return rows;
}

// Goes on to the next rows; false at the end.
bool next_rows(Rows* rows, const Operand* operand) {
  rows->row += rows->count;
  if (rows->row >= rows->end) return false;
  rows->count = rows->end - rows->row;
  rows->first = operand->offset + rows->column * (operand->is_flat ? 1 : operand->step);
  size_t rest = rows->row;
  if (operand->outer && rest + rows->count > 1) {
    const size_t size = operand->sizes[operand->outer - 1];
    rows->stride = operand->strides[operand->outer - 1];
    rows->count = min(rows->count, size - rest % size);
  }
  for (uint i = operand->outer; rest && i-- > 0; rest /= operand->sizes[i])
    rows->first += rest % operand->sizes[i] * operand->strides[i];
  return true;
}

// `unaligned_int`: WIDTH of them, anywhere in memory.
#define UNALIGNED(type) typedef JOIN(type, WIDTH) unaligned_##type __attribute__((aligned(sizeof(type))));
UNALIGNED(float)
UNALIGNED(int)
UNALIGNED(uint)
UNALIGNED(char)
UNALIGNED(uchar)
UNALIGNED(short)
UNALIGNED(ushort)
#define AS_INTS JOIN(as_int, WIDTH)
#define VECTOR(type) JOIN(type, WIDTH)
#define CONVERT(type, value) JOIN(convert_##type, WIDTH)(value)
#define GET(type, pointer) (*(const __global unaligned_##type*)(pointer))
#define PUT(type, pointer, value) (*(__global unaligned_##type*)(pointer) = (value))

// The kinds of steps. `ry`, `ra`, `rb` and `rc` are their registers, `a`, `b` and `c` the elements in them.
#define FILL_32() \
  for (size_t i = 0; i < WIDTH; ++i) ((__global uint*)ry.data)[i] = step->low;
#define FILL_64() \
  for (size_t i = 0; i < WIDTH; ++i) ((__global ulong*)ry.data)[i] = step->low | (ulong)step->high << 32;

// Elements that lie in rows: MANY moves WIDTH of them, where there are vectors of their types, and ONE moves one.
#define LOAD_ROWS(stored, lane, VECTORS, MANY, ONE)                              \
  {                                                                              \
    __global lane* to = (__global lane*)ry.data;                                 \
    while (next_rows(&rows, operand))                                            \
      for (size_t row = 0; row < rows.count; ++row, to += rows.columns) {        \
        const __global stored* const in = (const __global stored*)operand->data; \
        const __global stored* const from = in + rows.first + row * rows.stride; \
        const size_t by = operand->is_flat ? 1 : operand->step;                  \
        size_t i = 0;                                                            \
        if (VECTORS && by == 1)                                                  \
          for (; i + WIDTH <= rows.columns; i += WIDTH) MANY;                    \
        for (; i < rows.columns; ++i) ONE;                                       \
      }                                                                          \
  }
#define STORE_ROWS(stored, lane, VECTORS, MANY, ONE)                                                  \
  {                                                                                                   \
    const __global lane* from = (const __global lane*)ra.data;                                        \
    while (next_rows(&rows, operand))                                                                 \
      for (size_t row = 0; row < rows.count; ++row, from += rows.columns & ra.mask) {                 \
        __global stored* const to = (__global stored*)operand->data + rows.first + row * rows.stride; \
        const size_t by = operand->is_flat ? 1 : operand->step;                                       \
        size_t i = 0;                                                                                 \
        if (VECTORS && by == 1 && ra.mask)                                                            \
          for (; i + WIDTH <= rows.columns; i += WIDTH) MANY;                                         \
        for (; i < rows.columns; ++i) ONE;                                                            \
      }                                                                                               \
  }
#define NONE (void)0
#define LOAD_AS(stored, lane) \
  LOAD_ROWS(stored, lane, true, PUT(lane, to + i, CONVERT(lane, GET(stored, from + i))), to[i] = from[i * by])
#define LOAD_64() LOAD_ROWS(ulong, ulong, false, NONE, to[i] = from[i * by])
#define LOAD_HALF()                                                                      \
  LOAD_ROWS(half, float, true, PUT(float, to + i, JOIN(vload_half, WIDTH)(0, from + i)), \
       to[i] = vload_half(0, from + i * by))
#define STORE_AS(lane, stored)                                                              \
  STORE_ROWS(stored, lane, true, PUT(stored, to + i, CONVERT(stored, GET(lane, from + i))), \
        to[i * by] = (stored)from[i & ra.mask])
#define STORE_64() STORE_ROWS(ulong, ulong, false, NONE, to[i * by] = from[i & ra.mask])
#define STORE_HALF()                                                                       \
  STORE_ROWS(half, float, true, JOIN(vstore_half, WIDTH)(GET(float, from + i), 0, to + i), \
        vstore_half(from[i & ra.mask], 0, to + i * by))

// Integers that stand for real numbers; `ra` has their zero point, `rb` their scale.
#define LOAD_SCALED(stored)                                                                   \
  LOAD_ROWS(stored, float, true,                                                              \
       PUT(float, to + i, (CONVERT(float, GET(stored, from + i)) - ra.data[0]) * rb.data[0]), \
       to[i] = ((float)from[i * by] - ra.data[0]) * rb.data[0])
// `rb` has the zero point, `rc` the inverse of the scale. Added to 1.5 * 2^23, a float's last bit is worth 1, and its
// low bits are the integer.
#define QUANTIZED(value, low, high) (clamp((value) * rc.data[0] + rb.data[0], low, high) + 12582912.0f)
#define STORE_SCALED(stored, low, high)                                                            \
  STORE_ROWS(stored, float, true,                                                                  \
        PUT(stored, to + i, CONVERT(stored, AS_INTS(QUANTIZED(GET(float, from + i), low, high)))), \
        to[i * by] = (stored)as_int(QUANTIZED(from[i & ra.mask], low, high)))


// Vectors of elements of 32 bits; wider ones one by one, since PoCL 3.0 converts no vectors of them.
#define SOURCE(type, name) const VECTOR(type) name = GET(type, (const __global type*)r##name.data + (i & r##name.mask));
#define RESULT(type, ...) PUT(type, (__global type*)ry.data + i, __VA_ARGS__);
#define MAP1(type, A, ...) \
  for (size_t i = 0; i < n; i += WIDTH) { SOURCE(A, a) RESULT(type, __VA_ARGS__) }
#define MAP2(type, A, B, ...) \
  for (size_t i = 0; i < n; i += WIDTH) { SOURCE(A, a) SOURCE(B, b) RESULT(type, __VA_ARGS__) }
#define MAP3(type, A, B, C, ...) \
  for (size_t i = 0; i < n; i += WIDTH) { SOURCE(A, a) SOURCE(B, b) SOURCE(C, c) RESULT(type, __VA_ARGS__) }
#define WIDE_SOURCE(type, name) const type name = ((const __global type*)r##name.data)[i & r##name.mask];
#define WIDE_RESULT(type, ...) ((__global type*)ry.data)[i] = (__VA_ARGS__);
#define WIDE1(type, A, ...) \
  for (size_t i = 0; i < n; ++i) { WIDE_SOURCE(A, a) WIDE_RESULT(type, __VA_ARGS__) }
#define WIDE2(type, A, B, ...) \
  for (size_t i = 0; i < n; ++i) { WIDE_SOURCE(A, a) WIDE_SOURCE(B, b) WIDE_RESULT(type, __VA_ARGS__) }
#define WIDE3(type, A, B, C, ...)                         \
  for (size_t i = 0; i < n; ++i) {                        \
    WIDE_SOURCE(A, a) WIDE_SOURCE(B, b) WIDE_SOURCE(C, c) \
    WIDE_RESULT(type, __VA_ARGS__)                        \
  }

#ifdef cl_khr_fp64
#define DOUBLE1 WIDE1
#define DOUBLE2 WIDE2
#else
#define DOUBLE1(...)
#define DOUBLE2(...)
#endif

// All steps, in the order of their numbers: kind, name, and what a kind asks for. Comparisons are 0 or 1.
// Compiled models have the numbers: a new one comes last.
#define OPERATIONS(X)                                                       \
  X(FILL_32, constant)                                                      \
  X(FILL_64, constant_64)                                                   \
  X(LOAD_AS, load_32, uint, uint)                                           \
  X(LOAD_64, load_64)                                                       \
  X(LOAD_HALF, load_half)                                                   \
  X(LOAD_AS, load_char, char, int)                                          \
  X(LOAD_AS, load_uchar, uchar, int)                                        \
  X(LOAD_AS, load_short, short, int)                                        \
  X(LOAD_AS, load_ushort, ushort, int)                                      \
  X(LOAD_SCALED, dequantize_char, char)                                     \
  X(LOAD_SCALED, dequantize_uchar, uchar)                                   \
  X(LOAD_SCALED, dequantize_short, short)                                   \
  X(STORE_AS, store_32, uint, uint)                                         \
  X(STORE_64, store_64)                                                     \
  X(STORE_HALF, store_half)                                                 \
  X(STORE_AS, store_char, int, char)                                        \
  X(STORE_AS, store_uchar, int, uchar)                                      \
  X(STORE_AS, store_short, int, short)                                      \
  X(STORE_AS, store_ushort, int, ushort)                                    \
  X(STORE_SCALED, quantize_char, char, -128.0f, 127.0f)                     \
  X(STORE_SCALED, quantize_uchar, uchar, 0.0f, 255.0f)                      \
  X(STORE_SCALED, quantize_short, short, -32768.0f, 32767.0f)               \
  X(MAP1, neg_float, float, float, -a)                                      \
  X(MAP1, abs_float, float, float, fabs(a))                                 \
  X(MAP1, sqrt_float, float, float, sqrt(a))                                \
  X(MAP1, rsqrt_float, float, float, 1 / sqrt(a))                           \
  X(MAP1, exp_float, float, float, exp(a))                                  \
  X(MAP1, expm1_float, float, float, expm1(a))                              \
  X(MAP1, log_float, float, float, log(a))                                  \
  X(MAP1, sin_float, float, float, sin(a))                                  \
  X(MAP1, cos_float, float, float, cos(a))                                  \
  X(MAP1, tanh_float, float, float, tangent(a))                             \
  X(MAP1, erfc_float, float, float, erfc(a))                                \
  X(MAP1, logistic_float, float, float, 1 / (1 + exp(-a)))                  \
  X(MAP1, floor_float, float, float, floor(a))                              \
  X(MAP1, ceil_float, float, float, ceil(a))                                \
  X(MAP1, round_float, float, float, rint(a))                               \
  X(MAP1, sign_float, float, float, sign(a))                                \
  X(MAP1, hard_swish_float, float, float, a * clamp(a + 3, 0.0f, 6.0f) / 6) \
  X(MAP2, add_float, float, float, float, a + b)                            \
  X(MAP2, sub_float, float, float, float, a - b)                            \
  X(MAP2, mul_float, float, float, float, a * b)                            \
  X(MAP2, div_float, float, float, float, a / b)                            \
  X(MAP2, max_float, float, float, float, a > b ? a : b)                    \
  X(MAP2, min_float, float, float, float, a < b ? a : b)                    \
  X(MAP2, pow_float, float, float, float, pow(a, b))                        \
  X(MAP2, prelu_float, float, float, float, a < 0 ? a * b : a)              \
  X(MAP2, less_float, int, float, float, (a < b) & 1)                       \
  X(MAP2, less_equal_float, int, float, float, (a <= b) & 1)                \
  X(MAP2, equal_float, int, float, float, (a == b) & 1)                     \
  X(MAP2, not_equal_float, int, float, float, (a != b) & 1)                 \
  X(MAP1, neg_int, int, int, -a)                                            \
  X(MAP1, abs_int, int, int, a < 0 ? -a : a)                                \
  X(MAP1, sign_int, int, int, ((a > 0) & 1) - ((a < 0) & 1))                \
  X(MAP2, add_int, int, int, int, a + b)                                    \
  X(MAP2, sub_int, int, int, int, a - b)                                    \
  X(MAP2, mul_int, int, int, int, a * b)                                    \
  X(MAP2, max_int, int, int, int, a > b ? a : b)                            \
  X(MAP2, min_int, int, int, int, a < b ? a : b)                            \
  X(MAP2, and_int, int, int, int, a & b)                                    \
  X(MAP2, or_int, int, int, int, a | b)                                     \
  X(MAP2, xor_int, int, int, int, a ^ b)                                    \
  X(MAP2, less_int, int, int, int, (a < b) & 1)                             \
  X(MAP2, less_equal_int, int, int, int, (a <= b) & 1)                      \
  X(MAP2, equal_int, int, int, int, (a == b) & 1)                           \
  X(MAP2, not_equal_int, int, int, int, (a != b) & 1)                       \
  X(MAP3, select_32, int, int, int, int, a != 0 ? b : c)                    \
  X(WIDE1, neg_long, long, long, -a)                                        \
  X(WIDE1, abs_long, long, long, a < 0 ? -a : a)                            \
  X(WIDE1, sign_long, long, long, (a > 0) - (a < 0))                        \
  X(WIDE2, add_long, long, long, long, a + b)                               \
  X(WIDE2, sub_long, long, long, long, a - b)                               \
  X(WIDE2, mul_long, long, long, long, a * b)                               \
  X(WIDE2, max_long, long, long, long, a > b ? a : b)                       \
  X(WIDE2, min_long, long, long, long, a < b ? a : b)                       \
  X(WIDE2, less_long, int, long, long, a < b)                               \
  X(WIDE2, less_equal_long, int, long, long, a <= b)                        \
  X(WIDE2, equal_long, int, long, long, a == b)                             \
  X(WIDE2, not_equal_long, int, long, long, a != b)                         \
  X(WIDE3, select_64, long, int, long, long, a ? b : c)                     \
  X(MAP1, int_to_float, float, int, CONVERT(float, a))                      \
  X(MAP1, uint_to_float, float, uint, CONVERT(float, a))                    \
  X(MAP1, float_to_int, int, float, CONVERT(int, a))                        \
  X(MAP1, float_to_uint, uint, float, CONVERT(uint, a))                     \
  X(WIDE1, int_to_long, long, int, a)                                       \
  X(WIDE1, uint_to_long, long, uint, a)                                     \
  X(WIDE1, float_to_long, long, float, (long)a)                             \
  X(WIDE1, float_to_ulong, ulong, float, (ulong)a)                          \
  X(WIDE1, long_to_int, int, long, (int)a)                                  \
  X(WIDE1, long_to_float, float, long, (float)a)                            \
  X(WIDE1, ulong_to_float, float, ulong, (float)a)                          \
  X(DOUBLE2, max_double, double, double, double, a > b ? a : b)             \
  X(DOUBLE2, min_double, double, double, double, a < b ? a : b)             \
  X(DOUBLE2, less_double, int, double, double, a < b)                       \
  X(DOUBLE2, not_equal_double, int, double, double, a != b)                 \
  X(DOUBLE1, int_to_double, double, int, a)                                 \
  X(DOUBLE1, uint_to_double, double, uint, a)                               \
  X(DOUBLE1, long_to_double, double, long, (double)a)                       \
  X(DOUBLE1, ulong_to_double, double, ulong, (double)a)                     \
  X(DOUBLE1, float_to_double, double, float, a)                             \
  X(DOUBLE1, double_to_int, int, double, (int)a)                            \
  X(DOUBLE1, double_to_uint, uint, double, (uint)a)                         \
  X(DOUBLE1, double_to_long, long, double, (long)a)                         \
  X(DOUBLE1, double_to_ulong, ulong, double, (ulong)a)                      \
  X(DOUBLE1, double_to_float, float, double, (float)a)

#define NUMBER(kind, name, ...) operation_##name,
enum { OPERATIONS(NUMBER) NUM_OPERATIONS };

// What a step is, and bytes: of an element in a tensor, in the register that it writes, and in those that it reads.
#define CONSTANT_STEP 0
#define LOAD_STEP 1
#define STORE_STEP 2
#define COMPUTED_STEP 3
typedef struct StepKind {
  uchar kind, stored, y, a, b, c;
} StepKind;

#define BYTES_char 1
#define BYTES_uchar 1
#define BYTES_short 2
#define BYTES_ushort 2
#define BYTES_int 4
#define BYTES_uint 4
#define BYTES_float 4
#define BYTES_long 8
#define BYTES_ulong 8
#define BYTES_double 8
#define KIND_FILL_32() {CONSTANT_STEP, 0, 4, 0, 0, 0}
#define KIND_FILL_64() {CONSTANT_STEP, 0, 8, 0, 0, 0}
#define KIND_LOAD_AS(stored, lane) {LOAD_STEP, BYTES_##stored, BYTES_##lane, 0, 0, 0}
#define KIND_LOAD_64() {LOAD_STEP, 8, 8, 0, 0, 0}
#define KIND_LOAD_HALF() {LOAD_STEP, 2, 4, 0, 0, 0}
#define KIND_LOAD_SCALED(stored) {LOAD_STEP, BYTES_##stored, 4, 4, 4, 0}
#define KIND_STORE_AS(lane, stored) {STORE_STEP, BYTES_##stored, 0, BYTES_##lane, 0, 0}
#define KIND_STORE_64() {STORE_STEP, 8, 0, 8, 0, 0}
#define KIND_STORE_HALF() {STORE_STEP, 2, 0, 4, 0, 0}
#define KIND_STORE_SCALED(stored, low, high) {STORE_STEP, BYTES_##stored, 0, 4, 4, 4}
#define KIND_MAP1(y, a, ...) {COMPUTED_STEP, 0, BYTES_##y, BYTES_##a, 0, 0}
#define KIND_MAP2(y, a, b, ...) {COMPUTED_STEP, 0, BYTES_##y, BYTES_##a, BYTES_##b, 0}
#define KIND_MAP3(y, a, b, c, ...) {COMPUTED_STEP, 0, BYTES_##y, BYTES_##a, BYTES_##b, BYTES_##c}
#define KIND_WIDE1 KIND_MAP1
#define KIND_WIDE2 KIND_MAP2
#define KIND_WIDE3 KIND_MAP3
#define KIND_DOUBLE1 KIND_MAP1
#define KIND_DOUBLE2 KIND_MAP2
#define KIND(kind, name, ...) KIND_##kind(__VA_ARGS__),
__constant StepKind step_kinds[] = {OPERATIONS(KIND)};

// What a check knows of registers behind some steps.
//   bytes: of the elements in each; 0 where nothing is.
//   is_own: whether a constant or an operand has it alone.
typedef struct RegisterUse {
  uchar bytes[REGISTERS];
  bool is_own[REGISTERS];
} RegisterUse;

bool reads_register(const RegisterUse* use, const uint number, const uint bytes) {
  return number < REGISTERS && (!bytes || use->bytes[number] == bytes);
}

// Whether a step is of a kind, and uses registers as they are; `use` is changed as it does.
bool is_step(const __global Step* step, const uint kind, RegisterUse* use) {
  if (step->operation >= NUM_OPERATIONS || step->y >= REGISTERS) return false;
  const StepKind k = step_kinds[step->operation];
  if (k.kind != kind || !reads_register(use, step->a, k.a) || !reads_register(use, step->b, k.b) ||
      !reads_register(use, step->c, k.c))
    return false;
  if (kind == STORE_STEP) return true;
  if (use->is_own[step->y] || step->y + k.y / 4 > REGISTERS) return false;
  use->bytes[step->y] = k.y;
  use->is_own[step->y] = kind != COMPUTED_STEP;
  return true;
}

// Whether a program of `size` bytes only uses registers as they are.
bool is_program(const __global Program* program, const ulong size) {
  if (size < sizeof(Program)) return false;
  const uint count = program->num_steps, constants = program->num_constants, operands = program->num_operands;
  const ulong begin = sizeof(Program) - sizeof(Step);
  if (count > (size - begin) / sizeof(Step) || operands > OPERANDS || (ulong)constants + operands >= count) return false;
  RegisterUse use;
  for (uint i = 0; i < REGISTERS; ++i) use.bytes[i] = use.is_own[i] = 0;
  const uint direct = program->direct;
  const __global Step* const store = program->steps + count - 1;
  if (store->operation >= NUM_OPERATIONS) return false;
  const uint stored = step_kinds[store->operation].stored;
  for (uint i = 0; i < count; ++i) {
    const __global Step* const step = program->steps + i;
    const uint kind = i < constants ? CONSTANT_STEP : i < constants + operands ? LOAD_STEP : COMPUTED_STEP;
    if (!is_step(step, step == store ? STORE_STEP : kind, &use)) return false;
    // A computed step can write to the result itself.
    if (kind == COMPUTED_STEP && step != store && step->y == direct && use.bytes[direct] != stored) return false;
  }
  const bool is_whole = store->operation == operation_store_32 || store->operation == operation_store_64;
  return direct >= REGISTERS || (is_whole && store->a == direct && !use.is_own[direct]);
}

uint check_Elementwise(const Check* check, const __global Elementwise* c) {
  CHECK_FIELDS(c->num_loops && c->num_loops <= LOOPS);
  const __global Program* const program = (const __global Program*)(check->constants + (size_t)c->program.offset * 64);
  if (!is_program(program, check->sizes[0])) return 1;
  const __global Step* const loads = program->steps + program->num_constants;
  const __global Step* const store = program->steps + program->num_steps - 1;
  for (uint i = 0; i <= program->num_operands; ++i) {
    const __global Step* const step = i ? loads + i - 1 : store;
    Reach reach = reach_of(c->offsets[i]);
    for (uint loop = 0; loop < c->num_loops; ++loop)
      reach_over(&reach, c->sizes[loop], c->strides[i * c->num_loops + loop]);
    CHECK_PLACE(i + 2, reach, step_kinds[step->operation].stored);
  }
  CHECK_COUNT(2, count_loops(c->sizes, c->num_loops), step_kinds[store->operation].stored);
  return FITS;
}

// One step on `n` elements; where it loads or stores, they are the operand's in a chunk.
__attribute__((noinline)) void run_step(const __global Step* step, const Register* registers, const Operand* operand,
                                        const Chunk* chunk, const size_t n) {
  const Register ry = registers[step->y];
  const Register ra = registers[step->a], rb = registers[step->b], rc = registers[step->c];
  Rows rows = rows_of(operand, chunk);
  switch (step->operation) {
#define CASE(kind, name, ...) \
  case operation_##name:      \
    kind(__VA_ARGS__) break;
    OPERATIONS(CASE)
  }
}

uint chunks_in_unit(const Core* core, const __global Elementwise* c, const uint count) {
  const __global Program* const program = at(core, c->program);
  const ulong num_steps = program->num_steps - program->num_constants;
  return items_per_unit(core, count, num_steps * CHUNK / 4);  // four elements an operation: most steps are light
}

uint units_Elementwise(const Core* core, const __global Elementwise* c) {
  const uint count = cut_chunks(c).count;
  return divide_up(count, chunks_in_unit(core, c, count));
}

// Whether all chunks' elements lie one after another in an operand.
bool lies_in_row(const Operand* operand, const Cut* cut) {
  return operand->is_flat || (operand->step == 1 && cut->chunk_rows == 1);
}

// How a worker has an operand.
//   is_one: whether its elements are all the same in a chunk.
//   is_ready: whether it is the same in all chunks, and loaded before.
//   is_direct: whether its elements are as a register has them.
typedef struct Source {
  Operand operand;
  bool is_one, is_ready, is_direct;
} Source;

Source source_at(const Core* core, const __global Elementwise* c, const Cut* cut, const uint index, const uint load) {
  Source source;
  source.operand = operand_at(core, c, index);
  const bool has_one_row = source.operand.has_one_row && !source.operand.is_flat;
  source.is_one = !source.operand.is_flat && source.operand.step == 0 && (has_one_row || cut->chunk_rows == 1);
  source.is_ready = has_one_row && (source.is_one || cut->chunks_in_row == 1);
  const bool is_kept = load == operation_load_32 || load == operation_load_64;
  source.is_direct = is_kept && lies_in_row(&source.operand, cut);
  return source;
}

// Where a chunk begins in an operand in which it lies in a row.
__global float* place_in(const Operand* operand, const Chunk* chunk, const bool is_wide) {
  Rows rows = rows_of(operand, chunk);
  next_rows(&rows, operand);
  return (__global float*)(operand->data + rows.first * (is_wide ? 8 : 4));
}

void load_source(const __global Step* step, const Register* registers, const Source* source, const Chunk* chunk) {
  const Chunk one = {chunk->row, 1, chunk->column, WIDTH};
  run_step(step, registers, &source->operand, source->is_one ? &one : chunk, 0);
}

// Brings a chunk of an operand into its register, or points the register there.
void read_source(const Core* core, const __global Step* step, Register* registers, const Source* source,
                 const Chunk* chunk) {
  const bool is_wide = step->operation == operation_load_64;
  if (source->is_direct && (is_wide || chunk->rows * chunk->columns % WIDTH == 0)) {
    registers[step->y].data = place_in(&source->operand, chunk, is_wide);
    return;
  }
  registers[step->y].data = core->scratch + step->y * CHUNK;
  load_source(step, registers, source, chunk);
}

void run_Elementwise(const Core* core, const __global Elementwise* c, const uint unit) {
  const Cut cut = cut_chunks(c);
  const size_t items = chunks_in_unit(core, c, cut.count), end = min((unit + 1) * items, cut.count);
  const __global Program* const program = at(core, c->program);
  const __global Step* const loads = program->steps + program->num_constants;
  const __global Step* const computed = loads + program->num_operands;
  const __global Step* const store = program->steps + program->num_steps - 1;
  const Operand result = operand_at(core, c, 0);
  const Chunk first = {0, cut.chunk_rows, 0, cut.chunk_columns};

  Register registers[REGISTERS];
  for (size_t i = 0; i < REGISTERS; ++i) {
    registers[i].data = core->scratch + i * CHUNK;
    registers[i].mask = ~(size_t)0;
  }
  for (const __global Step* step = program->steps; step < loads; ++step) {
    registers[step->y].mask = 0;
    run_step(step, registers, &result, &first, WIDTH);
  }
  Source sources[OPERANDS];
  for (size_t i = 0; i < program->num_operands; ++i) {
    sources[i] = source_at(core, c, &cut, i + 1, loads[i].operation);
    if (sources[i].is_one) registers[loads[i].y].mask = 0;
    if (sources[i].is_ready) load_source(loads + i, registers, sources + i, &first);
  }
  const bool is_wide = store->operation == operation_store_64;
  const bool is_direct = lies_in_row(&result, &cut) && program->direct < REGISTERS;
  for (size_t index = unit * items; index < end; ++index) {
    const Chunk chunk = chunk_at(&cut, index);
    const size_t n = chunk.rows * chunk.columns;
    for (size_t i = 0; i < program->num_operands; ++i)
      if (!sources[i].is_ready) read_source(core, loads + i, registers, sources + i, &chunk);
    const bool goes_there = is_direct && (is_wide || n % WIDTH == 0);
    if (is_direct) {
      const size_t y = program->direct;
      registers[y].data = goes_there ? place_in(&result, &chunk, is_wide) : core->scratch + y * CHUNK;
    }
    for (const __global Step* step = computed; step < store; ++step) run_step(step, registers, &result, &chunk, n);
    if (!goes_there) run_step(store, registers, &result, &chunk, n);
  }
}
