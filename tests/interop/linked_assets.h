/* In place of support/custom_op_assets.h: the host's functions are linked, as LiteRT's guide for custom op assets
 * prints them. Included before any source, it makes a library of either kind refer to them. */
#ifndef LITERT_NPU_SUPPORT_CUSTOM_OP_ASSETS_H_
#define LITERT_NPU_SUPPORT_CUSTOM_OP_ASSETS_H_

#include <string.h>

#include "litert_npu/compiler_context.h"
#include "litert_npu/compiler_options.h"

__attribute__((used)) static const char* LiteRtNpuFindAsset(
    const LiteRtCompilerContext* context, LiteRtOptions options, const char* op_name) {
  (void)context;
  LiteRtOpaqueOptions opaque;
  LiteRtCompilerOptions compiler;
  LiteRtParamIndex number;
  if (LiteRtGetOpaqueOptions(options, &opaque) != kLiteRtStatusOk) return NULL;
  if (LiteRtFindCompilerOptions(opaque, &compiler) != kLiteRtStatusOk) return NULL;
  if (LiteRtGetCompilerOptionsNumCustomOpInfo(compiler, &number) != kLiteRtStatusOk) return NULL;
  for (LiteRtParamIndex i = 0; i < number; i++) {
    const char *name, *path;
    if (LiteRtGetCompilerOptionsCustomOpInfo(compiler, i, &name, &path) != kLiteRtStatusOk) return NULL;
    if (strcmp(name, op_name) == 0) return path;
  }
  return NULL;
}

#endif /* LITERT_NPU_SUPPORT_CUSTOM_OP_ASSETS_H_ */
