/* Cobalt's dispatch table. Its NPU multiplies and subtracts, in the host's process. The asset of op Gain is a text file
 * with one number. The header litert_npu/dispatch.h describes each function, and the headers in litert_npu/support define
 * the functions that are not in this file. */
#include <stdlib.h>
#include <string.h>

#include "byte_code.h"
#include "litert_npu/support/dispatch_identity.h"
#include "litert_npu/support/errors.h"
#include "litert_npu/support/host_memory.h"

/* YOUR NPU: the name and the version of its driver. */
const LiteRtNpuDispatchIdentity kLiteRtNpuDispatch = {.vendor_id = "Cobalt", .build_id = "1.0"};

struct LiteRtDispatchDeviceContextT {
  LiteRtNpuDevice base;
  LiteRtMemBuffer gain; /* asset of op Gain; its address is NULL if there is no asset */
};

struct LiteRtDispatchInvocationContextT {
  LiteRtNpuCall base;
  LiteRtNpuPort ports[3]; /* one or two inputs, then the output */
  LiteRtNpuCounter runs;
  Function function;
  float gain;
};

/* Functions for the device and the assets of a model. */

static LiteRtStatus device_context_create(
    const LiteRtRuntimeContext* runtime, LiteRtOptions options, LiteRtDispatchDeviceContext* device) {
  (void)options;
  LITERT_NPU_CHECK(runtime != NULL && device != NULL);
  LiteRtDispatchDeviceContext made = calloc(1, sizeof(*made));
  if (made == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
  made->base.runtime = runtime;
  *device = made;
  return kLiteRtStatusOk;
}

static LiteRtStatus device_context_destroy(LiteRtDispatchDeviceContext device) {
  LITERT_NPU_CHECK(device != NULL);
  LiteRtNpuFreeBufferTable(&device->base.buffers);
  free(device);
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtDispatchRegisterAsset(
    LiteRtDispatchDeviceContext device, const char* name, const LiteRtMemBuffer* buffer) {
  LITERT_NPU_CHECK(device != NULL && name != NULL && buffer != NULL);
  if (strcmp(name, "Gain") == 0) device->gain = *buffer; /* the bytes live as long as the device context */
  return kLiteRtStatusOk;
}

/* Functions that load a function of the byte code. */

static LiteRtStatus read_function(const LiteRtMemBuffer* byte_code, const char* name, Function* function) {
  const char* bytes = (const char*)byte_code->base_addr + byte_code->offset;
  size_t size = byte_code->size;
  if (size < sizeof(Header) || memcmp(bytes, &kHeader, sizeof(Header)) != 0 ||
      (size - sizeof(Header)) % sizeof(Function) != 0) {
    LiteRtNpuSay("Cobalt", "the byte code is damaged, or was not written by Cobalt's compiler");
    return kLiteRtStatusErrorIncompatibleByteCodeVersion;
  }
  for (size_t at = sizeof(Header); at < size; at += sizeof(Function)) {
    memcpy(function, bytes + at, sizeof(Function)); /* copied, because it may be unaligned */
    if (strncmp(function->name, name, sizeof(function->name)) == 0) return kLiteRtStatusOk;
  }
  LiteRtNpuSay("Cobalt", "the byte code has no function '%s'", name);
  return kLiteRtStatusErrorNotFound;
}

static LiteRtStatus read_gain(const LiteRtMemBuffer* asset, float* gain) {
  char text[32] = "", *end = text;
  if (asset->base_addr != NULL && asset->size < sizeof(text)) {
    memcpy(text, (const char*)asset->base_addr + asset->offset, asset->size);
    *gain = strtof(text, &end);
  }
  if (end != text) return kLiteRtStatusOk;
  LiteRtNpuSay("Cobalt", "the asset of op Gain is missing or not a number");
  return kLiteRtStatusErrorInvalidArgument;
}

static LiteRtStatus invocation_context_create(
    const LiteRtRuntimeContext* runtime, LiteRtDispatchDeviceContext device, LiteRtDispatchExecutableType type,
    const LiteRtMemBuffer* byte_code, const char* name, int num_inputs, int num_outputs,
    LiteRtDispatchInvocationContext* context) {
  LITERT_NPU_CHECK(runtime != NULL && device != NULL && name != NULL && context != NULL);
  LITERT_NPU_CHECK(byte_code != NULL && byte_code->base_addr != NULL);
  if (type != kLiteRtDispatchExecutableTypeMlModel) return kLiteRtStatusErrorUnsupported;
  Function function;
  float gain = 0;
  LITERT_NPU_TRY(read_function(byte_code, name, &function));
  LITERT_NPU_CHECK(num_inputs == (int)function.num_inputs && num_inputs >= 1 && num_inputs <= 2 && num_outputs == 1);
  for (int i = 0; i < 2; i++) LITERT_NPU_CHECK(function.operands[i] < function.num_inputs);
  if (function.op == kGain) LITERT_NPU_TRY(read_gain(&device->gain, &gain));
  LiteRtDispatchInvocationContext made = calloc(1, sizeof(*made));
  if (made == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
  LiteRtNpuInitCall(&made->base, &device->base, made->ports, num_inputs, num_outputs, &made->runs, 1);
  for (int i = 0; i < num_inputs + num_outputs; i++) made->ports[i].size = function.num_elements * sizeof(float);
  made->runs.name = "runs";
  made->function = function;
  made->gain = gain;
  *context = made;
  return kLiteRtStatusOk;
}

static LiteRtStatus invocation_context_destroy(LiteRtDispatchInvocationContext context) {
  LITERT_NPU_CHECK(context != NULL);
  free(context);
  return kLiteRtStatusOk;
}

/* YOUR OPS: computes the output of a call. */
static void compute(LiteRtDispatchInvocationContext context) {
  const Function* function = &context->function;
  const float* left = context->ports[function->operands[0]].memory;
  const float* right = context->ports[function->operands[1]].memory;
  float* output = context->ports[function->num_inputs].memory;
  for (uint32_t i = 0; i < function->num_elements; i++) {
    if (function->op == kSub)
      output[i] = left[i] - right[i];
    else
      output[i] = left[i] * (function->op == kGain ? context->gain : right[i]);
  }
}

static LiteRtStatus invoke(LiteRtDispatchInvocationContext context) {
  LITERT_NPU_CHECK(context != NULL);
  LITERT_NPU_TRY(LiteRtNpuBeginRun(&context->base));
  compute(context);
  LITERT_NPU_TRY(LiteRtNpuEndRun(&context->base));
  context->runs.value++;
  return kLiteRtStatusOk;
}

static LiteRtDispatchInterface table = {
    LITERT_NPU_IDENTITY_SLOTS,
    LITERT_NPU_HOST_MEMORY_SLOTS,
    LITERT_NPU_METRICS_SLOTS,
    .device_context_create = device_context_create,
    .device_context_destroy = device_context_destroy,
    .invocation_context_create = invocation_context_create,
    .invocation_context_destroy = invocation_context_destroy,
    .invoke = invoke,
};

LiteRtStatus LiteRtDispatchGetApi(LiteRtDispatchApi* api) { return LiteRtNpuGetBasicApi(api, &table); }
