// Cobalt's dispatch table. Its NPU multiplies and subtracts, in the host's process. The asset of op Gain is a text file
// with one number. The header litert_npu/dispatch.h describes each function, and the headers in litert_npu/support define
// the functions that are not in this file. Functions throw no exceptions, because the host calls them through C.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "byte_code.h"
#include "litert_npu/support/dispatch_identity.h"
#include "litert_npu/support/errors.h"
#include "litert_npu/support/host_memory.h"

// YOUR NPU: the name and the version of its driver.
const LiteRtNpuDispatchIdentity kLiteRtNpuDispatch = {"Cobalt", "1.0"};

struct LiteRtDispatchDeviceContextT {
  LiteRtNpuDevice base{};  // first member, where the support headers expect it
  LiteRtMemBuffer gain{};  // asset of op Gain; its address is NULL if there is no asset

  LiteRtDispatchDeviceContextT() = default;
  LiteRtDispatchDeviceContextT(const LiteRtDispatchDeviceContextT&) = delete;
  LiteRtDispatchDeviceContextT& operator=(const LiteRtDispatchDeviceContextT&) = delete;
  ~LiteRtDispatchDeviceContextT() { LiteRtNpuFreeBufferTable(&base.buffers); }
};

struct LiteRtDispatchInvocationContextT {
  LiteRtNpuCall base{};      // first member, where the support headers expect it
  LiteRtNpuPort ports[3]{};  // one or two inputs, then the output
  LiteRtNpuCounter runs{"runs", 0};
  Function function{};
  float gain = 0;
};

namespace {

// Locks all buffers of a call during its lifetime, in which the ports have memory.
class LockedPorts {
 public:
  explicit LockedPorts(LiteRtNpuCall& call) : call_(call), status_(LiteRtNpuBeginRun(&call)) {}
  LockedPorts(const LockedPorts&) = delete;
  LockedPorts& operator=(const LockedPorts&) = delete;
  ~LockedPorts() { unlock(); }

  // Returns Ok if all buffers are locked.
  LiteRtStatus status() const { return status_; }

  // Unlocks the buffers early, and returns the status, which the destructor cannot return.
  LiteRtStatus unlock() {
    if (is_done_ || status_ != kLiteRtStatusOk) return kLiteRtStatusOk;
    is_done_ = true;
    return LiteRtNpuEndRun(&call_);
  }

