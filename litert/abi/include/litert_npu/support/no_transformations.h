/* Defines the function of compiler_plugin.h that gives the host patterns to rewrite a model, for a plugin without
 * patterns. This header is optional. Include it in only one source file of the plugin, because it exports a
 * function. */
#ifndef LITERT_NPU_SUPPORT_NO_TRANSFORMATIONS_H_
#define LITERT_NPU_SUPPORT_NO_TRANSFORMATIONS_H_

#include "litert_npu/compiler_plugin.h"
#include "litert_npu/support/errors.h"

#ifdef __cplusplus
extern "C" {
#endif

LiteRtStatus LiteRtCompilerPluginRegisterAllTransformations(
    LiteRtCompilerPlugin plugin, LiteRtTransformation** transformations, LiteRtParamIndex* number) {
  LITERT_NPU_CHECK(plugin != NULL && transformations != NULL && number != NULL);
  *transformations = NULL;
  *number = 0;
  return kLiteRtStatusOk;
}

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_SUPPORT_NO_TRANSFORMATIONS_H_ */
