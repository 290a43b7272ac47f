/* Finds what the user said to the vendor's compiler plugin by flags that begin with its name. Optional. */
#ifndef LITERT_NPU_SUPPORT_PLUGIN_OPTIONS_H_
#define LITERT_NPU_SUPPORT_PLUGIN_OPTIONS_H_

#include "litert_npu/compiler_context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The options as text, of which each line is one: `tiles = 4` for `--acme_tiles=4`. NULL if there are none. The name is
 * the manufacturer's in small letters. Call it while the plugin is created; the text is the host's, and valid during
 * that call. */
static inline const char* LiteRtNpuFindOptions(
    const LiteRtCompilerContext* context, LiteRtOptions options, const char* name) {
  LiteRtOpaqueOptions opaque;
  void* data = NULL;
  if (options == NULL || context->get_opaque_options(options, &opaque) != kLiteRtStatusOk) return NULL;
  if (context->find_opaque_options_data(opaque, name, &data) != kLiteRtStatusOk) return NULL;
  return (const char*)data;
}

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_SUPPORT_PLUGIN_OPTIONS_H_ */
