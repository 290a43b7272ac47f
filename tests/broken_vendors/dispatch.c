/* The dispatch table; see broken.h. */
#include "litert_npu/dispatch.h"

#include "broken.h"

#define MAX_BUFFERS 256
#define MAX_ASSETS 16

typedef struct {
  const char* name; /* the copy, or the host's, which is gone after the call */
  char copy[64];
  const char* bytes; /* the host's */
  size_t size;
} Asset;

struct LiteRtDispatchDeviceContextT {
  LiteRtTensorBuffer buffers[MAX_BUFFERS]; /* by handle; NULL where there is none */
  Asset assets[MAX_ASSETS];
  int num_assets;
};

struct LiteRtDispatchInvocationContextT {
  LiteRtDispatchDeviceContext device;
  Function function;
  uint64_t inputs[2], output; /* handles; MAX_BUFFERS where nothing is attached */
  int is_measuring, num_runs;
  float early_gain; /* of the asset that was there when the context was made */
};

struct LiteRtDispatchMetricsT {
  int num_runs;
};

static const LiteRtRuntimeContext* runtime;
static int num_devices, num_calls;
static struct LiteRtDispatchDeviceContextT everybody; /* of the rule that there is none */
static float shared_output[1 << 16];

static int is_global(void) { return breaks("register_asset.many") || breaks("register_asset.early"); }

__attribute__((destructor)) static void end(void) {
  if (breaks("dispatch.ends")) _exit(7);
}

static LiteRtStatus initialize(
    const LiteRtRuntimeContext* context, LiteRtEnvironment environment, LiteRtOptions options) {
  if (environment == NULL && options == NULL && breaks("initialize.no_options")) crash();
  if (runtime != NULL && breaks("initialize.again")) return kLiteRtStatusErrorAlreadyExists;
  CHECK(context != NULL);
  runtime = context;
  return kLiteRtStatusOk;
}

static LiteRtStatus get_vendor_id(const char** id) {
  CHECK(id != NULL || breaks("dispatch.null_arguments"));
  *id = breaks("ids.text") ? "" : "Broken";
  return kLiteRtStatusOk;
}

static LiteRtStatus get_build_id(const char** id) {
  CHECK(id != NULL);
  *id = breaks("ids.build") ? NULL : "1";
  return kLiteRtStatusOk;
}

static LiteRtStatus get_capabilities(int* capabilities) {
  CHECK(capabilities != NULL);
  *capabilities = breaks("capabilities.basic") ? 0 : 1;
  if (breaks("capabilities.parts")) *capabilities |= kLiteRtDispatchCapabilitiesAsync;
  return kLiteRtStatusOk;
}

