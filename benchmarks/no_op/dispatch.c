/* The vendor of LiteRtDispatch_NoOp.py in C: its runs do nothing. */
#include "litert_npu/dispatch.h"

static const LiteRtRuntimeContext* host;

static LiteRtStatus initialize(const LiteRtRuntimeContext* context, LiteRtEnvironment environment, LiteRtOptions options) {
  (void)environment, (void)options;
  host = context;
  return kLiteRtStatusOk;
}

static LiteRtStatus get_id(const char** id) { return *id = "NoOp", kLiteRtStatusOk; }

static LiteRtStatus get_capabilities(int* capabilities) {
  return *capabilities = kLiteRtDispatchCapabilitiesBasic, kLiteRtStatusOk;
}

static LiteRtStatus check_compatibility(LiteRtApiVersion version, LiteRtEnvironmentOptions env, LiteRtOptions options) {
  return (void)version, (void)env, (void)options, kLiteRtStatusOk;
}

static LiteRtStatus create_device(
    const LiteRtRuntimeContext* context, LiteRtOptions options, LiteRtDispatchDeviceContext* device) {
  return (void)context, (void)options, *device = (void*)1, kLiteRtStatusOk;
}

static LiteRtStatus destroy_device(LiteRtDispatchDeviceContext device) { return (void)device, kLiteRtStatusOk; }

static LiteRtStatus get_requirements(
    LiteRtDispatchInvocationContext call, int index, const LiteRtRankedTensorType* type,
    LiteRtTensorBufferRequirements* requirements) {
  (void)call, (void)index;
  LiteRtTensorBufferType memory = kLiteRtTensorBufferTypeHostMemory;
  size_t size = sizeof(float);
  for (unsigned i = 0; i < type->layout.rank; i++) size *= type->layout.dimensions[i];
  return host->create_tensor_buffer_requirements(1, &memory, size, 0, NULL, requirements);
}

static LiteRtStatus register_buffer(
    LiteRtDispatchDeviceContext device, LiteRtTensorBuffer buffer, LiteRtTensorBufferHandle* handle) {
  return (void)device, (void)buffer, *handle = 1, kLiteRtStatusOk;
}

static LiteRtStatus unregister_buffer(LiteRtDispatchDeviceContext device, LiteRtTensorBufferHandle handle) {
  return (void)device, (void)handle, kLiteRtStatusOk;
}

static LiteRtStatus create_call(
    const LiteRtRuntimeContext* context, LiteRtDispatchDeviceContext device, LiteRtDispatchExecutableType type,
    const LiteRtMemBuffer* byte_code, const char* name, int inputs, int outputs,
    LiteRtDispatchInvocationContext* call) {
  (void)context, (void)device, (void)type, (void)byte_code, (void)name, (void)inputs, (void)outputs;
  return *call = (void*)1, kLiteRtStatusOk;
}

static LiteRtStatus run(LiteRtDispatchInvocationContext call) { return (void)call, kLiteRtStatusOk; }

static LiteRtStatus attach(LiteRtDispatchInvocationContext call, int index, LiteRtTensorBufferHandle handle) {
  return (void)call, (void)index, (void)handle, kLiteRtStatusOk;
}

static LiteRtDispatchInterface interface = {
    .initialize = initialize,
    .get_vendor_id = get_id,
    .get_build_id = get_id,
    .get_capabilities = get_capabilities,
    .device_context_create = create_device,
    .device_context_destroy = destroy_device,
    .get_input_requirements = get_requirements,
    .get_output_requirements = get_requirements,
    .register_tensor_buffer = register_buffer,
    .unregister_tensor_buffer = unregister_buffer,
    .invocation_context_create = create_call,
    .invocation_context_destroy = run,
    .attach_input = attach,
    .attach_output = attach,
    .detach_input = attach,
    .detach_output = attach,
    .invoke = run,
    .check_runtime_compatibility = check_compatibility,
};

LITERT_CAPI_EXPORT LiteRtStatus LiteRtDispatchGetApi(LiteRtDispatchApi* api) {
  api->version = (LiteRtApiVersion){0, 1, 0};
  api->interface = &interface;
  return kLiteRtStatusOk;
}
