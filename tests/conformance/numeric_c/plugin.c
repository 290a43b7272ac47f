/* The compiler; see byte_code.h. A partition is one op. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "byte_code.h"
#include "litert_npu/support/compiled_result.h"
#include "litert_npu/support/errors.h"
#include "litert_npu/support/no_transformations.h"
#include "litert_npu/support/op_info.h"
#include "litert_npu/support/plugin_identity.h"

static const char* const kSocModels[] = {"N1"};
const LiteRtNpuPluginIdentity kLiteRtNpuPlugin = {
    .manufacturer = "NumericC", .sdk_version = "1", .soc_models = kSocModels, .num_soc_models = 1};

struct LiteRtCompilerPluginT {
  const LiteRtCompilerContext* context;
};

LiteRtStatus LiteRtCreateCompilerPlugin(
    const LiteRtCompilerContext* context, LiteRtCompilerPlugin* plugin, LiteRtEnvironmentOptions env,
    LiteRtOptions options) {
  (void)env, (void)options;
  LITERT_NPU_CHECK(context != NULL && plugin != NULL);
  *plugin = calloc(1, sizeof(**plugin));
  if (*plugin == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
  (*plugin)->context = context;
  return kLiteRtStatusOk;
}

void LiteRtDestroyCompilerPlugin(LiteRtCompilerPlugin plugin) { free(plugin); }

/* The scale and the zero point of a tensor that has one of each. */
static LiteRtStatus read_scale(const LiteRtCompilerContext* context, LiteRtTensor tensor, float* scale, int32_t* zero) {
  LiteRtQuantizationTypeId id;
  LiteRtQuantizationPerTensor quantization;
  LITERT_NPU_TRY(context->get_quantization_type_id(tensor, &id));
  if (id != kLiteRtQuantizationPerTensor) return kLiteRtStatusErrorUnsupported;
  LITERT_NPU_TRY(context->get_per_tensor_quantization(tensor, &quantization));
  *scale = quantization.scale;
  *zero = (int32_t)quantization.zero_point;
  return kLiteRtStatusOk;
}

static LiteRtStatus read_scales(const LiteRtCompilerContext* context, LiteRtTensor tensor, Function* function) {
  LiteRtQuantizationTypeId id;
  LiteRtQuantizationPerChannel channels;
  int32_t zero;
  LITERT_NPU_TRY(context->get_quantization_type_id(tensor, &id));
  if (id == kLiteRtQuantizationPerTensor) {
    LITERT_NPU_TRY(read_scale(context, tensor, &function->scales[0], &zero));
    for (int i = 1; i < function->num_out; i++) function->scales[i] = function->scales[0];
    return kLiteRtStatusOk;
  }
  if (id != kLiteRtQuantizationPerChannel) return kLiteRtStatusErrorUnsupported;
  LITERT_NPU_TRY(context->get_per_channel_quantization(tensor, &channels));
  if (channels.num_channels != (uint64_t)function->num_out) return kLiteRtStatusErrorUnsupported;
  for (int i = 0; i < function->num_out; i++) function->scales[i] = channels.scales[FAULT == kPerChannel ? 0 : i];
  return kLiteRtStatusOk;
}

static LiteRtStatus set_limits(Function* function, uint32_t activation) {
  const int32_t zero = function->output_zero;
  function->least = activation == 0 || zero < -128 ? -128 : zero;
  function->most = 127;
  if (activation == 3) function->most = (int32_t)fminf(127, (float)zero + roundf(6 / function->output_scale));
  return activation == 0 || activation == 1 || activation == 3 ? kLiteRtStatusOk : kLiteRtStatusErrorUnsupported;
}

