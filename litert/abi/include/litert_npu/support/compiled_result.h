/* Defines a result of `compile` with one byte code module that has a function for each partition, and the functions of
 * compiler_plugin.h that read and destroy the result. This header is optional. Include it in only one source file of
 * the plugin, because it exports functions.
 *
 * LiteRtNpuCreateResult makes a result. Fill in the result and pass it to the host, which then only reads it, from any
 * thread. If you do not pass a result to the host, destroy it by LiteRtDestroyCompiledResult. */
#ifndef LITERT_NPU_SUPPORT_COMPILED_RESULT_H_
#define LITERT_NPU_SUPPORT_COMPILED_RESULT_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "litert_npu/compiler_plugin.h"
#include "litert_npu/support/errors.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { kLiteRtNpuNameSize = 24 };

struct LiteRtCompiledResultT {
  char* byte_code; /* `byte_code_size` bytes from malloc; if the size is known late, free them and set both */
  size_t byte_code_size;
  LiteRtParamIndex num_calls;
  char (*names)[kLiteRtNpuNameSize]; /* the names of the calls' functions, with terminators */
  uint64_t* dynamic_outputs;         /* for each call, a bit for each dynamic output; 0 at first */
};

/* Makes a result whose byte code is all zeros, and whose functions are called f0, f1, and so on. The function makes two
 * allocations. */
static inline LiteRtStatus LiteRtNpuCreateResult(
    LiteRtParamIndex num_calls, size_t byte_code_size, LiteRtCompiledResult* result) {
  const size_t call_size = sizeof(uint64_t) + kLiteRtNpuNameSize;
  if (num_calls > (SIZE_MAX - sizeof(**result)) / call_size) return kLiteRtStatusErrorMemoryAllocationFailure;
  LiteRtCompiledResult made = (LiteRtCompiledResult)calloc(1, sizeof(*made) + num_calls * call_size);
  if (made == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
  made->byte_code = (char*)calloc(1, byte_code_size > 0 ? byte_code_size : 1);
  made->byte_code_size = byte_code_size;
  made->num_calls = num_calls;
  made->dynamic_outputs = (uint64_t*)(made + 1);
  made->names = (char(*)[kLiteRtNpuNameSize])(made->dynamic_outputs + num_calls);
  if (made->byte_code == NULL) {
    free(made);
    return kLiteRtStatusErrorMemoryAllocationFailure;
  }
  for (LiteRtParamIndex i = 0; i < num_calls; i++) snprintf(made->names[i], kLiteRtNpuNameSize, "f%zu", i);
  *result = made;
  return kLiteRtStatusOk;
}

void LiteRtDestroyCompiledResult(LiteRtCompiledResult result) {
  if (result != NULL) free(result->byte_code);
  free(result);
}

LiteRtStatus LiteRtCompiledResultNumByteCodeModules(LiteRtCompiledResult result, LiteRtParamIndex* number) {
  LITERT_NPU_CHECK(number != NULL);
  *number = result == NULL ? 0 : 1; /* [result.nothing] */
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompiledResultByteCode(
    LiteRtCompiledResult result, LiteRtParamIndex index, const void** byte_code, size_t* byte_code_size) {
  LITERT_NPU_CHECK(result != NULL && byte_code != NULL && byte_code_size != NULL && index == 0);
  *byte_code = result->byte_code;
  *byte_code_size = result->byte_code_size;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetNumCompiledResultCalls(LiteRtCompiledResult result, LiteRtParamIndex* number) {
  LITERT_NPU_CHECK(result != NULL && number != NULL);
  *number = result->num_calls;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompiledResultCallInfo(
    LiteRtCompiledResult result, LiteRtParamIndex index, const void** name, size_t* size, LiteRtParamIndex* module) {
  LITERT_NPU_CHECK(result != NULL && name != NULL && size != NULL && module != NULL && index < result->num_calls);
  *name = result->names[index];
  *size = strlen(result->names[index]);
  *module = 0;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtIsCompiledResultOutputDynamic(
    LiteRtCompiledResult result, LiteRtParamIndex index, LiteRtParamIndex output, bool* is_dynamic) {
  LITERT_NPU_CHECK(result != NULL && is_dynamic != NULL && index < result->num_calls);
  *is_dynamic = output < 64 && (result->dynamic_outputs[index] >> output & 1) != 0;
  return kLiteRtStatusOk;
}

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_SUPPORT_COMPILED_RESULT_H_ */
