// The NPU's core: where tensors lie, how work is shared, and vectors.
//
// An instruction is a struct and three functions in a file of `families/`:
//
//   typedef struct { Place input, result; uint size; } Relu;
//   uint check_Relu(const Check* check, const __global Relu* c);  // see `reach.cl`
//   uint units_Relu(const Core* core, const __global Relu* c);
//   void run_Relu(const Core* core, const __global Relu* c, uint unit);
//
// Its work is `units_Relu` units, the same number for all workers; `run_Relu` does one, in any order with the others
// and at the same time. Results must not depend on how work is cut into units.

// The last region is the workers' scratch.
#define REGIONS 16
#define NOWHERE 0xffffffffu
#define LOOPS 8  // nested loops of an instruction

// Where a tensor begins: a kernel argument, and an offset in it in units of 64 bytes.
typedef struct {
  uint region, offset;
} Place;

// One of the workers that run the same commands.
//   scratch: SCRATCH floats of its own, for one unit. They are global memory, which a CPU has in its cache: so a
//   function can take a pointer into them or into a tensor, also where OpenCL C has no generic address space.
//   command, fault: for report_index.
typedef struct {
  __global uchar* regions[REGIONS];
  uint num_workers;
  __global float* scratch;
  uint command;
  volatile __global Counter* fault;
} Core;

// Says that a tensor has an index that is outside of 0 to size - 1: the run ends with an error. The first is kept, as
// five words: how many there were, the command's place in the stream, the index, the size.
void report_index(const Core* core, const long index, const uint size) {
  if (ADD(core->fault, 1)) return;
  volatile __global uint* const words = (volatile __global uint*)core->fault;
  words[1] = core->command;
  words[2] = (uint)index;
  words[3] = (uint)(index >> 32);
  words[4] = size;
}

__global void* at(const Core* core, const Place place) {
  return place.region == NOWHERE ? 0 : core->regions[place.region] + (size_t)place.offset * 64;
}

#define FLOATS(core, place) ((__global float*)at(core, place))

// Vectors of WIDTH floats that lie anywhere in memory.
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
typedef JOIN(float, WIDTH) Vector;
typedef Vector UnalignedVector __attribute__((aligned(4)));
#define LOAD(pointer) (*(const __global UnalignedVector*)(pointer))
#define STORE(value, pointer) (*(__global UnalignedVector*)(pointer) = (value))

// How many items make a unit of work, where each takes about so many operations: enough for a unit to be worth
// a claim, and few enough for all workers to end together.
uint items_per_unit(const Core* core, const uint items, const ulong operations) {
  if (core->num_workers == 1) return max(items, 1u);
  const ulong worth = (UNIT_OPERATIONS + operations - 1) / max(operations, 1ul);
  const ulong fair = (items + core->num_workers * 8 - 1) / (core->num_workers * 8);
  return (uint)clamp(max(worth, fair), 1ul, (ulong)max(items, 1u));
}

uint divide_up(const uint a, const uint b) { return (a + b - 1) / b; }

// tanh to 2e-7 of it, in two thirds of the time of Intel's: a polynomial near 0 (Cephes), where the quotient has no digits.
Vector tangent(const Vector x) {
  const Vector size = fabs(x), z = x * x;
  const Vector series = (((-5.70498872745e-3f * z + 2.06390887954e-2f) * z - 5.37397155531e-2f) * z +
                         1.33314422036e-1f) * z - 3.33332819422e-1f;
  return size < 0.625f ? series * z * x + x : copysign(1 - 2 / (exp(2 * size) + 1), x);
}

// What a fused activation is, beside `low` and `high`.
#define CLAMP 0
#define TANH 1
#define LOGISTIC 2
#define HARD_SWISH 3
#define PRELU 4  // with slopes of its own: only where an instruction has them

// The activation of a result: a clamp that lets through what is no number, or a function.
Vector activate(const Vector v, const uint activation, const float low, const float high) {
  if (activation == CLAMP) return v < low ? (Vector)low : v > high ? (Vector)high : v;
  if (activation == TANH) return tangent(v);
  if (activation == LOGISTIC) return 1 / (1 + exp(-v));
  return v * (clamp(v + 3, (Vector)0, (Vector)6) * (1 / 6.0f));
}