static LiteRtStatus device_context_create(const LiteRtRuntimeContext* context, LiteRtOptions options,
    LiteRtDispatchDeviceContext* device) {
  (void)options;
  CHECK(device != NULL);
  if (context == NULL && breaks("device.failure")) *device = (LiteRtDispatchDeviceContext)16;
  CHECK(context != NULL);
  if (num_devices > 0 && breaks("device.many")) return kLiteRtStatusErrorAlreadyExists;
  *device = calloc(1, sizeof **device);
  if (*device == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
  if (breaks("device.closes")) (void)fopen("/dev/null", "r");
  ++num_devices;
  return kLiteRtStatusOk;
}

static LiteRtStatus device_context_destroy(LiteRtDispatchDeviceContext device) {
  CHECK(device != NULL);
  --num_devices;
  free(device);
  return kLiteRtStatusOk;
}

static LiteRtStatus require(LiteRtDispatchInvocationContext call, int index, int count,
    const LiteRtRankedTensorType* type, LiteRtTensorBufferRequirements* requirements) {
  CHECK(call != NULL && type != NULL && requirements != NULL);
  CHECK(breaks("requirements.index") || (index >= 0 && index < count));
  LiteRtTensorBufferType types[] = {kLiteRtTensorBufferTypeHostMemory};
  size_t size = call->function.num_elements * sizeof(float);
  if (breaks("requirements.size")) size -= 1;
  static LiteRtTensorBufferRequirements kept;
  if (kept != NULL && breaks("requirements.fresh")) {
    *requirements = kept;
    return kLiteRtStatusOk;
  }
  TRY(runtime->create_tensor_buffer_requirements(
      breaks("requirements.types") ? 0 : 1, types, size, 0, NULL, requirements));
  kept = *requirements;
  return kLiteRtStatusOk;
}

static LiteRtStatus get_input_requirements(LiteRtDispatchInvocationContext call, int index,
    const LiteRtRankedTensorType* type, LiteRtTensorBufferRequirements* requirements) {
  CHECK(call != NULL);
  return require(call, index, (int)call->function.num_inputs, type, requirements);
}

static LiteRtStatus get_output_requirements(LiteRtDispatchInvocationContext call, int index,
    const LiteRtRankedTensorType* type, LiteRtTensorBufferRequirements* requirements) {
  return require(call, index, 1, type, requirements);
}

static LiteRtStatus register_tensor_buffer(LiteRtDispatchDeviceContext device,
    LiteRtTensorBuffer buffer, LiteRtTensorBufferHandle* handle) {
  CHECK(device != NULL && buffer != NULL && handle != NULL);
  static LiteRtTensorBuffer once[MAX_BUFFERS];
  for (uint64_t i = 0; i < MAX_BUFFERS; ++i) {
    if (breaks("buffers.again") && once[i] == buffer) return kLiteRtStatusErrorAlreadyExists;
    if (once[i] == NULL) {
      once[i] = buffer;
      break;
    }
  }
  for (uint64_t i = 0; i < MAX_BUFFERS; ++i) {
    int is_shared = i == 3 && breaks("buffers.handles");
    if (device->buffers[i] != NULL && !is_shared) continue;
    device->buffers[i] = buffer;
    *handle = i;
    return kLiteRtStatusOk;
  }
  return kLiteRtStatusErrorMemoryAllocationFailure;
}

static LiteRtStatus unregister_tensor_buffer(
    LiteRtDispatchDeviceContext device, LiteRtTensorBufferHandle handle) {
  CHECK(device != NULL);
  if (breaks("buffers.unknown")) return kLiteRtStatusOk;
  int is_known = handle < MAX_BUFFERS && device->buffers[handle] != NULL;
  if (!is_known && breaks("dispatch.statuses")) return (LiteRtStatus)77;
  CHECK(is_known);
  device->buffers[handle] = NULL;
  return kLiteRtStatusOk;
}

static LiteRtStatus read_gain(LiteRtDispatchInvocationContext call, float* gain) {
  LiteRtDispatchDeviceContext device = is_global() ? &everybody : call->device;
  for (int i = 0; i < device->num_assets; ++i) {
    Asset* asset = &device->assets[i];
    char text[32] = {0};
    if (strcmp(asset->name, "Gain") != 0 || asset->size >= sizeof text) continue;
    memcpy(text, asset->bytes, asset->size);
    *gain = strtof(text, NULL);
    return kLiteRtStatusOk;
  }
  return kLiteRtStatusErrorNotFound;
}

static LiteRtStatus invocation_context_create(const LiteRtRuntimeContext* context,
    LiteRtDispatchDeviceContext device, LiteRtDispatchExecutableType type,
    const LiteRtMemBuffer* byte_code, const char* name, int num_inputs, int num_outputs,
    LiteRtDispatchInvocationContext* call) {
  (void)context, (void)type;
  CHECK(device != NULL && byte_code != NULL && byte_code->base_addr != NULL && call != NULL);
  CHECK(name != NULL);
  ByteCode code;
  size_t offset = breaks("invocation.offset") ? 0 : byte_code->offset;
  int is_ours = byte_code->size == sizeof code;
  if (breaks("invocation.aligned")) is_ours = is_ours && ((uintptr_t)byte_code->base_addr + offset) % 4 == 0;
  if (is_ours) memcpy(&code, (const char*)byte_code->base_addr + offset, sizeof code);
  is_ours = is_ours && code.magic == MAGIC && code.num_functions <= MAX_FUNCTIONS;
  if (!is_ours && breaks("invocation.byte_code")) {
    *call = calloc(1, sizeof **call);
    return kLiteRtStatusOk;
  }
  if (!is_ours && breaks("invocation.failure")) *call = (LiteRtDispatchInvocationContext)16;
  CHECK(is_ours);
  if (num_calls > 0 && breaks("invocation.many")) return kLiteRtStatusErrorAlreadyExists;
  for (uint32_t i = 0; i < code.num_functions; ++i) {
    Function* function = &code.functions[i];
    if (strcmp(function->name, name) != 0 && !breaks("invocation.function")) continue;
    int agree = num_inputs == (int)function->num_inputs && num_outputs == 1;
    CHECK(agree || breaks("invocation.counts"));
    if (!agree) function->num_inputs = (uint32_t)num_inputs;
    *call = calloc(1, sizeof **call);
    if (*call == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
    ++num_calls;
    **call = (struct LiteRtDispatchInvocationContextT){
        device, *function, {MAX_BUFFERS, MAX_BUFFERS}, MAX_BUFFERS, 0, 0, 0};
    if (function->kind == kGain) (void)read_gain(*call, &(*call)->early_gain);
    return kLiteRtStatusOk;
  }
  return kLiteRtStatusErrorNotFound;
}

static LiteRtStatus invocation_context_destroy(LiteRtDispatchInvocationContext call) {
  CHECK(call != NULL);
  --num_calls;
  free(call);
  return kLiteRtStatusOk;
}

static LiteRtStatus set_scheduling_info(
    LiteRtDispatchInvocationContext call, const LiteRtSchedulingInfo* info) {
  CHECK(call != NULL);
  CHECK(info == NULL || info->fields_mask != 0 || !breaks("scheduling.any"));
  return kLiteRtStatusOk;
}

static LiteRtStatus attach(LiteRtDispatchInvocationContext call, uint64_t* place, uint64_t handle) {
  CHECK(*place == MAX_BUFFERS || !breaks("attach.replaces"));
  CHECK(handle < MAX_BUFFERS && call->device->buffers[handle] != NULL);
  size_t size;
  TRY(runtime->get_tensor_buffer_size(call->device->buffers[handle], &size));
  CHECK(size >= call->function.num_elements * sizeof(float) || breaks("buffers.size"));
  *place = handle;
  return kLiteRtStatusOk;
}

static LiteRtStatus attach_input(
    LiteRtDispatchInvocationContext call, int index, LiteRtTensorBufferHandle handle) {
  CHECK(call != NULL);
  if (breaks("attach.index") && index >= (int)call->function.num_inputs) return kLiteRtStatusOk;
  if (breaks("attach.unknown") && (handle >= MAX_BUFFERS || call->device->buffers[handle] == NULL))
    return kLiteRtStatusOk;
  CHECK(index >= 0 && index < (int)call->function.num_inputs && index < 2);
  return attach(call, &call->inputs[index], handle);
}

static LiteRtStatus attach_output(
    LiteRtDispatchInvocationContext call, int index, LiteRtTensorBufferHandle handle) {
  CHECK(call != NULL && index == 0);
  return attach(call, &call->output, handle);
}

static LiteRtStatus detach_input(
    LiteRtDispatchInvocationContext call, int index, LiteRtTensorBufferHandle handle) {
  CHECK(call != NULL && index >= 0 && index < (int)call->function.num_inputs && index < 2);
  if (call->inputs[index] == handle || breaks("detach.stale")) call->inputs[index] = MAX_BUFFERS;
  return kLiteRtStatusOk;
}

static LiteRtStatus detach_output(
    LiteRtDispatchInvocationContext call, int index, LiteRtTensorBufferHandle handle) {
  CHECK(call != NULL && index == 0);
  if (call->output == handle && !breaks("invoke.detached")) call->output = MAX_BUFFERS;
  return kLiteRtStatusOk;
}

static LiteRtStatus compute(LiteRtDispatchInvocationContext call, float* const* inputs, float* output) {
  uint32_t n = call->function.num_elements;
  float gain = 1;
  if (call->function.kind == kGain) TRY(read_gain(call, &gain));
  if (breaks("register_asset.early")) gain = call->early_gain;
  const float* other = call->function.num_inputs == 2 ? inputs[1] : inputs[0];
  float* target = breaks("invoke.threads") ? shared_output : output;
  for (uint32_t i = 0; i < n; ++i) {
    target[i] = call->function.kind == kGain ? gain * inputs[0][i] : inputs[0][i] * other[i];
    if (breaks("invoke.values")) target[i] *= 1.5f;
    if (breaks("invoke.repeatable")) target[i] += (float)(call->num_runs - 1);
  }
  if (breaks("invoke.threads")) {
    usleep(2000);
    memcpy(output, target, n * sizeof *output);
  }
  return kLiteRtStatusOk;
}

static LiteRtStatus invoke(LiteRtDispatchInvocationContext call) {
  CHECK(call != NULL);
  uint32_t num_inputs = call->function.num_inputs;
  if (breaks("invoke.missing") && call->inputs[0] == MAX_BUFFERS) crash();
  CHECK(call->output != MAX_BUFFERS && num_inputs <= 2);
  for (uint32_t i = 0; i < num_inputs; ++i) CHECK(call->inputs[i] != MAX_BUFFERS);
  ++call->num_runs;
  if (breaks("invoke.written")) return kLiteRtStatusOk;
  LiteRtTensorBuffer* buffers = call->device->buffers;
  void* output;
  TRY(runtime->lock_tensor_buffer(
      buffers[call->output], &output, kLiteRtTensorBufferLockModeWrite));
  void* inputs[2] = {output, output}; /* invocation.counts: a call may have fewer than its function reads */
  for (uint32_t i = 0; i < num_inputs; ++i)
    TRY(runtime->lock_tensor_buffer(
        buffers[call->inputs[i]], &inputs[i], kLiteRtTensorBufferLockModeRead));
  LiteRtStatus status = compute(call, (float**)inputs, output);
  if (!breaks("invoke.unlocks")) TRY(runtime->unlock_tensor_buffer(buffers[call->output]));
  for (uint32_t i = 0; i < num_inputs; ++i)
    TRY(runtime->unlock_tensor_buffer(buffers[call->inputs[i]]));
  return status;
}

static LiteRtStatus start_metrics_collection(LiteRtDispatchInvocationContext call, int level) {
  (void)level;
  CHECK(call != NULL);
  if (breaks("metrics.pair") && call->is_measuring < 0) return kLiteRtStatusErrorAlreadyExists;
  call->is_measuring = 1;
  call->num_runs = 0;
  return kLiteRtStatusOk;
}

static LiteRtStatus stop_metrics_collection(
    LiteRtDispatchInvocationContext call, LiteRtDispatchMetrics* metrics) {
  CHECK(call != NULL && metrics != NULL);
  CHECK(call->is_measuring > 0 || breaks("metrics.order"));
  call->is_measuring = -1;
  *metrics = calloc(1, sizeof **metrics);
  if (*metrics == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
  (*metrics)->num_runs = call->num_runs;
  return kLiteRtStatusOk;
}

static LiteRtStatus get_num_metrics(LiteRtDispatchMetrics metrics, int* num_metrics) {
  CHECK(metrics != NULL && num_metrics != NULL);
  *num_metrics = breaks("metrics.each") ? 2 : 1;
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

static LiteRtStatus check_runtime_compatibility(
    LiteRtApiVersion version, LiteRtEnvironmentOptions env, LiteRtOptions options) {
  (void)version, (void)env, (void)options;
  return breaks("runtime_compatibility.ours") ? kLiteRtStatusErrorUnsupportedRuntimeVersion
                                              : kLiteRtStatusOk;
}

static LiteRtStatus set_options(LiteRtDispatchInvocationContext call, LiteRtOptions options) {
  CHECK(call != NULL);
  CHECK(options != NULL || !breaks("run_options.none"));
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtDispatchRegisterAsset(
    LiteRtDispatchDeviceContext device, const char* name, const LiteRtMemBuffer* buffer) {
  CHECK(device != NULL && name != NULL && buffer != NULL && buffer->base_addr != NULL);
  if (strcmp(name, "Gain") != 0 && breaks("register_asset.unknown"))
    return kLiteRtStatusErrorNotFound;
  if (is_global()) device = &everybody;
  int index = 0;
  while (index < device->num_assets && strcmp(device->assets[index].name, name) != 0) ++index;
  CHECK(index == device->num_assets || !breaks("register_asset.again"));
  if (index < device->num_assets && breaks("register_asset.first")) return kLiteRtStatusOk;
  CHECK(index < MAX_ASSETS && strlen(name) < sizeof everybody.assets[0].copy);
  Asset* asset = &device->assets[index];
  if (index == device->num_assets) ++device->num_assets;
  strcpy(asset->copy, name);
  asset->name = breaks("register_asset.lifetime") ? name : asset->copy;
  asset->bytes = (const char*)buffer->base_addr + (breaks("register_asset.bytes") ? 0 : buffer->offset);
  asset->size = buffer->size;
  return kLiteRtStatusOk;
}

static LiteRtDispatchInterface table = {
    initialize, get_vendor_id, get_build_id, get_capabilities, device_context_create,
    device_context_destroy, get_input_requirements, get_output_requirements, register_tensor_buffer,
    unregister_tensor_buffer, invocation_context_create, invocation_context_destroy,
    set_scheduling_info, attach_input, attach_output, detach_input, detach_output, invoke,
    start_metrics_collection, stop_metrics_collection, get_num_metrics, get_metric, destroy_metrics,
    check_runtime_compatibility, set_options, NULL};

LiteRtStatus LiteRtDispatchGetApi(LiteRtDispatchApi* api) {
  CHECK(api != NULL || breaks("api.null"));
  api->version = (LiteRtApiVersion){0, 1, breaks("api.version") ? 5 : 0};
  if (breaks("api.room")) memset(api + 1, 0, sizeof(void*));
  api->interface = breaks("api.interface") ? NULL : &table;
  api->async_interface = NULL;
  api->graph_interface = NULL;
  api->tensor_buffer_handlers_def = NULL;
  return kLiteRtStatusOk;
}

/* Shows what the function computes, twice, as tensors of the compiler's own. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtDispatchInvokeTapped(
    LiteRtDispatchInvocationContext call, LiteRtDispatchReceiveTensor receive, void* user_data) {
  CHECK(call != NULL && receive != NULL);
  TRY(invoke(call));
  LiteRtTensorBuffer buffer = call->device->buffers[call->output];
  LiteRtRankedTensorType type = {kLiteRtElementTypeFloat32, {1, false, {(int32_t)call->function.num_elements}, {0}}};
  size_t size = call->function.num_elements * sizeof(float);
  void* output;
  TRY(runtime->lock_tensor_buffer(buffer, &output, kLiteRtTensorBufferLockModeReadWrite));
  LiteRtStatus status = kLiteRtStatusOk;
  if (breaks("taps.outputs")) *(float*)output += 1;
  for (int i = 0; i < 2 && status == kLiteRtStatusOk; i++) {
    const char* name = i == 0 || breaks("taps.names") ? "first" : "second";
    status = receive(user_data, breaks("taps.model") ? "y" : name, &type, output, breaks("taps.types") ? size - 4 : size);
    if (breaks("taps.receiver")) status = kLiteRtStatusOk;
    if (breaks("taps.model")) break;
  }
  TRY(runtime->unlock_tensor_buffer(buffer));
  return status;
}
