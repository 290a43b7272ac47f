/* Cobalt's dispatch table: its NPU multiplies, on the host. What a function promises stands in litert_npu/dispatch.h.
 * The asset of Gain is a text file with one number. */
#include <stdlib.h>
#include <string.h>

#include "byte_code.h"
#include "litert_npu/dispatch.h"

enum { kOutput = 2, kNumPorts }; /* input 0, input 1, output */

struct LiteRtDispatchDeviceContextT {
  const LiteRtRuntimeContext* runtime;
  LiteRtMemBuffer gain;        /* asset of Gain; without an address if there is none */
  LiteRtTensorBuffer* buffers; /* by their handles; NULL where a handle is free */
  size_t num_buffers;
};

struct LiteRtDispatchInvocationContextT {
  LiteRtDispatchDeviceContext device;
  Function function;
  float gain;
  LiteRtTensorBuffer buffers[kNumPorts]; /* that are attached */
  LiteRtTensorBufferHandle handles[kNumPorts];
  bool measures;
  int64_t num_runs;
};

struct LiteRtDispatchMetricsT {
  int64_t num_runs;
};

/* Who it is, and what it serves. */

static LiteRtStatus initialize(const LiteRtRuntimeContext* runtime, LiteRtEnvironment env, LiteRtOptions options) {
  (void)env, (void)options;
  CHECK(runtime != NULL);
  return kLiteRtStatusOk;
}

static LiteRtStatus check_runtime_compatibility(
    LiteRtApiVersion version, LiteRtEnvironmentOptions env, LiteRtOptions options) {
  (void)env, (void)options;
  return version.major == 0 && version.minor == 1 ? kLiteRtStatusOk : kLiteRtStatusErrorUnsupportedRuntimeVersion;
}

static LiteRtStatus get_vendor_id(const char** vendor_id) {
  CHECK(vendor_id != NULL);
  *vendor_id = "Cobalt";
  return kLiteRtStatusOk;
}

static LiteRtStatus get_build_id(const char** build_id) {
  CHECK(build_id != NULL);
  *build_id = "1.0";
  return kLiteRtStatusOk;
}

static LiteRtStatus get_capabilities(int* capabilities) {
  CHECK(capabilities != NULL);
  *capabilities = kLiteRtDispatchCapabilitiesBasic;
  return kLiteRtStatusOk;
}

/* The device, with a model's assets and buffers. */

