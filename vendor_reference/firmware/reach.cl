// Checks of commands: before a command runs, its check ensures that it stays within its memory, whatever its fields
// are.
//
// For this purpose, an instruction has a third function:
//
//   uint check_Relu(const Check* check, const __global Relu* c);
//
// The function returns FITS, WRONG_FIELDS for invalid fields, or the number (from 1) of a `Place` field whose memory
// is too small.

#define FITS 0
#define WRONG_FIELDS 255
// Limits that no number of elements and no dimension reaches, so that sums and products of a few sizes do not overflow
// 64 or 31 bits.
#define MOST_ELEMENTS (1ul << 44)
#define MOST_SIZE (1u << 28)

// Data with which a command is checked.
//   sizes: Sizes of the memory of its `Place` fields in order, in bytes; 0 for a field without memory.
//   constants: The region of the constants.
typedef struct {
  const __global ulong* sizes;
  const __global uchar* constants;
} Check;

// The range of a tensor's elements that nested loops access, from `low` to `high`.
typedef struct {
  long low, high;
  bool is_empty, is_endless;
} Reach;

Reach reach_of(const long first) {
  const Reach reach = {first, first, false, false};
  return reach;
}

// Extends the range by a loop of `count` rounds, whose elements lie `stride` apart.
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

// Returns a product without overflow.
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

// Checks that a range of elements lies in the memory of `Place` field `number`.
#define CHECK_PLACE(number, reach, bytes) \
  if (!is_inside(reach, check->sizes[(number) - 1], bytes)) return number
// Checks that the number of results does not exceed the number of elements of `Place` field `number`, so that a run
// cannot take forever.
#define CHECK_COUNT(number, count, bytes) \
  if ((count) > check->sizes[(number) - 1] / (bytes)) return number
#define CHECK_FIELDS(condition) \
  if (!(condition)) return WRONG_FIELDS

// Checks images [batches, height, width, channels] with contiguous channels.
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

// Returns whether the positions of windows along one dimension do not overflow: each window has `taps` elements
// `dilation` apart, and windows lie `stride` apart.
bool is_window(const uint input, const uint result, const uint taps, const uint stride, const uint dilation,
               const ulong before) {
  const ulong reach = count_of(result, stride) + count_of(taps, dilation);
  return stride && dilation && taps && input < MOST_SIZE && reach < MOST_SIZE && before < MOST_SIZE;
}
