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
enum { kMul = 1, kGain = 2 };

typedef struct {
  char name[24];
  uint32_t op;
  uint32_t num_elements; /* of each input and of the output: 32-bit floats */
  uint32_t num_inputs;   /* 2, or 1 for kGain and for kMul of a tensor with itself */
} Function;

#endif /* COBALT_BYTE_CODE_H_ */
