/* Its table but for runs: contexts, options, requirements, buffers. */
#include "probe.h"

LiteRtEnvironment environment;

static LiteRtStatus read_options(const LiteRtRuntimeContext* runtime, LiteRtOptions options, char* text, size_t size) {
  LiteRtOpaqueOptions opaque = NULL;
  void* data = NULL;
  snprintf(text, size, "none");
  if (options == NULL) return kLiteRtStatusOk;
  LiteRtStatus status = runtime->get_opaque_options(options, &opaque);
  if (status != kLiteRtStatusOk) return status;
  if (runtime->find_opaque_options_data(opaque, "probe", &data) == kLiteRtStatusOk)
    snprintf(text, size, "%.*s", (int)strcspn(data, "\n"), (const char*)data);
  return kLiteRtStatusOk;
}

static LiteRtStatus initialize(const LiteRtRuntimeContext* runtime, LiteRtEnvironment env, LiteRtOptions options) {
  char text[64];
  LiteRtEnvironmentOptions env_options;
  LiteRtAny any;
  if (read_options(runtime, options, text, sizeof(text)) != kLiteRtStatusOk) note("BROKEN options");
  ENTER("initialize", "%s", text);
  environment = env;
  if (runtime->get_environment_options(env, &env_options) != kLiteRtStatusOk) note("BROKEN environment");
  if (runtime->get_environment_options_value(env_options, kLiteRtEnvOptionTagDispatchLibraryDir, &any) ==
      kLiteRtStatusOk)
    note("folder %s", any.str_value);
  if (runtime->get_environment_options_value(env_options, kLiteRtEnvOptionTagMinLoggerSeverity, &any) !=
      kLiteRtStatusErrorNotFound)
    note("BROKEN severity");
  if (runtime->abi_header.struct_size != sizeof(*runtime)) note("BROKEN size of the runtime context");
  for (void* const* slot = (void* const*)runtime + 1; slot < (void* const*)(runtime + 1); slot++)
    if (*slot == NULL) note("BROKEN a slot of the runtime context is NULL");
  if (fault("check-host")) check_host(runtime);
  return kLiteRtStatusOk;
}

static LiteRtStatus check_runtime_compatibility(
    LiteRtApiVersion version, LiteRtEnvironmentOptions env, LiteRtOptions options) {
  (void)env, (void)options;
  ENTER("check_runtime_compatibility", "%d.%d.%d", version.major, version.minor, version.patch);
  return kLiteRtStatusOk;
}

static LiteRtStatus get_vendor_id(const char** vendor_id) {
  ENTER("get_vendor_id", "");
  *vendor_id = fault("null-id") ? NULL : "Probe Inc.";
  return kLiteRtStatusOk;
}

static LiteRtStatus get_build_id(const char** build_id) {
  ENTER("get_build_id", "");
  *build_id = "build 7";
  return kLiteRtStatusOk;
}

static LiteRtStatus get_capabilities(int* capabilities) {
  ENTER("get_capabilities", "");
  const char* wanted = getenv("PROBE_CAPABILITIES");
  *capabilities = wanted != NULL ? atoi(wanted) : kLiteRtDispatchCapabilitiesBasic;
  return kLiteRtStatusOk;
}

static LiteRtStatus device_context_create(
    const LiteRtRuntimeContext* runtime, LiteRtOptions options, LiteRtDispatchDeviceContext* device) {
  char text[64];
  read_options(runtime, options, text, sizeof(text));
  ENTER("device_context_create", "%s", text);
  if (fault("null-device")) return kLiteRtStatusOk;
  *device = calloc(1, sizeof(**device));
  (*device)->runtime = runtime;
  return kLiteRtStatusOk;
}

