// Cobalt's compiler plugin: takes MUL and SUB of two float32 tensors of equal shapes, and the custom op `Gain` if the user
// gave an asset for it. Each op becomes one NPU call. The header litert_npu/compiler_plugin.h describes each function, and
// the headers in litert_npu/support define the functions that are not in this file. Functions throw no exceptions, because
// the host calls them through C.
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>

#include "byte_code.h"
#include "litert_npu/support/compiled_result.h"
#include "litert_npu/support/custom_op_assets.h"
#include "litert_npu/support/errors.h"
#include "litert_npu/support/no_transformations.h"
#include "litert_npu/support/op_info.h"
#include "litert_npu/support/plugin_identity.h"
#include "litert_npu/support/plugin_options.h"

// YOUR NPU: its SoC models, of which the first is the default, and the version of your compiler.
static const char* const kSocModels[] = {"C1"};
const LiteRtNpuPluginIdentity kLiteRtNpuPlugin = {"Cobalt", "1.0", kSocModels, 1};

// A plugin exists during one run of the host's compiler.
struct LiteRtCompilerPluginT {
  const LiteRtCompilerContext* context;
  bool has_gain;
  std::unique_ptr<const char*[]> reasons;  // for each op of the last subgraph: why the op stays on the CPU, or null
  LiteRtParamIndex num_reasons;
};

namespace {

struct DestroyResult {
  void operator()(LiteRtCompiledResult result) const { LiteRtDestroyCompiledResult(result); }
};
using Result = std::unique_ptr<LiteRtCompiledResultT, DestroyResult>;

// Whether a tensor is float32 and not constant.
bool is_float(const LiteRtNpuTensorInfo& tensor) {
  return tensor.type.element_type == kLiteRtElementTypeFloat32 && tensor.data_size == 0;
}

// YOUR OPS: fills in the function for an op. If the op stays on the CPU, returns Unsupported and the reason for the
// report, which is null if the NPU does not know the op.
LiteRtStatus classify(const LiteRtCompilerPluginT& plugin, LiteRtOp op, Function& function, const char*& reason) {
  const LiteRtCompilerContext* context = plugin.context;
  LiteRtNpuOpInfo info;
  LiteRtNpuTensorInfo output, input;
  uint32_t fused_activation = 0;
  reason = nullptr;
  LITERT_NPU_TRY(LiteRtNpuReadOp(context, op, &info));
  if (info.code == kLiteRtOpCodeTflMul && info.num_inputs == 2) {
    LITERT_NPU_TRY(context->get_mul_fused_activation_option(op, &fused_activation));
    function.op = kMul;
  } else if (info.code == kLiteRtOpCodeTflSub && info.num_inputs == 2) {
    LITERT_NPU_TRY(context->get_sub_fused_activation_option(op, &fused_activation));
    function.op = kSub;
  } else if (std::strcmp(info.custom_code, "Gain") == 0 && info.num_inputs == 1) {
    reason = "op Gain has no asset: give a file by --npu_custom_op_info=Gain,FILE";
    if (!plugin.has_gain) return kLiteRtStatusErrorUnsupported;
    function.op = kGain;
  } else {
    return kLiteRtStatusErrorUnsupported;
  }
  reason = "the op has a fused activation or several outputs";
  if (fused_activation != 0 || info.num_outputs != 1) return kLiteRtStatusErrorUnsupported;
  reason = "the op's tensors are not float32, are constant, or have different or unknown shapes";
  LITERT_NPU_TRY(LiteRtNpuReadOutput(context, op, 0, &output));
  for (LiteRtParamIndex i = 0; i < info.num_inputs; i++) {
    LITERT_NPU_TRY(LiteRtNpuReadInput(context, op, i, &input));
    if (!is_float(input) || !LiteRtNpuHaveOneShape(&input, &output)) return kLiteRtStatusErrorUnsupported;
  }
  function.num_elements = output.num_elements;
  return is_float(output) ? kLiteRtStatusOk : kLiteRtStatusErrorUnsupported;
}

LiteRtStatus write_function(
    const LiteRtCompilerPluginT& plugin, LiteRtModel partitions, LiteRtParamIndex i, const char* name,
    Function& function) {
  LiteRtSubgraph subgraph;
  LiteRtParamIndex num_ops, num_inputs, num_operands;
  LiteRtOp op;
  const char* reason;
  LITERT_NPU_TRY(plugin.context->get_model_subgraph(partitions, i, &subgraph));
  LITERT_NPU_TRY(plugin.context->get_num_subgraph_ops(subgraph, &num_ops));
  LITERT_NPU_TRY(plugin.context->get_num_subgraph_inputs(subgraph, &num_inputs));
  if (num_ops != 1) return kLiteRtStatusErrorUnsupported;
  LITERT_NPU_TRY(plugin.context->get_subgraph_op(subgraph, 0, &op));
  std::snprintf(function.name, sizeof(function.name), "%s", name);
  LITERT_NPU_TRY(classify(plugin, op, function, reason));
  function.num_inputs = static_cast<uint32_t>(num_inputs);
  LITERT_NPU_TRY(plugin.context->get_num_op_inputs(op, &num_operands));
  for (LiteRtParamIndex k = 0; k < num_operands; k++)
    LITERT_NPU_TRY(LiteRtNpuFindOperand(plugin.context, subgraph, op, k, &function.operands[k]));
  return kLiteRtStatusOk;
}

}  // namespace

