/* Cobalt's byte code, which its compiler writes and its driver reads: a header, and then functions until the end.
 * Numbers have 4 bytes in this machine's byte order. The byte code may begin at any address. */
#ifndef COBALT_BYTE_CODE_H_
#define COBALT_BYTE_CODE_H_

#include <stdint.h>

typedef struct {
  char magic[40];
} Header;

static const Header kHeader = {"Cobalt byte code 1"};

/* YOUR OPS: the ops that a function may compute. */
enum { kMul = 1, kGain = 2, kSub = 3 };

typedef struct {
  char name[24];
  uint32_t op;
  uint32_t num_elements; /* number of 32-bit floats in each input and in the output */
  uint32_t num_inputs;   /* number of inputs of the call: 2, or 1 for kGain and for x * x and x - x */
  uint32_t operands[2];  /* for each input of the op, the index of the call's input, which is an input of the subgraph */
} Function;

#endif /* COBALT_BYTE_CODE_H_ */
