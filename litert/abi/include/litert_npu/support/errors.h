/* Macros that refuse arguments and return failures, and a function that logs messages. This header is optional, like
 * all headers in litert_npu/support. */
#ifndef LITERT_NPU_SUPPORT_ERRORS_H_
#define LITERT_NPU_SUPPORT_ERRORS_H_

#include <stdarg.h>
#include <stdio.h>

#include "litert_npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns InvalidArgument if a condition on the arguments is false, for example for NULL or for an index that is too
 * high. */
#define LITERT_NPU_CHECK(condition)                             \
  do {                                                          \
    if (!(condition)) return kLiteRtStatusErrorInvalidArgument; \
  } while (0)

/* Returns the status of a call that fails, without releasing anything first. */
#define LITERT_NPU_TRY(call)                                              \
  do {                                                                    \
    const LiteRtStatus litert_npu_status_ = (call);                       \
    if (litert_npu_status_ != kLiteRtStatusOk) return litert_npu_status_; \
  } while (0)

/* Writes a message to stderr, like stock LiteRT's log. The message is one line of up to 511 bytes; a longer one is cut.
 * Messages of several threads do not mix. If a compiler plugin runs in a child process, its messages are shown with an
 * error that it returns, and with `--debug`. To say why the plugin leaves an op on the CPU, use
 * LiteRtCompilerPluginGetRefusal. */
__attribute__((format(printf, 2, 3))) static inline void LiteRtNpuSay(const char* vendor, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  fprintf(stderr, "ERROR: [%s] %s\n", vendor, text);
}

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_SUPPORT_ERRORS_H_ */
