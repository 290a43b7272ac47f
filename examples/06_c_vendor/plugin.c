/* Cobalt's compiler plugin: takes MUL and SUB of two float32 tensors of equal shapes, and the custom op `Gain` if the user
 * gave an asset for it. Each op becomes one NPU call. The header litert_npu/compiler_plugin.h describes each function, and
 * the headers in litert_npu/support define the functions that are not in this file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "byte_code.h"
#include "litert_npu/support/compiled_result.h"
#include "litert_npu/support/custom_op_assets.h"
#include "litert_npu/support/errors.h"
#include "litert_npu/support/no_transformations.h"
#include "litert_npu/support/op_info.h"
#include "litert_npu/support/plugin_identity.h"
#include "litert_npu/support/plugin_options.h"

/* YOUR NPU: its SoC models, of which the first is the default, and the version of your compiler. */
static const char* const kSocModels[] = {"C1"};
const LiteRtNpuPluginIdentity kLiteRtNpuPlugin = {
    .manufacturer = "Cobalt", .sdk_version = "1.0", .soc_models = kSocModels, .num_soc_models = 1};

/* A plugin exists during one run of the host's compiler. */

struct LiteRtCompilerPluginT {
  const LiteRtCompilerContext* context;
  bool has_gain;
  const char** reasons; /* for each op of the last subgraph: why the op stays on the CPU, or NULL */
  LiteRtParamIndex num_reasons;
};