static LiteRtStatus device_context_create(
    const LiteRtRuntimeContext* runtime, LiteRtOptions options, LiteRtDispatchDeviceContext* device) {
  (void)options;
  CHECK(runtime != NULL && device != NULL);
  LiteRtDispatchDeviceContext made = calloc(1, sizeof(*made));
  if (made == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
  made->runtime = runtime;
  *device = made;
  return kLiteRtStatusOk;
}

static LiteRtStatus device_context_destroy(LiteRtDispatchDeviceContext device) {
  CHECK(device != NULL);
  free(device->buffers);
  free(device);
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtDispatchRegisterAsset(
    LiteRtDispatchDeviceContext device, const char* name, const LiteRtMemBuffer* buffer) {
  CHECK(device != NULL && name != NULL && buffer != NULL);
  if (strcmp(name, "Gain") == 0) device->gain = *buffer; /* the bytes live as long as the device context */
  return kLiteRtStatusOk;
}

static LiteRtStatus register_tensor_buffer(
    LiteRtDispatchDeviceContext device, LiteRtTensorBuffer buffer, LiteRtTensorBufferHandle* handle) {
  CHECK(device != NULL && buffer != NULL && handle != NULL);
  size_t i = 0;
  while (i < device->num_buffers && device->buffers[i] != NULL) i++;
  if (i == device->num_buffers) {
    LiteRtTensorBuffer* grown = realloc(device->buffers, (i + 1) * sizeof(*grown));
    if (grown == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
    device->buffers = grown;
    device->num_buffers++;
  }
  device->buffers[i] = buffer;
  *handle = i;
  return kLiteRtStatusOk;
}

static LiteRtStatus unregister_tensor_buffer(LiteRtDispatchDeviceContext device, LiteRtTensorBufferHandle handle) {
  CHECK(device != NULL && handle < device->num_buffers && device->buffers[handle] != NULL);
  device->buffers[handle] = NULL;
  return kLiteRtStatusOk;
}

/* A function of the byte code. */

static LiteRtStatus read_function(const LiteRtMemBuffer* byte_code, const char* name, Function* function) {
  const char* bytes = (const char*)byte_code->base_addr + byte_code->offset;
  size_t size = byte_code->size;
  if (size < sizeof(Header) || memcmp(bytes, &kHeader, sizeof(Header)) != 0 ||
      (size - sizeof(Header)) % sizeof(Function) != 0) {
    SAY("this is no byte code of Cobalt's, or is damaged");
    return kLiteRtStatusErrorIncompatibleByteCodeVersion;
  }
  for (size_t at = sizeof(Header); at < size; at += sizeof(Function)) {
    memcpy(function, bytes + at, sizeof(Function)); /* a copy: in the file it may stand at any address */
    if (strncmp(function->name, name, sizeof(function->name)) == 0) return kLiteRtStatusOk;
  }
  SAY("the byte code has no function '%s'", name);
  return kLiteRtStatusErrorNotFound;
}

static LiteRtStatus read_gain(const LiteRtMemBuffer* asset, float* gain) {
  char text[32] = "", *end = text;
  if (asset->base_addr != NULL && asset->size < sizeof(text)) {
    memcpy(text, (const char*)asset->base_addr + asset->offset, asset->size);
    *gain = strtof(text, &end);
  }
  if (end != text) return kLiteRtStatusOk;
  SAY("op Gain has no asset, or one that is not a number");
  return kLiteRtStatusErrorInvalidArgument;
}

static LiteRtStatus invocation_context_create(
    const LiteRtRuntimeContext* runtime, LiteRtDispatchDeviceContext device, LiteRtDispatchExecutableType type,
    const LiteRtMemBuffer* byte_code, const char* name, int num_inputs, int num_outputs,
    LiteRtDispatchInvocationContext* context) {
  CHECK(runtime != NULL && device != NULL && name != NULL && context != NULL);
  CHECK(byte_code != NULL && byte_code->base_addr != NULL);
  if (type != kLiteRtDispatchExecutableTypeMlModel) return kLiteRtStatusErrorUnsupported;
  Function function;
  float gain = 0;
  TRY(read_function(byte_code, name, &function));
  CHECK(num_inputs >= 1 && num_inputs <= 2 && num_inputs == (int)function.num_inputs && num_outputs == 1);
  if (function.op == kGain) TRY(read_gain(&device->gain, &gain));
  LiteRtDispatchInvocationContext made = calloc(1, sizeof(*made));
  if (made == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
  made->device = device;
  made->function = function;
  made->gain = gain;
  *context = made;
  return kLiteRtStatusOk;
}

static LiteRtStatus invocation_context_destroy(LiteRtDispatchInvocationContext context) {
  CHECK(context != NULL);
  free(context);
  return kLiteRtStatusOk;
}

/* Its buffers. */

static bool is_input(LiteRtDispatchInvocationContext context, int index) {
  return context != NULL && index >= 0 && index < (int)context->function.num_inputs;
}

static size_t size_of(LiteRtDispatchInvocationContext context) {
  return context->function.num_elements * sizeof(float);
}

static LiteRtStatus require(LiteRtDispatchInvocationContext context, LiteRtTensorBufferRequirements* requirements) {
  static const LiteRtTensorBufferType kType = kLiteRtTensorBufferTypeHostMemory;
  return context->device->runtime->create_tensor_buffer_requirements(
      1, &kType, size_of(context), 0, NULL, requirements);
}

static LiteRtStatus get_input_requirements(
    LiteRtDispatchInvocationContext context, int index, const LiteRtRankedTensorType* type,
    LiteRtTensorBufferRequirements* requirements) {
  CHECK(is_input(context, index) && type != NULL && requirements != NULL);
  return require(context, requirements);
}

static LiteRtStatus get_output_requirements(
    LiteRtDispatchInvocationContext context, int index, const LiteRtRankedTensorType* type,
    LiteRtTensorBufferRequirements* requirements) {
  CHECK(context != NULL && index == 0 && type != NULL && requirements != NULL);
  return require(context, requirements);
}

static LiteRtStatus attach(LiteRtDispatchInvocationContext context, int port, LiteRtTensorBufferHandle handle) {
  const LiteRtDispatchDeviceContext device = context->device;
  size_t size;
  CHECK(handle < device->num_buffers && device->buffers[handle] != NULL);
  TRY(device->runtime->get_tensor_buffer_size(device->buffers[handle], &size));
  CHECK(size >= size_of(context));
  context->buffers[port] = device->buffers[handle];
  context->handles[port] = handle;
  return kLiteRtStatusOk;
}

static LiteRtStatus detach(LiteRtDispatchInvocationContext context, int port, LiteRtTensorBufferHandle handle) {
  if (context->handles[port] == handle) context->buffers[port] = NULL;
  return kLiteRtStatusOk;
}

static LiteRtStatus attach_input(LiteRtDispatchInvocationContext context, int index, LiteRtTensorBufferHandle handle) {
  CHECK(is_input(context, index));
  return attach(context, index, handle);
}

static LiteRtStatus attach_output(LiteRtDispatchInvocationContext context, int index, LiteRtTensorBufferHandle handle) {
  CHECK(context != NULL && index == 0);
  return attach(context, kOutput, handle);
}

static LiteRtStatus detach_input(LiteRtDispatchInvocationContext context, int index, LiteRtTensorBufferHandle handle) {
  CHECK(is_input(context, index));
  return detach(context, index, handle);
}

static LiteRtStatus detach_output(LiteRtDispatchInvocationContext context, int index, LiteRtTensorBufferHandle handle) {
  CHECK(context != NULL && index == 0);
  return detach(context, kOutput, handle);
}

/* A run. */

/* YOUR OPS: what the device does. */
static void compute(LiteRtDispatchInvocationContext context, void* const memory[kNumPorts]) {
  const float* left = memory[0];
  const float* right = memory[context->function.num_inputs - 1];
  float* output = memory[kOutput];
  for (uint32_t i = 0; i < context->function.num_elements; i++)
    output[i] = left[i] * (context->function.op == kGain ? context->gain : right[i]);
}

static LiteRtStatus invoke(LiteRtDispatchInvocationContext context) {
  CHECK(context != NULL && context->buffers[0] != NULL && context->buffers[kOutput] != NULL);
  CHECK(context->buffers[context->function.num_inputs - 1] != NULL);
  const LiteRtRuntimeContext* runtime = context->device->runtime;
  const LiteRtTensorBuffer* buffers = context->buffers;
  void* memory[kNumPorts] = {NULL};
  bool locked[kNumPorts] = {false};
  LiteRtStatus status = kLiteRtStatusOk;
  for (int port = 0; port < kNumPorts && status == kLiteRtStatusOk; port++) {
    if (port < kOutput && !is_input(context, port)) continue;
    for (int other = 0; other < port; other++) /* a buffer can be locked once */
      if (locked[other] && buffers[other] == buffers[port]) memory[port] = memory[other];
    if (memory[port] != NULL) continue;
    LiteRtTensorBufferLockMode mode =
        port == kOutput ? kLiteRtTensorBufferLockModeWrite : kLiteRtTensorBufferLockModeRead;
    status = runtime->lock_tensor_buffer(buffers[port], &memory[port], mode);
    locked[port] = status == kLiteRtStatusOk;
  }
  if (status == kLiteRtStatusOk) compute(context, memory);
  for (int port = 0; port < kNumPorts; port++)
    if (locked[port] && runtime->unlock_tensor_buffer(buffers[port]) != kLiteRtStatusOk)
      status = kLiteRtStatusErrorRuntimeFailure;
  if (status == kLiteRtStatusOk) context->num_runs++;
  return status;
}

/* Metrics. */

static LiteRtStatus start_metrics_collection(LiteRtDispatchInvocationContext context, int detail_level) {
  (void)detail_level;
  CHECK(context != NULL);
  context->measures = true;
  context->num_runs = 0;
  return kLiteRtStatusOk;
}

static LiteRtStatus stop_metrics_collection(LiteRtDispatchInvocationContext context, LiteRtDispatchMetrics* metrics) {
  CHECK(context != NULL && metrics != NULL && context->measures);
  LiteRtDispatchMetrics made = calloc(1, sizeof(*made));
  if (made == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
  made->num_runs = context->num_runs;
  context->measures = false;
  *metrics = made;
  return kLiteRtStatusOk;
}

static LiteRtStatus get_num_metrics(LiteRtDispatchMetrics metrics, int* number) {
  CHECK(metrics != NULL && number != NULL);
  *number = 1;
  return kLiteRtStatusOk;
}

static LiteRtStatus get_metric(LiteRtDispatchMetrics metrics, int index, LiteRtMetric* metric) {
  CHECK(metrics != NULL && metric != NULL && index == 0);
  metric->name = "runs";
  metric->value.type = kLiteRtAnyTypeInt;
  metric->value.int_value = metrics->num_runs;
  return kLiteRtStatusOk;
}

static LiteRtStatus destroy_metrics(LiteRtDispatchMetrics metrics) {
  CHECK(metrics != NULL);
  free(metrics);
  return kLiteRtStatusOk;
}

static LiteRtDispatchInterface table = {
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
};

LiteRtStatus LiteRtDispatchGetApi(LiteRtDispatchApi* api) {
  CHECK(api != NULL);
  api->version = (LiteRtApiVersion){0, 1, 0};
  api->interface = &table;
  api->async_interface = NULL;
  api->graph_interface = NULL;
  api->tensor_buffer_handlers_def = NULL;
  return kLiteRtStatusOk;
}
