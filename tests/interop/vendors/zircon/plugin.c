/* Zircon takes the custom op `Positive`, the elements of a vector that are greater than 0, where the user gives its output
 * a bound. */
#include <stdlib.h>
#include <string.h>

#include "byte_code.h"
#include "litert_npu/support/compiled_result.h"
#include "litert_npu/support/errors.h"
#include "litert_npu/support/no_transformations.h"
#include "litert_npu/support/op_info.h"
#include "litert_npu/support/plugin_identity.h"
#include "litert_npu/support/plugin_options.h"
#include "litert_npu/support/shape_bounds.h"

static const char* const kSocModels[] = {"Z1"};
const LiteRtNpuPluginIdentity kLiteRtNpuPlugin = {
    .manufacturer = "Zircon", .sdk_version = "1.0", .soc_models = kSocModels, .num_soc_models = 1};

struct LiteRtCompilerPluginT {
  const LiteRtCompilerContext* context;
  char* host_options;
};

LiteRtStatus LiteRtCreateCompilerPlugin(
    const LiteRtCompilerContext* context, LiteRtCompilerPlugin* plugin, LiteRtEnvironmentOptions env,
    LiteRtOptions options) {
  (void)env;
  LITERT_NPU_CHECK(context != NULL && plugin != NULL);
  const char* text = LiteRtNpuFindOptions(context, options, LITERT_NPU_HOST_OPTIONS);
  LiteRtCompilerPlugin made = calloc(1, sizeof(*made) + (text ? strlen(text) + 1 : 0));
  if (made == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
  made->context = context;
  if (text != NULL) made->host_options = strcpy((char*)(made + 1), text);
  *plugin = made;
  return kLiteRtStatusOk;
}

void LiteRtDestroyCompilerPlugin(LiteRtCompilerPlugin plugin) { free(plugin); }

static LiteRtStatus classify(LiteRtCompilerPlugin plugin, LiteRtOp op, Function* function) {
  const LiteRtCompilerContext* context = plugin->context;
  LiteRtNpuOpInfo info;
  LiteRtNpuTensorInfo input;
  LiteRtTensor output;
  LiteRtRankedTensorType type;
  const char* name;
  int32_t largest[8];
  LITERT_NPU_TRY(LiteRtNpuReadOp(context, op, &info));
  if (strcmp(info.custom_code, "Positive") != 0 || info.num_inputs != 1) return kLiteRtStatusErrorUnsupported;
  LITERT_NPU_TRY(LiteRtNpuReadInput(context, op, 0, &input));
  LITERT_NPU_TRY(context->get_op_output(op, 0, &output));
  LITERT_NPU_TRY(context->get_ranked_tensor_type(output, &type));
  LITERT_NPU_TRY(context->get_tensor_name(output, &name));
  if (type.layout.rank != 1 || type.layout.dimensions[0] >= 0) return kLiteRtStatusErrorUnsupported;
  if (!LiteRtNpuFindShapeBound(plugin->host_options, name, &type.layout, largest)) return kLiteRtStatusErrorUnsupported;
  function->num_elements = input.num_elements;
  function->bound = (uint32_t)largest[0];
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtCompilerPluginPartition(
    LiteRtCompilerPlugin plugin, const char* soc_model, LiteRtSubgraph subgraph, LiteRtOpList selected_ops) {
  (void)soc_model;
  LITERT_NPU_CHECK(plugin != NULL && subgraph != NULL && selected_ops != NULL);
  LiteRtParamIndex num_ops;
  LITERT_NPU_TRY(plugin->context->get_num_subgraph_ops(subgraph, &num_ops));
  for (LiteRtParamIndex i = 0; i < num_ops; i++) {
    LiteRtOp op;
    Function function;
    LITERT_NPU_TRY(plugin->context->get_subgraph_op(subgraph, i, &op));
    LiteRtStatus status = classify(plugin, op, &function);
    if (status == kLiteRtStatusErrorUnsupported) continue;
    LITERT_NPU_TRY(status);
    LITERT_NPU_TRY(plugin->context->push_op(selected_ops, op, i));
  }
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtCompilerPluginCompile(
    LiteRtCompilerPlugin plugin, const char* soc_model, LiteRtModel partitions, LiteRtCompiledResult* result) {
  (void)soc_model;
  LITERT_NPU_CHECK(plugin != NULL && partitions != NULL && result != NULL);
  LiteRtParamIndex number;
  LiteRtCompiledResult made;
  LITERT_NPU_TRY(plugin->context->get_num_model_subgraphs(partitions, &number));
  LITERT_NPU_TRY(LiteRtNpuCreateResult(number, number * sizeof(Function), &made));
  Function* functions = (Function*)made->byte_code;
  LiteRtStatus status = kLiteRtStatusOk;
  for (LiteRtParamIndex i = 0; i < number && status == kLiteRtStatusOk; i++) {
    LiteRtSubgraph subgraph;
    LiteRtOp op;
    memcpy(functions[i].name, made->names[i], sizeof(functions[i].name));
    made->dynamic_outputs[i] = 1; /* output 0 */
    status = plugin->context->get_model_subgraph(partitions, i, &subgraph);
    if (status == kLiteRtStatusOk) status = plugin->context->get_subgraph_op(subgraph, 0, &op);
    if (status == kLiteRtStatusOk) status = classify(plugin, op, &functions[i]);
  }
  if (status == kLiteRtStatusOk)
    *result = made;
  else
    LiteRtDestroyCompiledResult(made);
  return status;
}
