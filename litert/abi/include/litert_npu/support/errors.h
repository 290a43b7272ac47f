/* Refuses, hands on, and says what went wrong. Optional, as all of litert_npu/support is. */
#ifndef LITERT_NPU_SUPPORT_ERRORS_H_
#define LITERT_NPU_SUPPORT_ERRORS_H_

#include <stdarg.h>
#include <stdio.h>

#include "litert_npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Refuses wrong arguments, such as NULL or an index that is too high: returns InvalidArgument. */
#define LITERT_NPU_CHECK(condition)                             \
  do {                                                          \
    if (!(condition)) return kLiteRtStatusErrorInvalidArgument; \
  } while (0)

/* Returns the status of what fails, and releases nothing before. */
#define LITERT_NPU_TRY(call)                                              \
  do {                                                                    \
    const LiteRtStatus litert_npu_status_ = (call);                       \
    if (litert_npu_status_ != kLiteRtStatusOk) return litert_npu_status_; \
  } while (0)

/* Tells people, on stderr, where stock LiteRT's log is, too. One line of up to 511 bytes, a longer one is cut; those of
 * several threads do not mix. A compiler plugin in a process of its own is shown with an error that it returns, and with
 * `--debug`; why it leaves an op is for LiteRtCompilerPluginGetRefusal to say. */
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
