/* Zircon's driver: a call has the elements, and behind them their number. */
#include <stdlib.h>
#include <string.h>

#include "byte_code.h"
#include "litert_npu/support/dispatch_identity.h"
#include "litert_npu/support/errors.h"
#include "litert_npu/support/host_memory.h"

const LiteRtNpuDispatchIdentity kLiteRtNpuDispatch = {.vendor_id = "Zircon", .build_id = "1.0"};

struct LiteRtDispatchDeviceContextT {
  LiteRtNpuDevice base;
};

struct LiteRtDispatchInvocationContextT {
  LiteRtNpuCall base;
  LiteRtNpuPort ports[3]; /* the vector, the elements, and the shape that they have */
  LiteRtNpuCounter runs;
  Function function;
};

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

static LiteRtStatus invocation_context_create(
    const LiteRtRuntimeContext* runtime, LiteRtDispatchDeviceContext device, LiteRtDispatchExecutableType type,
    const LiteRtMemBuffer* byte_code, const char* name, int num_inputs, int num_outputs,
    LiteRtDispatchInvocationContext* context) {
  (void)type;
  LITERT_NPU_CHECK(runtime != NULL && device != NULL && byte_code != NULL && name != NULL && context != NULL);
  LITERT_NPU_CHECK(num_inputs == 1 && num_outputs == 2);
  const char* bytes = (const char*)byte_code->base_addr + byte_code->offset;
  Function function = {.bound = 0};
  for (size_t at = 0; at + sizeof(Function) <= byte_code->size && function.bound == 0; at += sizeof(Function)) {
    memcpy(&function, bytes + at, sizeof(Function));
    if (strncmp(function.name, name, sizeof(function.name)) != 0) function.bound = 0;
  }
  if (function.bound == 0) return kLiteRtStatusErrorNotFound;
  LiteRtDispatchInvocationContext made = calloc(1, sizeof(*made));
  if (made == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
  LiteRtNpuInitCall(&made->base, &device->base, made->ports, 1, 2, &made->runs, 1);
  made->ports[0].size = function.num_elements * sizeof(float);
  made->ports[1].size = function.bound * sizeof(float); /* of the largest output */
  made->ports[2].size = sizeof(int32_t);
  made->runs.name = "runs";
  made->function = function;
  *context = made;
  return kLiteRtStatusOk;
}

static LiteRtStatus invocation_context_destroy(LiteRtDispatchInvocationContext context) {
  LITERT_NPU_CHECK(context != NULL);
  free(context);
  return kLiteRtStatusOk;
}

static LiteRtStatus invoke(LiteRtDispatchInvocationContext context) {
  LITERT_NPU_CHECK(context != NULL);
  LITERT_NPU_TRY(LiteRtNpuBeginRun(&context->base));
  const float* input = context->ports[0].memory;
  float* output = context->ports[1].memory;
  uint32_t number = 0;
  for (uint32_t i = 0; i < context->function.num_elements; i++) {
    if (input[i] <= 0) continue;
    if (number < context->function.bound) output[number] = input[i];
    number++;
  }
  *(int32_t*)context->ports[2].memory = (int32_t)number;
  LITERT_NPU_TRY(LiteRtNpuEndRun(&context->base));
  if (number > context->function.bound) {
    LiteRtNpuSay("Zircon", "%u elements are positive, and there is memory for %u", number, context->function.bound);
    return kLiteRtStatusErrorRuntimeFailure;
  }
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