static LiteRtStatus device_context_destroy(LiteRtDispatchDeviceContext device) {
  ENTER("device_context_destroy", "");
  for (int i = 0; i < 1024; i++)
    if (device->buffers[i] != NULL) note("BROKEN device_context_destroy with buffer %d registered", i);
  free(device);
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtDispatchRegisterAsset(
    LiteRtDispatchDeviceContext device, const char* name, const LiteRtMemBuffer* buffer) {
  ENTER("register_asset", "%s %.*s", name, (int)buffer->size, (const char*)buffer->base_addr + buffer->offset);
  if (strcmp(name, "Gain") == 0) device->gain = buffer; /* the struct too is to live as long as the device context */
  return kLiteRtStatusOk;
}

static LiteRtStatus require(
    LiteRtDispatchInvocationContext context, const LiteRtRankedTensorType* type, LiteRtTensorBufferRequirements* out) {
  LiteRtTensorBufferType types[2] = {kLiteRtTensorBufferTypeHostMemory, OWN};
  uint32_t strides[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  int num_types = 1, num_strides = 0;
  size_t size = sizeof(float);
  for (uint32_t i = 0; i < type->layout.rank; i++) size *= type->layout.dimensions[i];
  if (has_word(context->words, "own")) types[0] = OWN;
  if (has_word(context->words, "moving")) types[0] = MOVING;
  if (has_word(context->words, "dma")) types[0] = kLiteRtTensorBufferTypeDmaBuf;
  if (has_word(context->words, "both")) types[0] = OWN, types[1] = kLiteRtTensorBufferTypeHostMemory, num_types = 2;
  if (has_word(context->words, "padded")) size += 100;
  if (has_word(context->words, "strided")) num_strides = type->layout.rank;
  if (fault("nonsense-null")) return kLiteRtStatusOk;
  if (fault("nonsense-garbage")) return *out = (LiteRtTensorBufferRequirements)0x1230, kLiteRtStatusOk;
  if (fault("nonsense-types")) num_types = 0;
  if (fault("nonsense-number")) num_types = 1 << 30;
  if (fault("nonsense-strides")) num_strides = 7;
  return context->device->runtime->create_tensor_buffer_requirements(
      num_types, types, size, num_strides, strides, out);
}

static LiteRtStatus get_input_requirements(
    LiteRtDispatchInvocationContext context, int index, const LiteRtRankedTensorType* type,
    LiteRtTensorBufferRequirements* requirements) {
  ENTER("get_input_requirements", "%d", index);
  return require(context, type, requirements);
}

static LiteRtStatus get_output_requirements(
    LiteRtDispatchInvocationContext context, int index, const LiteRtRankedTensorType* type,
    LiteRtTensorBufferRequirements* requirements) {
  ENTER("get_output_requirements", "%d", index);
  return require(context, type, requirements);
}

static LiteRtStatus register_tensor_buffer(
    LiteRtDispatchDeviceContext device, LiteRtTensorBuffer buffer, LiteRtTensorBufferHandle* handle) {
  const LiteRtRuntimeContext* runtime = device->runtime;
  LiteRtTensorBufferType kind;
  LiteRtRankedTensorType type;
  size_t size, packed, offset;
  void* at = NULL;
  if (runtime->get_tensor_buffer_type(buffer, &kind) != kLiteRtStatusOk ||
      runtime->get_tensor_buffer_tensor_type(buffer, &type) != kLiteRtStatusOk ||
      runtime->get_tensor_buffer_size(buffer, &size) != kLiteRtStatusOk ||
      runtime->get_tensor_buffer_packed_size(buffer, &packed) != kLiteRtStatusOk ||
      runtime->get_tensor_buffer_offset(buffer, &offset) != kLiteRtStatusOk)
    note("BROKEN a buffer that tells nothing");
  bool is_host = kind == kLiteRtTensorBufferTypeHostMemory;
  if ((runtime->get_tensor_buffer_host_memory(buffer, &at) == kLiteRtStatusOk) != is_host) note("BROKEN host memory");
  if ((runtime->get_tensor_buffer_custom_tensor_buffer_handle(buffer, &at) == kLiteRtStatusOk) == is_host)
    note("BROKEN custom handle");
  if (runtime->get_tensor_buffer_type((LiteRtTensorBuffer)0x1230, &kind) == kLiteRtStatusOk) note("BROKEN any handle");
  ENTER("register_tensor_buffer", "type %d size %zu packed %zu offset %zu", kind, size, packed, offset);
  for (int i = 0; i < 1024; i++)
    if (device->buffers[i] == NULL) {
      device->buffers[i] = buffer;
      *handle = i;
      return kLiteRtStatusOk;
    }
  return kLiteRtStatusErrorMemoryAllocationFailure;
}

static LiteRtStatus unregister_tensor_buffer(LiteRtDispatchDeviceContext device, LiteRtTensorBufferHandle handle) {
  ENTER("unregister_tensor_buffer", "%d", (int)handle);
  if (handle >= 1024 || device->buffers[handle] == NULL) note("BROKEN unregister of what is not registered");
  device->buffers[handle] = NULL;
  return kLiteRtStatusOk;
}

LiteRtStatus make_context(
    LiteRtDispatchDeviceContext device, int num_inputs, int num_outputs, LiteRtDispatchInvocationContext* context) {
  if (fault("null-context")) return kLiteRtStatusOk;
  *context = calloc(1, sizeof(**context));
  (*context)->device = device;
  (*context)->num_inputs = num_inputs;
  (*context)->num_outputs = num_outputs;
  return kLiteRtStatusOk;
}

static LiteRtStatus invocation_context_create(
    const LiteRtRuntimeContext* runtime, LiteRtDispatchDeviceContext device, LiteRtDispatchExecutableType type,
    const LiteRtMemBuffer* byte_code, const char* name, int num_inputs, int num_outputs,
    LiteRtDispatchInvocationContext* context) {
  (void)runtime;
  ENTER("invocation_context_create", "%d %s %d %d", type, name, num_inputs, num_outputs);
  LiteRtStatus status = make_context(device, num_inputs, num_outputs, context);
  if (*context != NULL)
    snprintf((*context)->words, sizeof((*context)->words), "%.*s", (int)byte_code->size,
        (const char*)byte_code->base_addr + byte_code->offset);
  return status;
}

static LiteRtStatus invocation_context_destroy(LiteRtDispatchInvocationContext context) {
  ENTER("invocation_context_destroy", "");
  finish(context);
  for (int i = 0; i < 2 * kMost; i++)
    if (context->ports[i] != NULL) note("BROKEN invocation_context_destroy with port %d attached", i);
  free(context);
  return kLiteRtStatusOk;
}

static LiteRtStatus set_scheduling_info(LiteRtDispatchInvocationContext context, const LiteRtSchedulingInfo* info) {
  (void)context;
  ENTER("set_scheduling_info", "%u %d '%s' %d %d", info->fields_mask, info->original_uid == (int32_t)getuid(),
      info->debug_feature_id, info->job_priority, info->group_id[15]);
  return kLiteRtStatusOk;
}

static LiteRtStatus set_options(LiteRtDispatchInvocationContext context, LiteRtOptions options) {
  char text[64];
  read_options(context->device->runtime, options, text, sizeof(text));
  ENTER("set_options", "%s", text);
  return kLiteRtStatusOk;
}

static LiteRtStatus attach(LiteRtDispatchInvocationContext context, int port, LiteRtTensorBufferHandle handle) {
  if (handle >= 1024 || context->device->buffers[handle] == NULL) return kLiteRtStatusErrorInvalidArgument;
  context->ports[port] = context->device->buffers[handle];
  return kLiteRtStatusOk;
}

static LiteRtStatus detach(LiteRtDispatchInvocationContext context, int port, LiteRtTensorBufferHandle handle) {
  if (context->ports[port] == context->device->buffers[handle]) context->ports[port] = NULL;
  return kLiteRtStatusOk;
}

static LiteRtStatus attach_input(LiteRtDispatchInvocationContext context, int index, LiteRtTensorBufferHandle handle) {
  ENTER("attach_input", "%d %d", index, (int)handle);
  return attach(context, index, handle);
}

static LiteRtStatus attach_output(LiteRtDispatchInvocationContext context, int index, LiteRtTensorBufferHandle handle) {
  ENTER("attach_output", "%d %d", index, (int)handle);
  return attach(context, kMost + index, handle);
}

static LiteRtStatus detach_input(LiteRtDispatchInvocationContext context, int index, LiteRtTensorBufferHandle handle) {
  ENTER("detach_input", "%d %d", index, (int)handle);
  return detach(context, index, handle);
}

static LiteRtStatus detach_output(LiteRtDispatchInvocationContext context, int index, LiteRtTensorBufferHandle handle) {
  ENTER("detach_output", "%d %d", index, (int)handle);
  return detach(context, kMost + index, handle);
}

static LiteRtStatus invoke(LiteRtDispatchInvocationContext context) {
  ENTER("invoke", "");
  return compute(context);
}

LiteRtDispatchInterface interface = {
    .initialize = initialize,
    .get_vendor_id = get_vendor_id,
    .get_build_id = get_build_id,
    .get_capabilities = get_capabilities,
    .device_context_create = device_context_create,
    .device_context_destroy = device_context_destroy,
    .get_input_requirements = get_input_requirements,
    .get_output_requirements = get_output_requirements,
    .register_tensor_buffer = register_tensor_buffer,
    .unregister_tensor_buffer = unregister_tensor_buffer,
    .invocation_context_create = invocation_context_create,
    .invocation_context_destroy = invocation_context_destroy,
    .invocation_context_set_scheduling_info = set_scheduling_info,
    .attach_input = attach_input,
    .attach_output = attach_output,
    .detach_input = detach_input,
    .detach_output = detach_output,
    .invoke = invoke,
    .start_metrics_collection = start_metrics_collection,
    .stop_metrics_collection = stop_metrics_collection,
    .get_num_metrics = get_num_metrics,
    .get_metric = get_metric,
    .destroy_metrics = destroy_metrics,
    .check_runtime_compatibility = check_runtime_compatibility,
    .invocation_context_set_options = set_options,
};
