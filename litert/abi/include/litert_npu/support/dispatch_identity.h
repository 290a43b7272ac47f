/* Defines the slots of dispatch.h that identify the library, from a description that you write. This header is
 * optional. Its functions allocate nothing, and any thread may call them. */
#ifndef LITERT_NPU_SUPPORT_DISPATCH_IDENTITY_H_
#define LITERT_NPU_SUPPORT_DISPATCH_IDENTITY_H_

#include "litert_npu/dispatch.h"
#include "litert_npu/support/errors.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The texts must live as long as the library. */
typedef struct LiteRtNpuDispatchIdentity {
  const char* vendor_id;
  const char* build_id;
} LiteRtNpuDispatchIdentity;

/* You define this description: `const LiteRtNpuDispatchIdentity kLiteRtNpuDispatch = {...};`. */
extern const LiteRtNpuDispatchIdentity kLiteRtNpuDispatch __attribute__((visibility("hidden")));

/* Only checks its arguments, because the process needs no preparation. */
static inline LiteRtStatus LiteRtNpuInitialize(
    const LiteRtRuntimeContext* runtime, LiteRtEnvironment env, LiteRtOptions options) {
  (void)env;
  (void)options;
  LITERT_NPU_CHECK(runtime != NULL);
  return kLiteRtStatusOk;
}

/* Accepts hosts of this header's version, with any options. */
static inline LiteRtStatus LiteRtNpuCheckRuntimeCompatibility(
    LiteRtApiVersion version, LiteRtEnvironmentOptions env, LiteRtOptions options) {
  (void)env;
  (void)options;
  return version.major == 0 && version.minor == 1 ? kLiteRtStatusOk : kLiteRtStatusErrorUnsupportedRuntimeVersion;
}

static inline LiteRtStatus LiteRtNpuGetVendorId(const char** vendor_id) {
  LITERT_NPU_CHECK(vendor_id != NULL);
  *vendor_id = kLiteRtNpuDispatch.vendor_id;
  return kLiteRtStatusOk;
}

static inline LiteRtStatus LiteRtNpuGetBuildId(const char** build_id) {
  LITERT_NPU_CHECK(build_id != NULL);
  *build_id = kLiteRtNpuDispatch.build_id;
  return kLiteRtStatusOk;
}

/* Returns the capabilities of a table without an async and a graph interface. */
static inline LiteRtStatus LiteRtNpuGetBasicCapabilities(int* capabilities) {
  LITERT_NPU_CHECK(capabilities != NULL);
  *capabilities = kLiteRtDispatchCapabilitiesBasic;
  return kLiteRtStatusOk;
}

/* Put this within the braces of a LiteRtDispatchInterface, in C. In C++, set these slots by assignment: C++17 has no
 * initializers with names, and C++20 requires another order. */
#define LITERT_NPU_IDENTITY_SLOTS                                      \
  .initialize = LiteRtNpuInitialize,                                   \
  .check_runtime_compatibility = LiteRtNpuCheckRuntimeCompatibility,   \
  .get_vendor_id = LiteRtNpuGetVendorId,                               \
  .get_build_id = LiteRtNpuGetBuildId,                                 \
  .get_capabilities = LiteRtNpuGetBasicCapabilities

/* Fills in the table of LiteRtDispatchGetApi, for a library without further parts. */
static inline LiteRtStatus LiteRtNpuGetBasicApi(LiteRtDispatchApi* api, LiteRtDispatchInterface* table) {
  LITERT_NPU_CHECK(api != NULL);
  api->version.major = 0;
  api->version.minor = 1;
  api->version.patch = 0;
  api->interface = table;
  api->async_interface = NULL;
  api->graph_interface = NULL;
  api->tensor_buffer_handlers_def = NULL;
  return kLiteRtStatusOk;
}

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_SUPPORT_DISPATCH_IDENTITY_H_ */
