/* The slots of dispatch.h for buffers, where the NPU reads and writes host memory, and for metrics that are counters;
 * and the locks around a run. Optional. It stands on buffer_table.h, ports.h and counters.h.
 *
 * The slots find what they need at the beginning of your contexts:
 *
 *   struct LiteRtDispatchDeviceContextT {
 *     LiteRtNpuDevice base;
 *     ...
 *   };
 *   struct LiteRtDispatchInvocationContextT {
 *     LiteRtNpuCall base;
 *     LiteRtNpuPort ports[3];
 *     ...
 *   };
 *
 * Both are yours to allocate, as zeros, and to free; in C++ without bases and virtual functions. The thread rules are
 * those of the contexts, `[invoke.threads]`: a run reads the ports alone, while buffers come to the device and go. */
#ifndef LITERT_NPU_SUPPORT_HOST_MEMORY_H_
#define LITERT_NPU_SUPPORT_HOST_MEMORY_H_

#include "litert_npu/dispatch.h"
#include "litert_npu/support/buffer_table.h"
#include "litert_npu/support/counters.h"
#include "litert_npu/support/errors.h"
#include "litert_npu/support/ports.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a device context begins with. Set `runtime`; LiteRtNpuFreeBufferTable(&base.buffers) before you free it. */
typedef struct LiteRtNpuDevice {
  const LiteRtRuntimeContext* runtime; /* the host's, as long as the process */
  LiteRtNpuBufferTable buffers;
} LiteRtNpuDevice;

/* What an invocation context begins with. Set it by LiteRtNpuInitCall; nothing of it is to be freed. */
typedef struct LiteRtNpuCall {
  LiteRtNpuDevice* device;
  LiteRtNpuPort* ports; /* yours: the inputs, then the outputs */
  int num_inputs;
  int num_outputs;
  LiteRtNpuCounters metrics;
} LiteRtNpuCall;

/* Sets a call that is all zeros. Ports and counters live as long as it; the ports' sizes are for you to set. */
static inline void LiteRtNpuInitCall(
    LiteRtNpuCall* call, LiteRtNpuDevice* device, LiteRtNpuPort* ports, int num_inputs, int num_outputs,
    LiteRtNpuCounter* counters, int num_counters) {
  call->device = device;
  call->ports = ports;
  call->num_inputs = num_inputs;
  call->num_outputs = num_outputs;
  call->metrics.counters = counters;
  call->metrics.number = num_counters;
  for (int i = 0; i < num_inputs + num_outputs; i++)
    ports[i].mode = i < num_inputs ? kLiteRtTensorBufferLockModeRead : kLiteRtTensorBufferLockModeWrite;
}

/* Locks all buffers: between this and LiteRtNpuEndRun each port has its memory. A failure leaves nothing locked. */
static inline LiteRtStatus LiteRtNpuBeginRun(LiteRtNpuCall* call) {
  return LiteRtNpuLockPorts(call->device->runtime, call->ports, call->num_inputs + call->num_outputs);
}

static inline LiteRtStatus LiteRtNpuEndRun(LiteRtNpuCall* call) {
  return LiteRtNpuUnlockPorts(call->device->runtime, call->ports, call->num_inputs + call->num_outputs);
}

/* The port of an input or an output; NULL if there is none, or no context. */
static inline LiteRtNpuPort* LiteRtNpuFindInput(LiteRtDispatchInvocationContext context, int index) {
  LiteRtNpuCall* call = (LiteRtNpuCall*)context;
  return call != NULL && index >= 0 && index < call->num_inputs ? &call->ports[index] : NULL;
}

static inline LiteRtNpuPort* LiteRtNpuFindOutput(LiteRtDispatchInvocationContext context, int index) {
  LiteRtNpuCall* call = (LiteRtNpuCall*)context;
  return call != NULL && index >= 0 && index < call->num_outputs ? &call->ports[call->num_inputs + index] : NULL;
}

/* The slots. */

static inline LiteRtStatus LiteRtNpuRegisterTensorBuffer(
    LiteRtDispatchDeviceContext device, LiteRtTensorBuffer buffer, LiteRtTensorBufferHandle* handle) {
  LITERT_NPU_CHECK(device != NULL && handle != NULL);
  return LiteRtNpuAddBuffer(&((LiteRtNpuDevice*)device)->buffers, buffer, handle);
}

static inline LiteRtStatus LiteRtNpuUnregisterTensorBuffer(
    LiteRtDispatchDeviceContext device, LiteRtTensorBufferHandle handle) {
  LITERT_NPU_CHECK(device != NULL);
  return LiteRtNpuRemoveBuffer(&((LiteRtNpuDevice*)device)->buffers, handle);
}

