/* A vendor whose NPU multiplies two float tensors (MUL), and a float tensor by the number in an asset (the custom op
 * Gain). It keeps the whole contract, but for the one rule that the environment variable BROKEN_RULE names.
 *
 * Byte code: a header, then a function for each partition. */
#ifndef BROKEN_H_
#define BROKEN_H_

#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC 0x314b5242 /* BRK1 */
#define MAX_FUNCTIONS 64

enum { kMul, kGain };

typedef struct {
  char name[24];
  uint32_t kind;
  uint32_t num_inputs;
  uint32_t num_elements;
} Function;

typedef struct {
  uint32_t magic;
  uint32_t num_functions;
  Function functions[MAX_FUNCTIONS];
} ByteCode;

/* Whether this is the rule to break. */
static int breaks(const char* rule) {
  const char* broken = getenv("BROKEN_RULE");
  return broken != NULL && strcmp(broken, rule) == 0;
}

static void crash(void) { *(volatile int*)8 = 0; }

#define CHECK(condition) \
  if (!(condition)) return kLiteRtStatusErrorInvalidArgument
#define TRY(call)                                   \
  do {                                              \
    LiteRtStatus status_ = (call);                  \
    if (status_ != kLiteRtStatusOk) return status_; \
  } while (0)

#endif /* BROKEN_H_ */
