/* Prints errors to standard error, in the format of the host's log. */
#ifndef LITERT_NPU_PYTHON_LIBRARY_SAY_H_
#define LITERT_NPU_PYTHON_LIBRARY_SAY_H_

#include <stdio.h>

#include "configuration.h"

#define SAY(...) \
  (fprintf(stderr, "ERROR: [litert_npu] %s: ", MANUFACTURER), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr))

#endif /* LITERT_NPU_PYTHON_LIBRARY_SAY_H_ */
