/* Defines the functions of compiler_plugin.h that identify the plugin, from a description that you write. This header
 * is optional. Include it in only one source file of the plugin, because it exports functions. The functions allocate
 * nothing, and any thread may call them. */
#ifndef LITERT_NPU_SUPPORT_PLUGIN_IDENTITY_H_
#define LITERT_NPU_SUPPORT_PLUGIN_IDENTITY_H_

#include <string.h>

#include "litert_npu/compiler_plugin.h"
#include "litert_npu/support/errors.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The texts and the array must live as long as the library. */
typedef struct LiteRtNpuPluginIdentity {
  const char* manufacturer;
  const char* sdk_version;
  const char* const* soc_models; /* the first is the default */
  LiteRtParamIndex num_soc_models; /* at least 1 */
} LiteRtNpuPluginIdentity;

/* You define this description: `const LiteRtNpuPluginIdentity kLiteRtNpuPlugin = {...};`. */
extern const LiteRtNpuPluginIdentity kLiteRtNpuPlugin __attribute__((visibility("hidden")));

LiteRtStatus LiteRtGetCompilerPluginVersion(LiteRtApiVersion* version) {
  LITERT_NPU_CHECK(version != NULL);
  version->major = 0;
  version->minor = 1;
  version->patch = 0;
  return kLiteRtStatusOk;
}

const char* LiteRtGetCompilerPluginSocManufacturer(void) { return kLiteRtNpuPlugin.manufacturer; }

LiteRtStatus LiteRtGetCompilerPluginSupportedHardware(LiteRtCompilerPlugin plugin, LiteRtHwAccelerators* hardware) {
  LITERT_NPU_CHECK(plugin != NULL && hardware != NULL);
  *hardware = kLiteRtHwAcceleratorNpu;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetNumCompilerPluginSupportedSocModels(LiteRtCompilerPlugin plugin, LiteRtParamIndex* number) {
  LITERT_NPU_CHECK(plugin != NULL && number != NULL);
  *number = kLiteRtNpuPlugin.num_soc_models;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompilerPluginSupportedSocModel(
    LiteRtCompilerPlugin plugin, LiteRtParamIndex index, const char** soc_model) {
  LITERT_NPU_CHECK(plugin != NULL && soc_model != NULL && index < kLiteRtNpuPlugin.num_soc_models);
  *soc_model = kLiteRtNpuPlugin.soc_models[index];
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompilerPluginSDKVersion(LiteRtCompilerPlugin plugin, const char** sdk_version) {
  LITERT_NPU_CHECK(plugin != NULL && sdk_version != NULL);
  *sdk_version = kLiteRtNpuPlugin.sdk_version;
  return kLiteRtStatusOk;
}

/* Accepts hosts of this header's version, with any options, and the SoC models of the description. */
LiteRtStatus LiteRtCompilerPluginCheckCompilerCompatibility(
    LiteRtApiVersion version, LiteRtCompilerPlugin plugin, LiteRtEnvironmentOptions env, LiteRtOptions options,
    const char* soc_model) {
  (void)env;
  (void)options;
  LITERT_NPU_CHECK(plugin != NULL);
  if (version.major != 0 || version.minor != 1) return kLiteRtStatusErrorUnsupportedCompilerVersion;
  if (soc_model == NULL) return kLiteRtStatusOk;
  for (LiteRtParamIndex i = 0; i < kLiteRtNpuPlugin.num_soc_models; i++)
    if (strcmp(soc_model, kLiteRtNpuPlugin.soc_models[i]) == 0) return kLiteRtStatusOk;
  LiteRtNpuSay(
      kLiteRtNpuPlugin.manufacturer, "there is no SoC model '%s'; the default is %s", soc_model,
      kLiteRtNpuPlugin.soc_models[0]);
  return kLiteRtStatusErrorUnsupported;
}

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_SUPPORT_PLUGIN_IDENTITY_H_ */
