/* Zircon's byte code: functions until the end. */
#ifndef ZIRCON_BYTE_CODE_H_
#define ZIRCON_BYTE_CODE_H_

#include <stdint.h>

typedef struct {
  char name[24];
  uint32_t num_elements; /* of the input */
  uint32_t bound;        /* of the output */
} Function;

#endif /* ZIRCON_BYTE_CODE_H_ */
