/* Finds the options that the user gave to the vendor's compiler plugin by flags that begin with the vendor's name. This
 * header is optional. */
#ifndef LITERT_NPU_SUPPORT_PLUGIN_OPTIONS_H_
#define LITERT_NPU_SUPPORT_PLUGIN_OPTIONS_H_

#include "litert_npu/compiler_context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the options as a text with one option a line: `tiles = 4` for `--acme_tiles=4`. Returns NULL if there are no
 * options. The name is the manufacturer's name in small letters. Call this function while the plugin is created. The
 * text belongs to the host, and is valid during that call. */
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
