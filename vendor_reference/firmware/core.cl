// The core of the NPU: addresses of tensors, distribution of work, and vectors.
//
// An instruction is a struct and three functions in a file of `families/`:
//
//   typedef struct { Place input, result; uint size; } Relu;
//   uint check_Relu(const Check* check, const __global Relu* c);  // described in `reach.cl`
//   uint units_Relu(const Core* core, const __global Relu* c);
//   void run_Relu(const Core* core, const __global Relu* c, uint unit);
//
// The work of an instruction is divided into `units_Relu` units; this number is the same for all workers. `run_Relu`
// computes one unit; units can run in any order and at the same time. Results must not depend on how the work is
// divided into units.

// The last region is the scratch memory of the workers.
#define REGIONS 16
#define NOWHERE 0xffffffffu
#define LOOPS 8  // maximum number of nested loops of an instruction

// The address of a tensor: the number of a region (a kernel argument), and an offset in the region in units of 64
// bytes.
typedef struct {
  uint region, offset;
} Place;

// One of the workers, which all run the same commands.
//   scratch: SCRATCH floats of the worker's own memory, for one unit. This is global memory, which a CPU keeps in its
//   cache. A function can therefore take a pointer to scratch memory or to a tensor, even if OpenCL C has no generic
//   address space.
//   command, fault: Data for `report_index`.
typedef struct {
  __global uchar* regions[REGIONS];
  uint num_workers;
  __global float* scratch;
  uint command;
  volatile __global Counter* fault;
} Core;

// Reports that a tensor contains an index outside of 0 to size - 1; the run then ends with an error. Only the first
// report is kept, as five words: the number of reports, the position of the command in the stream, the index (two
// words) and the size.
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

// Vectors of WIDTH floats, and loads and stores of vectors at unaligned addresses.
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
typedef JOIN(float, WIDTH) Vector;
typedef Vector UnalignedVector __attribute__((aligned(4)));
#define LOAD(pointer) (*(const __global UnalignedVector*)(pointer))
#define STORE(value, pointer) (*(__global UnalignedVector*)(pointer) = (value))

// Returns the number of items in a unit of work, given the number of operations per item. Units are large enough to be
// worth a claim, and small enough that all workers finish at nearly the same time.
uint items_per_unit(const Core* core, const uint items, const ulong operations) {
  if (core->num_workers == 1) return max(items, 1u);
  const ulong worth = (UNIT_OPERATIONS + operations - 1) / max(operations, 1ul);
  const ulong fair = (items + core->num_workers * 8 - 1) / (core->num_workers * 8);
  return (uint)clamp(max(worth, fair), 1ul, (ulong)max(items, 1u));
}

uint divide_up(const uint a, const uint b) { return (a + b - 1) / b; }

// Computes tanh with a relative error of 2e-7, in two thirds of the time of Intel's tanh: near 0 by a polynomial
// (Cephes), because the quotient loses precision there.
Vector tangent(const Vector x) {
  const Vector size = fabs(x), z = x * x;
  const Vector series = (((-5.70498872745e-3f * z + 2.06390887954e-2f) * z - 5.37397155531e-2f) * z +
                         1.33314422036e-1f) * z - 3.33332819422e-1f;
  return size < 0.625f ? series * z * x + x : copysign(1 - 2 / (exp(2 * size) + 1), x);
}

// Kinds of fused activations, in addition to the limits `low` and `high`.
#define CLAMP 0
#define TANH 1
#define LOGISTIC 2
#define HARD_SWISH 3
#define PRELU 4  // PRELU with slopes, only for instructions that have slopes

// Applies the activation to a result: a clamp, which leaves NaN unchanged, or a function.
Vector activate(const Vector v, const uint activation, const float low, const float high) {
  if (activation == CLAMP) return v < low ? (Vector)low : v > high ? (Vector)high : v;
  if (activation == TANH) return tangent(v);
  if (activation == LOGISTIC) return 1 / (1 + exp(-v));
  return v * (clamp(v + 3, (Vector)0, (Vector)6) * (1 / 6.0f));
}