/* Weights, bias and quantization, of axes and channels that are known. */
static LiteRtStatus read_data(
    const LiteRtCompilerContext* context, LiteRtOp op, LiteRtParamIndex num_inputs, Function* function) {
  LiteRtNpuTensorInfo weights, bias;
  LiteRtTensor tensor;
  LITERT_NPU_TRY(LiteRtNpuReadInput(context, op, 1, &weights));
  if (weights.data_size == 0 || weights.data_size > kMaxWeights || function->num_out > kMaxChannels)
    return kLiteRtStatusErrorUnsupported;
  memcpy(function->weights, weights.data, weights.data_size);
  if (num_inputs == 3 && FAULT != kBias) {
    LITERT_NPU_TRY(LiteRtNpuReadInput(context, op, 2, &bias));
    if (bias.data_size != (size_t)function->num_out * sizeof(int32_t)) return kLiteRtStatusErrorUnsupported;
    memcpy(function->bias, bias.data, bias.data_size);
  }
  LITERT_NPU_TRY(context->get_op_input(op, 0, &tensor));
  LITERT_NPU_TRY(read_scale(context, tensor, &function->input_scale, &function->input_zero));
  if (FAULT == kZeroPoint) function->input_zero = 0;
  LITERT_NPU_TRY(context->get_op_output(op, 0, &tensor));
  LITERT_NPU_TRY(read_scale(context, tensor, &function->output_scale, &function->output_zero));
  LITERT_NPU_TRY(context->get_op_input(op, 1, &tensor));
  return read_scales(context, tensor, function);
}

static void set_padding(Axis* axis, uint32_t padding) {
  const int covered = (axis->filter - 1) * axis->dilation + 1;
  const int total = (axis->result - 1) * axis->stride + covered - axis->image;
  if (padding != 0 || total <= 0) return; /* VALID, or nothing to add */
  axis->before = FAULT == kPadding ? total - total / 2 : total / 2;
}

static LiteRtStatus read_conv(
    const LiteRtCompilerContext* context, LiteRtOp op, const LiteRtNpuOpInfo* info, Function* function) {
  LiteRtNpuTensorInfo image, weights, result;
  uint32_t padding, activation;
  Axis *rows = &function->axes[0], *columns = &function->axes[1];
  LITERT_NPU_TRY(LiteRtNpuReadInput(context, op, 0, &image));
  LITERT_NPU_TRY(LiteRtNpuReadInput(context, op, 1, &weights));
  LITERT_NPU_TRY(LiteRtNpuReadOutput(context, op, 0, &result));
  LITERT_NPU_TRY(context->get_conv_2d_padding_option(op, &padding));
  LITERT_NPU_TRY(context->get_conv_2d_stride_h_option(op, &rows->stride));
  LITERT_NPU_TRY(context->get_conv_2d_stride_w_option(op, &columns->stride));
  LITERT_NPU_TRY(context->get_conv_2d_dilation_h_option(op, &rows->dilation));
  LITERT_NPU_TRY(context->get_conv_2d_dilation_w_option(op, &columns->dilation));
  LITERT_NPU_TRY(context->get_conv_2d_fused_activation_option(op, &activation));
  if (image.type.element_type != kLiteRtElementTypeInt8 || image.type.layout.dimensions[0] != 1)
    return kLiteRtStatusErrorUnsupported;
  for (int i = 0; i < 2; i++) {
    function->axes[i].image = image.type.layout.dimensions[i + 1];
    function->axes[i].filter = weights.type.layout.dimensions[i + 1];
    function->axes[i].result = result.type.layout.dimensions[i + 1];
    set_padding(&function->axes[i], padding);
  }
  function->num_in = image.type.layout.dimensions[3];
  function->num_out = weights.type.layout.dimensions[0];
  LITERT_NPU_TRY(read_data(context, op, info->num_inputs, function));
  return set_limits(function, activation);
}

static LiteRtStatus read_fully_connected(
    const LiteRtCompilerContext* context, LiteRtOp op, const LiteRtNpuOpInfo* info, Function* function) {
  LiteRtNpuTensorInfo rows, weights;
  uint32_t activation;
  LITERT_NPU_TRY(LiteRtNpuReadInput(context, op, 0, &rows));
  LITERT_NPU_TRY(LiteRtNpuReadInput(context, op, 1, &weights));
  LITERT_NPU_TRY(context->get_fully_connected_fused_activation_option(op, &activation));
  if (rows.type.element_type != kLiteRtElementTypeInt8) return kLiteRtStatusErrorUnsupported;
  function->num_out = weights.type.layout.dimensions[0];
  function->num_in = weights.type.layout.dimensions[1];
  const int32_t number = (int32_t)rows.num_elements / function->num_in;
  function->axes[0] = (Axis){number, 1, number, 1, 1, 0};
  function->axes[1] = (Axis){1, 1, 1, 1, 1, 0};
  LITERT_NPU_TRY(read_data(context, op, info->num_inputs, function));
  return set_limits(function, activation);
}