/* Host memory of the port's size, its rows in order. */
static inline LiteRtStatus LiteRtNpuRequire(
    LiteRtDispatchInvocationContext context, const LiteRtNpuPort* port, const LiteRtRankedTensorType* type,
    LiteRtTensorBufferRequirements* requirements) {
  static const LiteRtTensorBufferType kType = kLiteRtTensorBufferTypeHostMemory;
  LITERT_NPU_CHECK(port != NULL && type != NULL && requirements != NULL);
  const LiteRtRuntimeContext* runtime = ((LiteRtNpuCall*)context)->device->runtime;
  return runtime->create_tensor_buffer_requirements(1, &kType, port->size, 0, NULL, requirements);
}

static inline LiteRtStatus LiteRtNpuGetInputRequirements(
    LiteRtDispatchInvocationContext context, int index, const LiteRtRankedTensorType* type,
    LiteRtTensorBufferRequirements* requirements) {
  return LiteRtNpuRequire(context, LiteRtNpuFindInput(context, index), type, requirements);
}

static inline LiteRtStatus LiteRtNpuGetOutputRequirements(
    LiteRtDispatchInvocationContext context, int index, const LiteRtRankedTensorType* type,
    LiteRtTensorBufferRequirements* requirements) {
  return LiteRtNpuRequire(context, LiteRtNpuFindOutput(context, index), type, requirements);
}

static inline LiteRtStatus LiteRtNpuAttachPort(
    LiteRtDispatchInvocationContext context, LiteRtNpuPort* port, LiteRtTensorBufferHandle handle) {
  LITERT_NPU_CHECK(port != NULL);
  const LiteRtNpuDevice* device = ((LiteRtNpuCall*)context)->device;
  return LiteRtNpuAttach(port, device->runtime, &device->buffers, handle);
}

static inline LiteRtStatus LiteRtNpuAttachInput(
    LiteRtDispatchInvocationContext context, int index, LiteRtTensorBufferHandle handle) {
  return LiteRtNpuAttachPort(context, LiteRtNpuFindInput(context, index), handle);
}

static inline LiteRtStatus LiteRtNpuAttachOutput(
    LiteRtDispatchInvocationContext context, int index, LiteRtTensorBufferHandle handle) {
  return LiteRtNpuAttachPort(context, LiteRtNpuFindOutput(context, index), handle);
}

static inline LiteRtStatus LiteRtNpuDetachInput(
    LiteRtDispatchInvocationContext context, int index, LiteRtTensorBufferHandle handle) {
  LiteRtNpuPort* port = LiteRtNpuFindInput(context, index);
  LITERT_NPU_CHECK(port != NULL);
  LiteRtNpuDetach(port, handle);
  return kLiteRtStatusOk;
}

static inline LiteRtStatus LiteRtNpuDetachOutput(
    LiteRtDispatchInvocationContext context, int index, LiteRtTensorBufferHandle handle) {
  LiteRtNpuPort* port = LiteRtNpuFindOutput(context, index);
  LITERT_NPU_CHECK(port != NULL);
  LiteRtNpuDetach(port, handle);
  return kLiteRtStatusOk;
}

static inline LiteRtStatus LiteRtNpuStartMetricsCollection(LiteRtDispatchInvocationContext context, int detail_level) {
  (void)detail_level;
  LITERT_NPU_CHECK(context != NULL);
  LiteRtNpuStartCounters(&((LiteRtNpuCall*)context)->metrics);
  return kLiteRtStatusOk;
}

static inline LiteRtStatus LiteRtNpuStopMetricsCollection(
    LiteRtDispatchInvocationContext context, LiteRtDispatchMetrics* metrics) {
  LITERT_NPU_CHECK(context != NULL && metrics != NULL);
  return LiteRtNpuStopCounters(&((LiteRtNpuCall*)context)->metrics, metrics);
}

/* Within the braces of a LiteRtDispatchInterface, in C. In C++ set these slots by assignment: C++17
 * has no names there, C++20 wants them in another order. */
#define LITERT_NPU_HOST_MEMORY_SLOTS                            \
  .register_tensor_buffer = LiteRtNpuRegisterTensorBuffer,      \
  .unregister_tensor_buffer = LiteRtNpuUnregisterTensorBuffer,  \
  .get_input_requirements = LiteRtNpuGetInputRequirements,      \
  .get_output_requirements = LiteRtNpuGetOutputRequirements,    \
  .attach_input = LiteRtNpuAttachInput,                         \
  .attach_output = LiteRtNpuAttachOutput,                       \
  .detach_input = LiteRtNpuDetachInput,                         \
  .detach_output = LiteRtNpuDetachOutput

#define LITERT_NPU_METRICS_SLOTS                              \
  .start_metrics_collection = LiteRtNpuStartMetricsCollection, \
  .stop_metrics_collection = LiteRtNpuStopMetricsCollection,  \
  .get_num_metrics = LiteRtNpuGetNumMetrics,                  \
  .get_metric = LiteRtNpuGetMetric,                           \
  .destroy_metrics = LiteRtNpuDestroyMetrics

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_SUPPORT_HOST_MEMORY_H_ */
