/* Defines the slots of dispatch.h for buffers in host memory and for metrics that are counters, and locks the buffers
 * during a run. This header is optional. It includes buffer_table.h, ports.h and counters.h.
 *
 * The slots need these structs at the beginning of your contexts:
 *
 * struct LiteRtDispatchDeviceContextT {
 *     LiteRtNpuDevice base;
 *     ...
 * }; struct LiteRtDispatchInvocationContextT {
 *     LiteRtNpuCall base;
 *     LiteRtNpuPort ports[3];
 *     ...
 * };
 *
 * You allocate both contexts as zeros, and free them; in C++ they have no base classes and no virtual functions. The
 * rule `[invoke.threads]` says which threads may use the contexts: the host may register and unregister buffers during
 * a run, which only reads the ports. */
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

/* The beginning of a device context. Set `runtime`, and call LiteRtNpuFreeBufferTable(&base.buffers) before you free
 * the context. */
typedef struct LiteRtNpuDevice {
  const LiteRtRuntimeContext* runtime; /* belongs to the host, and lives as long as the process */
  LiteRtNpuBufferTable buffers;
} LiteRtNpuDevice;

/* The beginning of an invocation context. LiteRtNpuInitCall sets its members, none of which you must free. */
typedef struct LiteRtNpuCall {
  LiteRtNpuDevice* device;
  LiteRtNpuPort* ports; /* your array: the inputs, then the outputs */
  int num_inputs;
  int num_outputs;
  LiteRtNpuCounters metrics;
} LiteRtNpuCall;

/* Sets the members of a call that is all zeros. The ports and counters must live as long as the call. Set the sizes of
 * the ports yourself. */
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

/* Locks all buffers: until LiteRtNpuEndRun, each port has the address of its memory. After a failure, no buffer is
 * locked. */
static inline LiteRtStatus LiteRtNpuBeginRun(LiteRtNpuCall* call) {
  return LiteRtNpuLockPorts(call->device->runtime, call->ports, call->num_inputs + call->num_outputs);
}

static inline LiteRtStatus LiteRtNpuEndRun(LiteRtNpuCall* call) {
  return LiteRtNpuUnlockPorts(call->device->runtime, call->ports, call->num_inputs + call->num_outputs);
}

/* Returns the port of an input or output; NULL if the context is NULL, or if there is no such port. */
static inline LiteRtNpuPort* LiteRtNpuFindInput(LiteRtDispatchInvocationContext context, int index) {
  LiteRtNpuCall* call = (LiteRtNpuCall*)context;
  return call != NULL && index >= 0 && index < call->num_inputs ? &call->ports[index] : NULL;
}

static inline LiteRtNpuPort* LiteRtNpuFindOutput(LiteRtDispatchInvocationContext context, int index) {
  LiteRtNpuCall* call = (LiteRtNpuCall*)context;
  return call != NULL && index >= 0 && index < call->num_outputs ? &call->ports[call->num_inputs + index] : NULL;
}

/* The slots for your table. */

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

/* Requires host memory of the port's size, in row order. */
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

/* Put this within the braces of a LiteRtDispatchInterface, in C. In C++, set these slots by assignment: C++17 has no
 * initializers with names, and C++20 requires another order. */
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
