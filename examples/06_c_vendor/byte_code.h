/* Cobalt's byte code, which its compiler writes and its driver reads: the header, then functions until the end, in
 * 4-byte numbers of this machine's order. It may begin at any address. */
#ifndef COBALT_BYTE_CODE_H_
#define COBALT_BYTE_CODE_H_

#include <stdint.h>

typedef struct {
  char magic[40];
} Header;

static const Header kHeader = {"Cobalt byte code 1"};

/* YOUR OPS: what a function may do. */
enum { kMul = 1, kGain = 2, kSub = 3 };

typedef struct {
  char name[24];
  uint32_t op;
  uint32_t num_elements; /* of each input and of the output: 32-bit floats */
  uint32_t num_inputs;   /* of a call: 2, or 1 for kGain and for an op of a tensor with itself */
  uint32_t operands[2];  /* the call's input that is each input of the op; a call has the subgraph's, in its order */
} Function;

#endif /* COBALT_BYTE_CODE_H_ */