static LiteRtStatus read_sub(
    const LiteRtCompilerContext* context, LiteRtOp op, LiteRtSubgraph subgraph, Function* function) {
  LiteRtNpuTensorInfo left, right, output;
  uint32_t activation;
  LITERT_NPU_TRY(LiteRtNpuReadInput(context, op, 0, &left));
  LITERT_NPU_TRY(LiteRtNpuReadInput(context, op, 1, &right));
  LITERT_NPU_TRY(LiteRtNpuReadOutput(context, op, 0, &output));
  LITERT_NPU_TRY(context->get_sub_fused_activation_option(op, &activation));
  bool is_plain = output.type.element_type == kLiteRtElementTypeFloat32 && activation == 0;
  is_plain = is_plain && left.data_size == 0 && right.data_size == 0;
  if (!is_plain || !LiteRtNpuHaveOneShape(&left, &output) || !LiteRtNpuHaveOneShape(&right, &output))
    return kLiteRtStatusErrorUnsupported;
  function->num_elements = output.num_elements;
  for (uint32_t i = 0; subgraph != NULL && i < 2; i++) {
    function->operands[i] = i;
    if (FAULT != kSwapped) LITERT_NPU_TRY(LiteRtNpuFindOperand(context, subgraph, op, i, &function->operands[i]));
  }
  return kLiteRtStatusOk;
}

/* What the driver is to do; Unsupported leaves the op to the CPU. The subgraph is NULL as long as it is the user's. */
static LiteRtStatus read_op(
    LiteRtCompilerPlugin plugin, LiteRtOp op, LiteRtSubgraph subgraph, Function* function) {
  LiteRtNpuOpInfo info;
  LITERT_NPU_TRY(LiteRtNpuReadOp(plugin->context, op, &info));
  *function = (Function){.magic = kMagic, .op = kConv};
  if (info.code == kLiteRtOpCodeTflConv2d) return read_conv(plugin->context, op, &info, function);
  if (info.code == kLiteRtOpCodeTflFullyConnected) return read_fully_connected(plugin->context, op, &info, function);
  if (info.code != kLiteRtOpCodeTflSub) return kLiteRtStatusErrorUnsupported;
  function->op = kSub;
  return read_sub(plugin->context, op, subgraph, function);
}

LiteRtStatus LiteRtCompilerPluginPartition(
    LiteRtCompilerPlugin plugin, const char* soc_model, LiteRtSubgraph subgraph, LiteRtOpList selected_ops) {
  (void)soc_model;
  LITERT_NPU_CHECK(plugin != NULL && subgraph != NULL && selected_ops != NULL);
  LiteRtParamIndex num_ops, num_taken = 0;
  LITERT_NPU_TRY(plugin->context->get_num_subgraph_ops(subgraph, &num_ops));
  for (LiteRtParamIndex i = 0; i < num_ops; i++) {
    LiteRtOp op;
    Function function;
    LITERT_NPU_TRY(plugin->context->get_subgraph_op(subgraph, i, &op));
    if (read_op(plugin, op, NULL, &function) != kLiteRtStatusOk) continue;
    LITERT_NPU_TRY(plugin->context->push_op(selected_ops, op, num_taken++));
  }
  return kLiteRtStatusOk;
}

static LiteRtStatus write_function(
    LiteRtCompilerPlugin plugin, LiteRtModel partitions, LiteRtParamIndex i, Function* function) {
  LiteRtSubgraph subgraph;
  LiteRtParamIndex num_inputs;
  LiteRtOp op;
  LITERT_NPU_TRY(plugin->context->get_model_subgraph(partitions, i, &subgraph));
  LITERT_NPU_TRY(plugin->context->get_num_subgraph_inputs(subgraph, &num_inputs));
  LITERT_NPU_TRY(plugin->context->get_subgraph_op(subgraph, 0, &op));
  LITERT_NPU_TRY(read_op(plugin, op, subgraph, function));
  function->num_inputs = (uint32_t)num_inputs;
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
  LiteRtStatus status = kLiteRtStatusOk;
  for (LiteRtParamIndex i = 0; i < number && status == kLiteRtStatusOk; i++)
    status = write_function(plugin, partitions, i, (Function*)made->byte_code + i);
  if (status == kLiteRtStatusOk)
    *result = made;
  else
    LiteRtDestroyCompiledResult(made);
  return status;
}
