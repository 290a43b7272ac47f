/* What the guide leaves out of a dispatch library, in C and C++. Tensors have four floats. In C the block is the guide's
 * table alone, since the rest of it is C++. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "litert_npu/support/guide_dispatch.h"

#include "litert_npu/support/dispatch_identity.h"
#include "litert_npu/support/host_memory.h"

#ifdef __cplusplus
#include <map>
#include <string>

struct MyDeviceContext {
  LiteRtNpuDevice base{};
  std::map<std::string, LiteRtMemBuffer> assets;
};

static MyDeviceContext* new_device() { return new MyDeviceContext; }
static void delete_device(LiteRtDispatchDeviceContext device) { delete reinterpret_cast<MyDeviceContext*>(device); }

static LiteRtMemBuffer find_asset(LiteRtNpuDevice* device, const char* name) {
  auto& assets = reinterpret_cast<MyDeviceContext*>(device)->assets;
  return assets.count(name) ? assets[name] : LiteRtMemBuffer{};
}
#else
typedef struct {
  LiteRtNpuDevice base;
  LiteRtMemBuffer assets[4];
  char names[4][24];
} MyDeviceContext;

static MyDeviceContext* new_device(void) { return calloc(1, sizeof(MyDeviceContext)); }
static void delete_device(LiteRtDispatchDeviceContext device) { free(device); }

static LiteRtMemBuffer find_asset(LiteRtNpuDevice* device, const char* name) {
  MyDeviceContext* ctx = (MyDeviceContext*)device;
  for (int i = 0; i < 4; i++)
    if (strcmp(ctx->names[i], name) == 0) return ctx->assets[i];
  return (LiteRtMemBuffer){0};
}

static LiteRtStatus MyRegisterAsset(
    LiteRtDispatchDeviceContext device_context, const char* asset_name, const LiteRtMemBuffer* asset_buffer) {
  MyDeviceContext* ctx = (MyDeviceContext*)device_context;
  int i = 0;
  while (i < 3 && ctx->names[i][0] != 0 && strcmp(ctx->names[i], asset_name) != 0) i++;
  snprintf(ctx->names[i], sizeof(ctx->names[i]), "%s", asset_name);
  ctx->assets[i] = *asset_buffer;
  return kLiteRtStatusOk;
}
#endif

const LiteRtNpuDispatchIdentity kLiteRtNpuDispatch = {"MyVendor", "1.0"};
static LiteRtDispatchInterface table;

#include "block.h"

struct LiteRtDispatchInvocationContextT {
  LiteRtNpuCall base;
  LiteRtNpuPort ports[8];
  char ops[64];
};

static LiteRtStatus device_create(
    const LiteRtRuntimeContext* runtime, LiteRtOptions options, LiteRtDispatchDeviceContext* device) {
  (void)options;
  MyDeviceContext* made = new_device();
  made->base.runtime = runtime;
  *device = (LiteRtDispatchDeviceContext)made;
  return kLiteRtStatusOk;
}

static LiteRtStatus device_destroy(LiteRtDispatchDeviceContext device) {
  LiteRtNpuFreeBufferTable(&((LiteRtNpuDevice*)device)->buffers);
  delete_device(device);
  return kLiteRtStatusOk;
}

static LiteRtStatus create(
    const LiteRtRuntimeContext* runtime, LiteRtDispatchDeviceContext device, LiteRtDispatchExecutableType type,
    const LiteRtMemBuffer* byte_code, const char* name, int num_inputs, int num_outputs,
    LiteRtDispatchInvocationContext* context) {
  (void)runtime;
  (void)type;
  LiteRtDispatchInvocationContext made = (LiteRtDispatchInvocationContext)calloc(1, sizeof(*made));
  memcpy(made->ops, (const char*)byte_code->base_addr + byte_code->offset + 64 * atoi(name + 1), 64);
  LiteRtNpuInitCall(&made->base, (LiteRtNpuDevice*)device, made->ports, num_inputs, num_outputs, NULL, 0);
  for (int i = 0; i < num_inputs + num_outputs; i++) made->ports[i].size = 4 * sizeof(float);
  *context = made;
  return kLiteRtStatusOk;
}

static LiteRtStatus destroy(LiteRtDispatchInvocationContext context) {
  free(context);
  return kLiteRtStatusOk;
}

static LiteRtStatus invoke(LiteRtDispatchInvocationContext context) {
  LITERT_NPU_TRY(LiteRtNpuBeginRun(&context->base));
  float* output = (float*)context->ports[context->base.num_inputs].memory;
  for (int i = 0; i < 4; i++) {
    output[i] = 0;
    for (int k = 0; k < context->base.num_inputs; k++) output[i] += ((float*)context->ports[k].memory)[i];
  }
  char ops[64], *rest = ops;
  memcpy(ops, context->ops, sizeof(ops));
  for (char* op = strtok_r(ops, " ", &rest); op != NULL; op = strtok_r(NULL, " ", &rest)) {
    const LiteRtMemBuffer asset = find_asset(context->base.device, op);
    const unsigned char* bytes = (const unsigned char*)asset.base_addr + asset.offset;
    for (int i = 0; i < 4 && asset.size != 0; i++) output[i] += bytes[(size_t)i % asset.size];
  }
  return LiteRtNpuEndRun(&context->base);
}

LiteRtStatus LiteRtDispatchGetApi(LiteRtDispatchApi* api) {
  table.initialize = LiteRtNpuInitialize;
  table.check_runtime_compatibility = LiteRtNpuCheckRuntimeCompatibility;
  table.get_vendor_id = LiteRtNpuGetVendorId;
  table.get_build_id = LiteRtNpuGetBuildId;
  table.get_capabilities = LiteRtNpuGetBasicCapabilities;
  table.device_context_create = device_create;
  table.device_context_destroy = device_destroy;
  table.get_input_requirements = LiteRtNpuGetInputRequirements;
  table.get_output_requirements = LiteRtNpuGetOutputRequirements;
  table.register_tensor_buffer = LiteRtNpuRegisterTensorBuffer;
  table.unregister_tensor_buffer = LiteRtNpuUnregisterTensorBuffer;
  table.attach_input = LiteRtNpuAttachInput;
  table.attach_output = LiteRtNpuAttachOutput;
  table.detach_input = LiteRtNpuDetachInput;
  table.detach_output = LiteRtNpuDetachOutput;
  table.invocation_context_create = create;
  table.invocation_context_destroy = destroy;
  table.invoke = invoke;
  *api = MyApi;
  return kLiteRtStatusOk;
}
