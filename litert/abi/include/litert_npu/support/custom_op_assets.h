/* Finds the assets of custom ops in the options that a plugin is created with. This header is optional.
 *
 * This header looks up the functions of compiler_options.h in the process: a plugin that links these functions does not
 * load in hosts that lack them, such as release 2.3.0 of LiteRT. In such hosts, no op has an asset. */
#ifndef LITERT_NPU_SUPPORT_CUSTOM_OP_ASSETS_H_
#define LITERT_NPU_SUPPORT_CUSTOM_OP_ASSETS_H_

#include <dlfcn.h>
#include <string.h>

#include "litert_npu/compiler_context.h"
#include "litert_npu/compiler_options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The functions of compiler_options.h in the host; NULL for each function that the host lacks. */
typedef struct LiteRtNpuOptionFunctions {
  LiteRtStatus (*find)(LiteRtOpaqueOptions opaque_options, LiteRtCompilerOptions* compiler_options);
  LiteRtStatus (*get_number)(LiteRtCompilerOptions compiler_options, LiteRtParamIndex* number);
  LiteRtStatus (*get)(
      LiteRtCompilerOptions compiler_options, LiteRtParamIndex index, const char** op_name, const char** asset_path);
} LiteRtNpuOptionFunctions;

/* Writes an address to a function pointer, because C cannot cast an address to a function pointer. */
static inline void LiteRtNpuLookUp(void* program, const char* name, void* function) {
  void* found = dlsym(program, name);
  memcpy(function, &found, sizeof(found));
}

static inline LiteRtNpuOptionFunctions LiteRtNpuFindOptionFunctions(void) {
  LiteRtNpuOptionFunctions functions = {NULL, NULL, NULL};
  void* program = dlopen(NULL, RTLD_NOW); /* the program and its libraries; C11 has no RTLD_DEFAULT */
  if (program == NULL) return functions;
  LiteRtNpuLookUp(program, "LiteRtFindCompilerOptions", &functions.find);
  LiteRtNpuLookUp(program, "LiteRtGetCompilerOptionsNumCustomOpInfo", &functions.get_number);
  LiteRtNpuLookUp(program, "LiteRtGetCompilerOptionsCustomOpInfo", &functions.get);
  dlclose(program);
  return functions;
}

/* Returns the path of the user's asset for an op, or NULL if there is no asset or there are no options. Call this
 * function while the plugin is created. The path belongs to the host, and is valid until the plugin is destroyed. */
static inline const char* LiteRtNpuFindAsset(
    const LiteRtCompilerContext* context, LiteRtOptions options, const char* op_name) {
  const LiteRtNpuOptionFunctions functions = LiteRtNpuFindOptionFunctions();
  LiteRtOpaqueOptions opaque;
  LiteRtCompilerOptions compiler;
  LiteRtParamIndex number;
  if (options == NULL || functions.find == NULL || functions.get_number == NULL || functions.get == NULL) return NULL;
  if (context->get_opaque_options(options, &opaque) != kLiteRtStatusOk) return NULL;
  if (functions.find(opaque, &compiler) != kLiteRtStatusOk) return NULL;
  if (functions.get_number(compiler, &number) != kLiteRtStatusOk) return NULL;
  for (LiteRtParamIndex i = 0; i < number; i++) {
    const char *name, *path;
    if (functions.get(compiler, i, &name, &path) == kLiteRtStatusOk && strcmp(name, op_name) == 0) return path;
  }
  return NULL;
}

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_SUPPORT_CUSTOM_OP_ASSETS_H_ */
