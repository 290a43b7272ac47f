// How far commands reach: each is checked before it runs, so that it stays within its places whatever its fields are.
//
// An instruction has a third function for that:
//
//   uint check_Relu(const Check* check, const __global Relu* c);
//
// It returns FITS, WRONG_FIELDS for fields that no run can have, or the number of a place that is too small, from 1 on.

#define FITS 0
#define WRONG_FIELDS 255
// What no tensor's elements, and no dimension, come near: sums and products of a few of them have 64 and 31 bits.
#define MOST_ELEMENTS (1ul << 44)
#define MOST_SIZE (1u << 28)

// What a command is checked with.
//   sizes: bytes of each of its places, in order; 0 of one that is nowhere.
//   constants: the region of the constants.
typedef struct {
  const __global ulong* sizes;
  const __global uchar* constants;
} Check;

// The elements of a tensor that nested loops touch, from `low` to `high`.
typedef struct {
  long low, high;
  bool is_empty, is_endless;
} Reach;

Reach reach_of(const long first) {
  const Reach reach = {first, first, false, false};
  return reach;
}

// The same from each of `count` places on, which lie `stride` apart.
void reach_over(Reach* reach, const ulong count, const long stride) {
  const ulong size = abs(stride);
  if (!count) reach->is_empty = true;
  else if (size && count - 1 > MOST_ELEMENTS / size) reach->is_endless = true;
  else if (stride < 0) reach->low += (long)(count - 1) * stride;
  else reach->high += (long)(count - 1) * stride;
}

void reach_loops(Reach* reach, const __global uint* sizes, const __global int* strides, const uint num_loops) {
  for (uint loop = 0; loop < num_loops; ++loop) reach_over(reach, sizes[loop], strides[loop]);
}

// A product that does not overflow.
ulong count_of(const ulong a, const ulong b) { return b && a > MOST_ELEMENTS / b ? MOST_ELEMENTS : a * b; }

ulong count_loops(const __global uint* sizes, const uint num_loops) {
  ulong count = 1;
  for (uint loop = 0; loop < num_loops; ++loop)
    if (!sizes[loop]) return 0;
  for (uint loop = 0; loop < num_loops; ++loop) count = count_of(count, sizes[loop]);
  return count;
}

bool is_inside(const Reach reach, const ulong size_bytes, const uint bytes) {
  return reach.is_empty || (!reach.is_endless && reach.low >= 0 && reach.high < (long)(size_bytes / bytes));
}

// Checks that elements of place `number` lie in it.
#define CHECK_PLACE(number, reach, bytes) \
  if (!is_inside(reach, check->sizes[(number) - 1], bytes)) return number
// Checks that so many results can be different elements of place `number`: a run does not take for ever.
#define CHECK_COUNT(number, count, bytes) \
  if ((count) > check->sizes[(number) - 1] / (bytes)) return number
#define CHECK_FIELDS(condition) \
  if (!(condition)) return WRONG_FIELDS

// Images [batches, height, width, channels], whose channels lie in a row.
Reach reach_image(const ulong first, const uint batches, const uint batch, const uint height, const uint row,
                  const uint width, const uint pixel, const ulong channels) {
  Reach reach = reach_of(first);
  reach_over(&reach, batches, batch);
  reach_over(&reach, height, row);
  reach_over(&reach, width, pixel);
  reach_over(&reach, channels, 1);
  return reach;
}

ulong count_image(const uint batches, const uint height, const uint width, const ulong channels) {
  return count_of(count_of(batches, channels), count_of(height, width));
}

// Whether windows along one dimension can be counted: `taps` of them `dilation` apart, for results `stride` apart.
bool is_window(const uint input, const uint result, const uint taps, const uint stride, const uint dilation,
               const ulong before) {
  const ulong reach = count_of(result, stride) + count_of(taps, dilation);
  return stride && dilation && taps && input < MOST_SIZE && reach < MOST_SIZE && before < MOST_SIZE;
}