 private:
  LiteRtNpuCall& call_;
  LiteRtStatus status_;
  bool is_done_ = false;
};

// Functions for the device and the assets of a model.

LiteRtStatus device_context_create(
    const LiteRtRuntimeContext* runtime, LiteRtOptions, LiteRtDispatchDeviceContext* device) {
  LITERT_NPU_CHECK(runtime != nullptr && device != nullptr);
  std::unique_ptr<LiteRtDispatchDeviceContextT> made(new (std::nothrow) LiteRtDispatchDeviceContextT);
  if (!made) return kLiteRtStatusErrorMemoryAllocationFailure;
  made->base.runtime = runtime;
  *device = made.release();
  return kLiteRtStatusOk;
}

LiteRtStatus device_context_destroy(LiteRtDispatchDeviceContext device) {
  LITERT_NPU_CHECK(device != nullptr);
  delete device;
  return kLiteRtStatusOk;
}

// Functions that load a function of the byte code.

LiteRtStatus read_function(const LiteRtMemBuffer& byte_code, const char* name, Function& function) {
  const char* bytes = static_cast<const char*>(byte_code.base_addr) + byte_code.offset;
  const size_t size = byte_code.size;
  if (size < sizeof(Header) || std::memcmp(bytes, &kHeader, sizeof(Header)) != 0 ||
      (size - sizeof(Header)) % sizeof(Function) != 0) {
    LiteRtNpuSay("Cobalt", "the byte code is damaged, or was not written by Cobalt's compiler");
    return kLiteRtStatusErrorIncompatibleByteCodeVersion;
  }
  for (size_t at = sizeof(Header); at < size; at += sizeof(Function)) {
    std::memcpy(&function, bytes + at, sizeof(Function));  // copied, because it may be unaligned
    if (std::strncmp(function.name, name, sizeof(function.name)) == 0) return kLiteRtStatusOk;
  }
  LiteRtNpuSay("Cobalt", "the byte code has no function '%s'", name);
  return kLiteRtStatusErrorNotFound;
}

LiteRtStatus read_gain(const LiteRtMemBuffer& asset, float& gain) {
  char text[32] = "", *end = text;
  if (asset.base_addr != nullptr && asset.size < sizeof(text)) {
    std::memcpy(text, static_cast<const char*>(asset.base_addr) + asset.offset, asset.size);
    gain = std::strtof(text, &end);
  }
  if (end != text) return kLiteRtStatusOk;
  LiteRtNpuSay("Cobalt", "the asset of op Gain is missing or not a number");
  return kLiteRtStatusErrorInvalidArgument;
}

LiteRtStatus invocation_context_create(
    const LiteRtRuntimeContext* runtime, LiteRtDispatchDeviceContext device, LiteRtDispatchExecutableType type,
    const LiteRtMemBuffer* byte_code, const char* name, int num_inputs, int num_outputs,
    LiteRtDispatchInvocationContext* context) {
  LITERT_NPU_CHECK(runtime != nullptr && device != nullptr && name != nullptr && context != nullptr);
  LITERT_NPU_CHECK(byte_code != nullptr && byte_code->base_addr != nullptr);
  if (type != kLiteRtDispatchExecutableTypeMlModel) return kLiteRtStatusErrorUnsupported;
  std::unique_ptr<LiteRtDispatchInvocationContextT> made(new (std::nothrow) LiteRtDispatchInvocationContextT);
  if (!made) return kLiteRtStatusErrorMemoryAllocationFailure;
  Function& function = made->function;
  LITERT_NPU_TRY(read_function(*byte_code, name, function));
  LITERT_NPU_CHECK(num_inputs == static_cast<int>(function.num_inputs) && num_inputs >= 1 && num_inputs <= 2);
  LITERT_NPU_CHECK(num_outputs == 1);
  for (uint32_t operand : function.operands) LITERT_NPU_CHECK(operand < function.num_inputs);
  if (function.op == kGain) LITERT_NPU_TRY(read_gain(device->gain, made->gain));
  LiteRtNpuInitCall(&made->base, &device->base, made->ports, num_inputs, num_outputs, &made->runs, 1);
  for (int i = 0; i < num_inputs + num_outputs; i++) made->ports[i].size = function.num_elements * sizeof(float);
  *context = made.release();
  return kLiteRtStatusOk;
}

LiteRtStatus invocation_context_destroy(LiteRtDispatchInvocationContext context) {
  LITERT_NPU_CHECK(context != nullptr);
  delete context;
  return kLiteRtStatusOk;
}

// YOUR OPS: computes the output of a call.
void compute(const LiteRtDispatchInvocationContextT& context) {
  const Function& function = context.function;
  const auto* left = static_cast<const float*>(context.ports[function.operands[0]].memory);
  const auto* right = static_cast<const float*>(context.ports[function.operands[1]].memory);
  auto* output = static_cast<float*>(context.ports[function.num_inputs].memory);
  for (uint32_t i = 0; i < function.num_elements; i++) {
    if (function.op == kSub)
      output[i] = left[i] - right[i];
    else
      output[i] = left[i] * (function.op == kGain ? context.gain : right[i]);
  }
}

LiteRtStatus invoke(LiteRtDispatchInvocationContext context) {
  LITERT_NPU_CHECK(context != nullptr);
  LockedPorts locked(context->base);
  LITERT_NPU_TRY(locked.status());
  compute(*context);
  LITERT_NPU_TRY(locked.unlock());
  context->runs.value++;
  return kLiteRtStatusOk;
}

LiteRtDispatchInterface make_table() {
  LiteRtDispatchInterface table{};
  table.initialize = LiteRtNpuInitialize;
  table.check_runtime_compatibility = LiteRtNpuCheckRuntimeCompatibility;
  table.get_vendor_id = LiteRtNpuGetVendorId;
  table.get_build_id = LiteRtNpuGetBuildId;
  table.get_capabilities = LiteRtNpuGetBasicCapabilities;
  table.device_context_create = device_context_create;
  table.device_context_destroy = device_context_destroy;
  table.register_tensor_buffer = LiteRtNpuRegisterTensorBuffer;
  table.unregister_tensor_buffer = LiteRtNpuUnregisterTensorBuffer;
  table.get_input_requirements = LiteRtNpuGetInputRequirements;
  table.get_output_requirements = LiteRtNpuGetOutputRequirements;
  table.invocation_context_create = invocation_context_create;
  table.invocation_context_destroy = invocation_context_destroy;
  table.attach_input = LiteRtNpuAttachInput;
  table.attach_output = LiteRtNpuAttachOutput;
  table.detach_input = LiteRtNpuDetachInput;
  table.detach_output = LiteRtNpuDetachOutput;
  table.invoke = invoke;
  table.start_metrics_collection = LiteRtNpuStartMetricsCollection;
  table.stop_metrics_collection = LiteRtNpuStopMetricsCollection;
  table.get_num_metrics = LiteRtNpuGetNumMetrics;
  table.get_metric = LiteRtNpuGetMetric;
  table.destroy_metrics = LiteRtNpuDestroyMetrics;
  return table;
}

}  // namespace

LiteRtStatus LiteRtDispatchRegisterAsset(
    LiteRtDispatchDeviceContext device, const char* name, const LiteRtMemBuffer* buffer) {
  LITERT_NPU_CHECK(device != nullptr && name != nullptr && buffer != nullptr);
  if (std::strcmp(name, "Gain") == 0) device->gain = *buffer;  // the bytes live as long as the device context
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtDispatchGetApi(LiteRtDispatchApi* api) {
  static LiteRtDispatchInterface table = make_table();
  return LiteRtNpuGetBasicApi(api, &table);
}
