/* Calls every function of the C example's two libraries, rightly and wrongly, from threads, and with each cut and each
 * flipped bit of its byte code. All memory that the libraries see is of the exact size, so that sanitizers see what goes
 * beyond. Linked with both; exits with 0 if all was as the contract has it. Its arguments: a file that is the asset of
 * Gain, and any word if the vendor is in Python. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_model.h"
#include "litert_npu/compiler_options.h"
#include "litert_npu/dispatch.h"

#define EXPECT(condition)                                                \
  do {                                                                   \
    if (!(condition)) {                                                  \
      fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                           \
    }                                                                    \
  } while (0)
#define OK(call) EXPECT((call) == kLiteRtStatusOk)
#define FAILS(call) EXPECT((call) != kLiteRtStatusOk)

enum { kElements = 6, kSize = kElements * sizeof(float) };

static const char* asset_path; /* of a file with "-4" */

/* The user has an asset for Gain. The plugin finds these by name. */

LiteRtStatus LiteRtFindCompilerOptions(LiteRtOpaqueOptions opaque, LiteRtCompilerOptions* compiler) {
  *compiler = (LiteRtCompilerOptions)opaque;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompilerOptionsNumCustomOpInfo(LiteRtCompilerOptions options, LiteRtParamIndex* number) {
  (void)options;
  *number = 2;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompilerOptionsCustomOpInfo(
    LiteRtCompilerOptions options, LiteRtParamIndex i, const char** name, const char** path) {
  (void)options;
  *name = i == 0 ? "Other" : "Gain";
  *path = asset_path;
  return kLiteRtStatusOk;
}

/* Bytes in memory of their own size, at an address that is aligned to nothing. */
typedef struct {
  char* memory;
  LiteRtMemBuffer buffer;
} Bytes;

static Bytes exact(const void* data, size_t size) {
  Bytes bytes = {malloc(size + 1), {-1, NULL, 1, size, 0}};
  EXPECT(bytes.memory != NULL);
  memcpy(bytes.memory + 1, data, size);
  bytes.buffer.base_addr = bytes.memory;
  return bytes;
}

static Bytes compile(void) {
  struct LiteRtTensorT tensors[5];
  for (int i = 0; i < 5; i++) tensors[i].type = (LiteRtRankedTensorType){kLiteRtElementTypeFloat32, {2, 0, {2, 3}, {0}}};
  struct LiteRtOpT ops[3] = {
      {kLiteRtOpCodeTflMul, "", 2, {&tensors[0], &tensors[1]}, &tensors[2]},
      {kLiteRtOpCodeTflCustom, "Gain", 1, {&tensors[2], NULL}, &tensors[3]},
      {kLiteRtOpCodeTflAdd, "", 2, {&tensors[0], &tensors[3]}, &tensors[4]}};
  struct LiteRtSubgraphT whole = {3, 2, {&ops[0], &ops[1], &ops[2]}, {&tensors[0], &tensors[1]}, &tensors[4]};
  struct LiteRtSubgraphT mul = {1, 2, {&ops[0]}, {&tensors[0], &tensors[1]}, &tensors[2]};
  struct LiteRtSubgraphT gain = {1, 1, {&ops[1]}, {&tensors[2], NULL}, &tensors[3]};
  struct LiteRtModelT model = {2, {&mul, &gain}}, nothing = {0}, refused = {1, {&whole}};
  struct LiteRtOpListT list = {0};
  LiteRtOptions options = (LiteRtOptions)&list;
  LiteRtCompilerPlugin plugin = NULL, other = NULL;
  LiteRtApiVersion version;
  LiteRtParamIndex number, module;
  LiteRtHwAccelerators hardware;
  LiteRtTransformation* transformations;
  LiteRtCompiledResult result = NULL, second = NULL;
  const char *text, *soc_model = NULL;
  const void* data;
  size_t size;

  OK(LiteRtGetCompilerPluginVersion(&version));
  FAILS(LiteRtGetCompilerPluginVersion(NULL));
  FAILS(LiteRtCreateCompilerPlugin(NULL, &plugin, NULL, NULL));
  FAILS(LiteRtCreateCompilerPlugin(&compiler_context, NULL, NULL, NULL));
  OK(LiteRtCreateCompilerPlugin(&compiler_context, &other, NULL, NULL));
  OK(LiteRtCreateCompilerPlugin(&compiler_context, &plugin, NULL, options));
  OK(LiteRtGetCompilerPluginSupportedHardware(plugin, &hardware));
  FAILS(LiteRtGetCompilerPluginSupportedHardware(NULL, &hardware));
  OK(LiteRtGetNumCompilerPluginSupportedSocModels(plugin, &number));
  for (LiteRtParamIndex i = 0; i < number; i++) OK(LiteRtGetCompilerPluginSupportedSocModel(plugin, i, &soc_model));
  FAILS(LiteRtGetCompilerPluginSupportedSocModel(plugin, number, &text));
  OK(LiteRtGetCompilerPluginSDKVersion(plugin, &text));
  OK(LiteRtCompilerPluginCheckCompilerCompatibility(version, plugin, NULL, NULL, NULL));
  FAILS(LiteRtCompilerPluginCheckCompilerCompatibility(version, plugin, NULL, NULL, "C9"));
  OK(LiteRtCompilerPluginRegisterAllTransformations(plugin, &transformations, &number));
  FAILS(LiteRtCompilerPluginPartition(plugin, NULL, NULL, &list));
  OK(LiteRtCompilerPluginPartition(other, NULL, &whole, &list));
  EXPECT(list.num_ops == 1);
  FAILS(LiteRtCompilerPluginGetRefusal(other, 0, &text));
  OK(LiteRtCompilerPluginGetRefusal(other, 1, &text));
  EXPECT(strstr(text, "op Gain has no asset") == text);
  FAILS(LiteRtCompilerPluginGetRefusal(other, 3, &text));
  FAILS(LiteRtCompilerPluginGetRefusal(other, 1, NULL));
  FAILS(LiteRtCompilerPluginGetRefusal(plugin, 1, &text));
  OK(LiteRtCompilerPluginPartition(other, NULL, &mul, &list));
  FAILS(LiteRtCompilerPluginGetRefusal(other, 1, &text));
  list.num_ops = 0;
  OK(LiteRtCompilerPluginPartition(plugin, soc_model, &whole, &list));
  EXPECT(list.num_ops == 2 && list.ops[1] == &ops[1]);
  FAILS(LiteRtCompilerPluginCompile(plugin, NULL, &refused, &result));
  EXPECT(result == NULL);
  OK(LiteRtCompilerPluginCompile(plugin, NULL, &nothing, &second));
  OK(LiteRtCompilerPluginCompile(plugin, NULL, &model, &result));
  OK(LiteRtCompiledResultNumByteCodeModules(NULL, &number));
  EXPECT(number == 0);
  OK(LiteRtGetNumCompiledResultCalls(result, &number));
  EXPECT(number == 2);
  for (LiteRtParamIndex i = 0; i < number; i++) OK(LiteRtGetCompiledResultCallInfo(result, i, &data, &size, &module));
  FAILS(LiteRtGetCompiledResultCallInfo(result, number, &data, &size, &module));
  FAILS(LiteRtGetCompiledResultByteCode(result, 1, &data, &size));
  OK(LiteRtGetCompiledResultByteCode(result, 0, &data, &size));
  Bytes byte_code = exact(data, size);
  LiteRtDestroyCompiledResult(result);
  LiteRtDestroyCompiledResult(second);
  LiteRtDestroyCompiledResult(NULL);
  LiteRtDestroyCompilerPlugin(plugin);
  LiteRtDestroyCompilerPlugin(other);
  LiteRtDestroyCompilerPlugin(NULL);
  return byte_code;
}

/* The runtime's side. */

struct LiteRtTensorBufferT {
  void* memory;
  size_t size;
  bool is_locked;
};

static LiteRtStatus create_requirements(
    int num_types, const LiteRtTensorBufferType* types, size_t size, int num_strides, const uint32_t* strides,
    LiteRtTensorBufferRequirements* requirements) {
  (void)num_strides, (void)strides;
  EXPECT(num_types > 0 && types[0] == kLiteRtTensorBufferTypeHostMemory && size > 0);
  *requirements = (LiteRtTensorBufferRequirements)&create_requirements;
  return kLiteRtStatusOk;
}

static LiteRtStatus get_size(LiteRtTensorBuffer buffer, size_t* size) {
  *size = buffer->size;
  return kLiteRtStatusOk;
}

static LiteRtStatus get_offset(LiteRtTensorBuffer buffer, size_t* offset) {
  (void)buffer;
  *offset = 0;
  return kLiteRtStatusOk;
}

static LiteRtStatus get_type(LiteRtTensorBuffer buffer, LiteRtTensorBufferType* type) {
  (void)buffer;
  *type = kLiteRtTensorBufferTypeHostMemory;
  return kLiteRtStatusOk;
}

static LiteRtStatus get_tensor_type(LiteRtTensorBuffer buffer, LiteRtRankedTensorType* type) {
  (void)buffer;
  *type = (LiteRtRankedTensorType){kLiteRtElementTypeFloat32, {2, 0, {2, 3}, {0}}};
  return kLiteRtStatusOk;
}

static LiteRtStatus get_host_memory(LiteRtTensorBuffer buffer, void** address) {
  *address = buffer->memory;
  return kLiteRtStatusOk;
}

static LiteRtStatus lock(LiteRtTensorBuffer buffer, void** address, LiteRtTensorBufferLockMode mode) {
  (void)mode;
  if (buffer->is_locked) return kLiteRtStatusErrorRuntimeFailure;
  buffer->is_locked = true;
  *address = buffer->memory;
  return kLiteRtStatusOk;
}

static LiteRtStatus unlock(LiteRtTensorBuffer buffer) {
  EXPECT(buffer->is_locked);
  buffer->is_locked = false;
  return kLiteRtStatusOk;
}

static const LiteRtRuntimeContext runtime = {
    .abi_header = {sizeof(LiteRtRuntimeContext), 1, 2, 0},
    .create_tensor_buffer_requirements = create_requirements,
    .get_tensor_buffer_type = get_type,
    .get_tensor_buffer_tensor_type = get_tensor_type,
    .get_tensor_buffer_size = get_size,
    .get_tensor_buffer_packed_size = get_size,
    .get_tensor_buffer_offset = get_offset,
    .get_tensor_buffer_host_memory = get_host_memory,
    .lock_tensor_buffer = lock,
    .unlock_tensor_buffer = unlock,
};
static const LiteRtDispatchInterface* table;
static bool is_exported; /* a Python vendor: its byte code has the assets, and it locks no host memory */

/* A context, with buffers for two inputs and the output. */
typedef struct {
  LiteRtDispatchDeviceContext device;
  LiteRtDispatchInvocationContext context;
  struct LiteRtTensorBufferT buffers[3];
  LiteRtTensorBufferHandle handles[3];
} Call;

static LiteRtStatus begin(Call* call, LiteRtDispatchDeviceContext device, const LiteRtMemBuffer* code, const char* name) {
  int num_inputs = strcmp(name, "f0") == 0 ? 2 : 1;
  memset(call, 0, sizeof(*call));
  call->device = device;
  return table->invocation_context_create(
      &runtime, device, kLiteRtDispatchExecutableTypeMlModel, code, name, num_inputs, 1, &call->context);
}

/* Attaches what it needs; what is refused leaves the run without a buffer, and it fails. */
static LiteRtStatus attach(Call* call, int num_inputs) {
  LiteRtStatus status = kLiteRtStatusOk;
  for (int i = 0; i < 3; i++) {
    call->buffers[i] = (struct LiteRtTensorBufferT){NULL, kSize, false};
    EXPECT(posix_memalign(&call->buffers[i].memory, LITERT_HOST_MEMORY_BUFFER_ALIGNMENT, kSize) == 0);
    for (int j = 0; j < kElements; j++) ((float*)call->buffers[i].memory)[j] = (float)(i + 2) * (float)j;
    OK(table->register_tensor_buffer(call->device, &call->buffers[i], &call->handles[i]));
  }
  for (int i = 0; i < num_inputs && status == kLiteRtStatusOk; i++)
    status = table->attach_input(call->context, i, call->handles[i]);
  if (status == kLiteRtStatusOk) status = table->attach_output(call->context, 0, call->handles[2]);
  return status;
}

static void end(Call* call, int num_inputs) {
  for (int i = 0; i < num_inputs; i++) OK(table->detach_input(call->context, i, call->handles[i]));
  OK(table->detach_output(call->context, 0, call->handles[2]));
  for (int i = 0; i < 3; i++) {
    OK(table->unregister_tensor_buffer(call->device, call->handles[i]));
    free(call->buffers[i].memory);
  }
  OK(table->invocation_context_destroy(call->context));
}

static void expect_output(const Call* call, float factor, bool is_product) {
  const float* output = call->buffers[2].memory;
  for (int j = 0; j < kElements; j++) EXPECT(output[j] == (is_product ? 6.0f * (float)(j * j) : factor * 2.0f * (float)j));
}

/* A buffer that lacks a byte is refused by one of three; then the first input has its own again. */
static void expect_too_small(Call* call) {
  struct LiteRtTensorBufferT small = {NULL, kSize - 1, false};
  LiteRtTensorBufferHandle handle;
  EXPECT(posix_memalign(&small.memory, LITERT_HOST_MEMORY_BUFFER_ALIGNMENT, small.size) == 0);
  if (table->register_tensor_buffer(call->device, &small, &handle) == kLiteRtStatusOk) {
    LiteRtStatus status = table->attach_input(call->context, 0, handle);
    if (status == kLiteRtStatusOk) status = table->invoke(call->context);
    FAILS(status);
    OK(table->attach_input(call->context, 0, call->handles[0]));
    OK(table->unregister_tensor_buffer(call->device, handle));
  }
  free(small.memory);
}

static void measure(const Call* call) {
  LiteRtDispatchMetrics metrics;
  LiteRtMetric metric;
  int number;
  FAILS(table->stop_metrics_collection(call->context, &metrics));
  OK(table->start_metrics_collection(call->context, 1));
  OK(table->invoke(call->context));
  OK(table->stop_metrics_collection(call->context, &metrics));
  OK(table->get_num_metrics(metrics, &number));
  for (int i = 0; i < number; i++) OK(table->get_metric(metrics, i, &metric));
  FAILS(table->get_metric(metrics, number, &metric));
  FAILS(table->get_metric(metrics, -1, &metric));
  OK(table->destroy_metrics(metrics));
}

static void* run_often(void* argument) {
  Call* call = argument;
  for (int i = 0; i < 1000; i++) OK(table->invoke(call->context));
  return NULL;
}

static void run(const LiteRtMemBuffer* code) {
  LiteRtDispatchDeviceContext device, empty;
  Call mul, gain, none;
  LiteRtTensorBufferRequirements requirements;
  LiteRtRankedTensorType type = {kLiteRtElementTypeFloat32, {2, 0, {2, 3}, {0}}};
  FAILS(table->device_context_create(&runtime, NULL, NULL));
  OK(table->device_context_create(&runtime, NULL, &device));
  OK(table->device_context_create(&runtime, NULL, &empty));
  Bytes first = exact("2.5", 3), asset = exact("-4\n", 3), no_number = exact("loud", 4);
  OK(LiteRtDispatchRegisterAsset(device, "Gain", &no_number.buffer));
  if (!is_exported) FAILS(begin(&gain, device, code, "f1"));
  OK(LiteRtDispatchRegisterAsset(device, "Gain", &first.buffer));
  OK(LiteRtDispatchRegisterAsset(device, "Gain", &asset.buffer));
  OK(LiteRtDispatchRegisterAsset(device, "Gain/other.txt", &first.buffer));
  FAILS(LiteRtDispatchRegisterAsset(device, NULL, &asset.buffer));
  if (!is_exported) FAILS(begin(&gain, empty, code, "f1"));
  FAILS(begin(&none, device, code, "f2"));
  FAILS(begin(&none, device, code, "a name that is longer than any in the byte code"));
  OK(begin(&mul, device, code, "f0"));
  OK(begin(&gain, device, code, "f1"));
  FAILS(table->invoke(mul.context));
  OK(table->get_input_requirements(mul.context, 1, &type, &requirements));
  FAILS(table->get_input_requirements(gain.context, 1, &type, &requirements));
  FAILS(table->get_input_requirements(gain.context, -1, &type, &requirements));
  OK(table->get_output_requirements(gain.context, 0, &type, &requirements));
  FAILS(table->get_output_requirements(gain.context, 1, &type, &requirements));
  OK(attach(&mul, 2));
  OK(attach(&gain, 1));
  FAILS(table->attach_input(mul.context, 2, mul.handles[0]));
  FAILS(table->attach_input(mul.context, 0, 1000));
  FAILS(table->unregister_tensor_buffer(device, 1000));
  expect_too_small(&mul);
  if (table->start_metrics_collection != NULL) measure(&mul);
  pthread_t threads[2];
  EXPECT(pthread_create(&threads[0], NULL, run_often, &mul) == 0);
  EXPECT(pthread_create(&threads[1], NULL, run_often, &gain) == 0);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  expect_output(&mul, 0, true);
  expect_output(&gain, -4, false);
  OK(table->attach_input(mul.context, 1, mul.handles[0])); /* one buffer twice: it is locked once */
  OK(table->detach_input(mul.context, 1, mul.handles[1])); /* too late: another is there */
  OK(table->invoke(mul.context));
  if (!is_exported) {
    mul.buffers[2].is_locked = true; /* the runtime refuses to lock */
    FAILS(table->invoke(mul.context));
    EXPECT(!mul.buffers[0].is_locked);
  }
  end(&mul, 2);
  end(&gain, 1);
  OK(table->device_context_destroy(device));
  OK(table->device_context_destroy(empty));
  free(first.memory), free(asset.memory), free(no_number.memory);
}

/* Byte code that is damaged: refused, or run within its buffers. */
static void run_damaged(const char* code, size_t size) {
  LiteRtDispatchDeviceContext device;
  Bytes asset = exact("3", 1);
  for (size_t i = 0; i < 9 * size; i++) {
    Bytes damaged = exact(code, i < size ? i : size);
    if (i >= size) damaged.memory[1 + (i - size) / 8] ^= (char)(1 << (i - size) % 8);
    OK(table->device_context_create(&runtime, NULL, &device));
    OK(LiteRtDispatchRegisterAsset(device, "Gain", &asset.buffer));
    for (int function = 0; function < 2; function++) {
      Call call;
      int num_inputs = 2 - function;
      if (begin(&call, device, &damaged.buffer, function == 0 ? "f0" : "f1") != kLiteRtStatusOk) continue;
      if (attach(&call, num_inputs) == kLiteRtStatusOk) OK(table->invoke(call.context));
      end(&call, num_inputs);
    }
    OK(table->device_context_destroy(device));
    free(damaged.memory);
  }
  free(asset.memory);
}

/* The first calls come at one time. */
static void* begin_to_use(void* failures) {
  LiteRtApiVersion version;
  LiteRtDispatchApi api = {.abi_header = {sizeof(api), 1, 0, 0}};
  if (LiteRtGetCompilerPluginVersion(&version) != kLiteRtStatusOk || LiteRtDispatchGetApi(&api) != kLiteRtStatusOk)
    atomic_fetch_add((atomic_int*)failures, 1);
  return NULL;
}

int main(int argc, char** argv) {
  EXPECT(argc >= 2);
  asset_path = argv[1];
  is_exported = argc > 2;
  LiteRtDispatchApi api = {.abi_header = {sizeof(api), 1, 0, 0}};
  const char* text;
  int capabilities;
  atomic_int failures = 0;
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) EXPECT(pthread_create(&threads[i], NULL, begin_to_use, &failures) == 0);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  EXPECT(failures == 0);
  FAILS(LiteRtDispatchGetApi(NULL));
  OK(LiteRtDispatchGetApi(&api));
  table = api.interface;
  FAILS(table->initialize(NULL, NULL, NULL));
  OK(table->initialize(&runtime, NULL, NULL));
  OK(table->check_runtime_compatibility(api.version, NULL, NULL));
  OK(table->get_vendor_id(&text));
  OK(table->get_build_id(&text));
  OK(table->get_capabilities(&capabilities));
  FAILS(table->get_capabilities(NULL));
  Bytes code = compile();
  run(&code.buffer);
  run_damaged(code.memory + 1, code.buffer.size);
  free(code.memory);
  return 0;
}