LiteRtStatus LiteRtCreateCompilerPlugin(
    const LiteRtCompilerContext* context, LiteRtCompilerPlugin* plugin, LiteRtEnvironmentOptions env,
    LiteRtOptions options) {
  (void)env;
  LITERT_NPU_CHECK(context != NULL && plugin != NULL);
  const char* unknown = LiteRtNpuFindOptions(context, options, "cobalt"); /* YOUR OPTIONS: refuse unknown options */
  if (unknown != NULL) {
    LiteRtNpuSay("Cobalt", "Cobalt has no options, but the command line has %s", unknown);
    return kLiteRtStatusErrorInvalidToolConfig;
  }
  LiteRtCompilerPlugin made = calloc(1, sizeof(*made));
  if (made == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
  made->context = context;
  made->has_gain = LiteRtNpuFindAsset(context, options, "Gain") != NULL;
  *plugin = made;
  return kLiteRtStatusOk;
}

void LiteRtDestroyCompilerPlugin(LiteRtCompilerPlugin plugin) {
  if (plugin != NULL) free(plugin->reasons);
  free(plugin);
}

/* Functions that select the ops for the NPU. */

/* Whether a tensor is float32 and not constant. */
static bool is_float(const LiteRtNpuTensorInfo* tensor) {
  return tensor->type.element_type == kLiteRtElementTypeFloat32 && tensor->data_size == 0;
}

/* YOUR OPS: fills in the function for an op. If the op stays on the CPU, returns Unsupported and the reason for the
 * report, which is NULL if the NPU does not know the op. */
static LiteRtStatus classify(LiteRtCompilerPlugin plugin, LiteRtOp op, Function* function, const char** reason) {
  const LiteRtCompilerContext* context = plugin->context;
  LiteRtNpuOpInfo info;
  LiteRtNpuTensorInfo output, input;
  uint32_t fused_activation = 0;
  *reason = NULL;
  LITERT_NPU_TRY(LiteRtNpuReadOp(context, op, &info));
  if (info.code == kLiteRtOpCodeTflMul && info.num_inputs == 2) {
    LITERT_NPU_TRY(context->get_mul_fused_activation_option(op, &fused_activation));
    function->op = kMul;
  } else if (info.code == kLiteRtOpCodeTflSub && info.num_inputs == 2) {
    LITERT_NPU_TRY(context->get_sub_fused_activation_option(op, &fused_activation));
    function->op = kSub;
  } else if (strcmp(info.custom_code, "Gain") == 0 && info.num_inputs == 1) {
    *reason = "op Gain has no asset: give a file by --npu_custom_op_info=Gain,FILE";
    if (!plugin->has_gain) return kLiteRtStatusErrorUnsupported;
    function->op = kGain;
  } else {
    return kLiteRtStatusErrorUnsupported;
  }
  *reason = "the op has a fused activation or several outputs";
  if (fused_activation != 0 || info.num_outputs != 1) return kLiteRtStatusErrorUnsupported;
  *reason = "the op's tensors are not float32, are constant, or have different or unknown shapes";
  LITERT_NPU_TRY(LiteRtNpuReadOutput(context, op, 0, &output));
  for (LiteRtParamIndex i = 0; i < info.num_inputs; i++) {
    LITERT_NPU_TRY(LiteRtNpuReadInput(context, op, i, &input));
    if (!is_float(&input) || !LiteRtNpuHaveOneShape(&input, &output)) return kLiteRtStatusErrorUnsupported;
  }
  function->num_elements = output.num_elements;
  return is_float(&output) ? kLiteRtStatusOk : kLiteRtStatusErrorUnsupported;
}

LiteRtStatus LiteRtCompilerPluginPartition(
    LiteRtCompilerPlugin plugin, const char* soc_model, LiteRtSubgraph subgraph, LiteRtOpList selected_ops) {
  (void)soc_model;
  LITERT_NPU_CHECK(plugin != NULL && subgraph != NULL && selected_ops != NULL);
  LiteRtParamIndex num_ops, num_taken = 0;
  LITERT_NPU_TRY(plugin->context->get_num_subgraph_ops(subgraph, &num_ops));
  free(plugin->reasons);
  plugin->reasons = calloc(num_ops + 1, sizeof(*plugin->reasons)); /* never 0 bytes, for which calloc may return NULL */
  plugin->num_reasons = plugin->reasons != NULL ? num_ops : 0;
  if (plugin->reasons == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
  for (LiteRtParamIndex i = 0; i < num_ops; i++) {
    LiteRtOp op;
    Function function;
    const char* reason;
    LITERT_NPU_TRY(plugin->context->get_subgraph_op(subgraph, i, &op));
    LiteRtStatus status = classify(plugin, op, &function, &reason);
    if (status == kLiteRtStatusErrorUnsupported) {
      plugin->reasons[i] = reason;
      continue;
    }
    LITERT_NPU_TRY(status);
    LITERT_NPU_TRY(plugin->context->push_op(selected_ops, op, num_taken++)); /* each op is a partition of its own */
  }
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtCompilerPluginGetRefusal(LiteRtCompilerPlugin plugin, LiteRtParamIndex op_idx, const char** reason) {
  LITERT_NPU_CHECK(plugin != NULL && reason != NULL);
  if (op_idx >= plugin->num_reasons || plugin->reasons[op_idx] == NULL) return kLiteRtStatusErrorNotFound;
  *reason = plugin->reasons[op_idx];
  return kLiteRtStatusOk;
}

/* Functions that compile the selected ops. */

static LiteRtStatus write_function(
    LiteRtCompilerPlugin plugin, LiteRtModel partitions, LiteRtParamIndex i, const char* name, Function* function) {
  LiteRtSubgraph subgraph;
  LiteRtParamIndex num_ops, num_inputs, num_operands;
  LiteRtOp op;
  const char* reason;
  LITERT_NPU_TRY(plugin->context->get_model_subgraph(partitions, i, &subgraph));
  LITERT_NPU_TRY(plugin->context->get_num_subgraph_ops(subgraph, &num_ops));
  LITERT_NPU_TRY(plugin->context->get_num_subgraph_inputs(subgraph, &num_inputs));
  if (num_ops != 1) return kLiteRtStatusErrorUnsupported;
  LITERT_NPU_TRY(plugin->context->get_subgraph_op(subgraph, 0, &op));
  snprintf(function->name, sizeof(function->name), "%s", name);
  LITERT_NPU_TRY(classify(plugin, op, function, &reason));
  function->num_inputs = (uint32_t)num_inputs;
  LITERT_NPU_TRY(plugin->context->get_num_op_inputs(op, &num_operands));
  for (LiteRtParamIndex k = 0; k < num_operands; k++)
    LITERT_NPU_TRY(LiteRtNpuFindOperand(plugin->context, subgraph, op, k, &function->operands[k]));
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtCompilerPluginCompile(
    LiteRtCompilerPlugin plugin, const char* soc_model, LiteRtModel partitions, LiteRtCompiledResult* result) {
  (void)soc_model;
  LITERT_NPU_CHECK(plugin != NULL && partitions != NULL && result != NULL);
  LiteRtParamIndex number;
  LiteRtCompiledResult made;
  LITERT_NPU_TRY(plugin->context->get_num_model_subgraphs(partitions, &number));
  LITERT_NPU_TRY(LiteRtNpuCreateResult(number, sizeof(Header) + number * sizeof(Function), &made));
  memcpy(made->byte_code, &kHeader, sizeof(Header));
  Function* functions = (Function*)(made->byte_code + sizeof(Header));
  LiteRtStatus status = kLiteRtStatusOk;
  for (LiteRtParamIndex i = 0; i < number && status == kLiteRtStatusOk; i++)
    status = write_function(plugin, partitions, i, made->names[i], &functions[i]);
  if (status == kLiteRtStatusOk)
    *result = made;
  else
    LiteRtDestroyCompiledResult(made);
  return status;
}
