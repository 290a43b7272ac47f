// Element by element, one operand.

// result = clamp(input, low, high), for `size` elements in a row.
typedef struct {
  Place input, result;
  uint size;
  float low, high;
} Clamp;

uint units_Clamp(const Core* core, const __global Clamp* c) {
  return divide_up(c->size, items_per_unit(core, c->size, 1));
}

void run_Clamp(const Core* core, const __global Clamp* c, const uint unit) {
  const uint items = items_per_unit(core, c->size, 1);
  const size_t begin = (size_t)unit * items, end = min(begin + items, (size_t)c->size);
  const __global float* const x = FLOATS(core, c->input);
  __global float* const y = FLOATS(core, c->result);
  size_t i = begin;
  for (; i + WIDTH <= end; i += WIDTH) STORE(clamp(LOAD(x + i), (Vector)c->low, (Vector)c->high), y + i);
  for (; i < end; ++i) y[i] = clamp(x[i], c->low, c->high);
}