LiteRtStatus LiteRtCreateCompilerPlugin(
    const LiteRtCompilerContext* context, LiteRtCompilerPlugin* plugin, LiteRtEnvironmentOptions,
    LiteRtOptions options) {
  LITERT_NPU_CHECK(context != nullptr && plugin != nullptr);
  const char* unknown = LiteRtNpuFindOptions(context, options, "cobalt");  // YOUR OPTIONS: refuse unknown options
  if (unknown != nullptr) {
    LiteRtNpuSay("Cobalt", "Cobalt has no options, but the command line has %s", unknown);
    return kLiteRtStatusErrorInvalidToolConfig;
  }
  *plugin = new (std::nothrow)
      LiteRtCompilerPluginT{context, LiteRtNpuFindAsset(context, options, "Gain") != nullptr, nullptr, 0};
  return *plugin != nullptr ? kLiteRtStatusOk : kLiteRtStatusErrorMemoryAllocationFailure;
}

void LiteRtDestroyCompilerPlugin(LiteRtCompilerPlugin plugin) { delete plugin; }

LiteRtStatus LiteRtCompilerPluginPartition(
    LiteRtCompilerPlugin plugin, const char*, LiteRtSubgraph subgraph, LiteRtOpList selected_ops) {
  LITERT_NPU_CHECK(plugin != nullptr && subgraph != nullptr && selected_ops != nullptr);
  LiteRtParamIndex num_ops, num_taken = 0;
  LITERT_NPU_TRY(plugin->context->get_num_subgraph_ops(subgraph, &num_ops));
  plugin->reasons.reset(new (std::nothrow) const char*[num_ops]());
  plugin->num_reasons = plugin->reasons ? num_ops : 0;
  if (!plugin->reasons) return kLiteRtStatusErrorMemoryAllocationFailure;
  for (LiteRtParamIndex i = 0; i < num_ops; i++) {
    LiteRtOp op;
    Function function;
    const char* reason;
    LITERT_NPU_TRY(plugin->context->get_subgraph_op(subgraph, i, &op));
    const LiteRtStatus status = classify(*plugin, op, function, reason);
    if (status == kLiteRtStatusErrorUnsupported) {
      plugin->reasons[i] = reason;
      continue;
    }
    LITERT_NPU_TRY(status);
    LITERT_NPU_TRY(plugin->context->push_op(selected_ops, op, num_taken++));  // each op is a partition of its own
  }
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtCompilerPluginGetRefusal(LiteRtCompilerPlugin plugin, LiteRtParamIndex op_idx, const char** reason) {
  LITERT_NPU_CHECK(plugin != nullptr && reason != nullptr);
  if (op_idx >= plugin->num_reasons || plugin->reasons[op_idx] == nullptr) return kLiteRtStatusErrorNotFound;
  *reason = plugin->reasons[op_idx];
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtCompilerPluginCompile(
    LiteRtCompilerPlugin plugin, const char*, LiteRtModel partitions, LiteRtCompiledResult* result) {
  LITERT_NPU_CHECK(plugin != nullptr && partitions != nullptr && result != nullptr);
  LiteRtParamIndex number;
  LiteRtCompiledResult allocated;
  LITERT_NPU_TRY(plugin->context->get_num_model_subgraphs(partitions, &number));
  LITERT_NPU_TRY(LiteRtNpuCreateResult(number, sizeof(Header) + number * sizeof(Function), &allocated));
  Result made(allocated);  // destroyed by each return but the last
  std::memcpy(made->byte_code, &kHeader, sizeof(Header));
  for (LiteRtParamIndex i = 0; i < number; i++) {
    Function function{};
    LITERT_NPU_TRY(write_function(*plugin, partitions, i, made->names[i], function));
    std::memcpy(made->byte_code + sizeof(Header) + i * sizeof(Function), &function, sizeof(Function));
  }
  *result = made.release();
  return kLiteRtStatusOk;
}
