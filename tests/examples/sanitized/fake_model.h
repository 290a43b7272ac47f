/* A model of the test's own, and the slots of LiteRtCompilerContext that look at it. */
#ifndef FAKE_MODEL_H_
#define FAKE_MODEL_H_

#include "litert_npu/compiler_plugin.h"

struct LiteRtTensorT {
  LiteRtRankedTensorType type;
};

struct LiteRtOpT {
  LiteRtOpCode code;
  const char* custom_code;
  size_t num_inputs;
  LiteRtTensor inputs[2];
  LiteRtTensor output;
};

struct LiteRtSubgraphT {
  size_t num_ops, num_inputs;
  LiteRtOp ops[4];
  LiteRtTensor inputs[2];
  LiteRtTensor output;
};

struct LiteRtModelT {
  size_t num_subgraphs;
  LiteRtSubgraph subgraphs[4];
};

struct LiteRtOpListT {
  size_t num_ops;
  LiteRtOp ops[4];
};

#define GET(function, Of, of, Result, expression)                                     \
  static LiteRtStatus function(Of of, Result* result) {                               \
    if (of == NULL || result == NULL) return kLiteRtStatusErrorInvalidArgument;       \
    *result = (expression);                                                           \
    return kLiteRtStatusOk;                                                           \
  }
#define GET_AT(function, Of, of, Result, number, expression)                              \
  static LiteRtStatus function(Of of, LiteRtParamIndex i, Result* result) {               \
    if (of == NULL || result == NULL) return kLiteRtStatusErrorInvalidArgument;           \
    if (i >= (number)) return kLiteRtStatusErrorIndexOOB;                                 \
    *result = (expression);                                                               \
    return kLiteRtStatusOk;                                                               \
  }

GET(get_num_model_subgraphs, LiteRtModel, model, LiteRtParamIndex, model->num_subgraphs)
GET_AT(get_model_subgraph, LiteRtModel, model, LiteRtSubgraph, model->num_subgraphs, model->subgraphs[i])
GET(get_num_subgraph_ops, LiteRtSubgraph, subgraph, LiteRtParamIndex, subgraph->num_ops)
GET_AT(get_subgraph_op, LiteRtSubgraph, subgraph, LiteRtOp, subgraph->num_ops, subgraph->ops[i])
GET(get_num_subgraph_inputs, LiteRtSubgraph, subgraph, LiteRtParamIndex, subgraph->num_inputs)
GET_AT(get_subgraph_input, LiteRtSubgraph, subgraph, LiteRtTensor, subgraph->num_inputs, subgraph->inputs[i])
GET(get_num_subgraph_outputs, LiteRtSubgraph, subgraph, LiteRtParamIndex, 1)
GET_AT(get_subgraph_output, LiteRtSubgraph, subgraph, LiteRtTensor, 1, subgraph->output)
GET(get_op_code, LiteRtOp, op, LiteRtOpCode, op->code)
GET(get_custom_code, LiteRtOp, op, const char*, op->custom_code)
GET(get_num_op_inputs, LiteRtOp, op, LiteRtParamIndex, op->num_inputs)
GET_AT(get_op_input, LiteRtOp, op, LiteRtTensor, op->num_inputs, op->inputs[i])
GET(get_num_op_outputs, LiteRtOp, op, LiteRtParamIndex, 1)
GET_AT(get_op_output, LiteRtOp, op, LiteRtTensor, 1, op->output)
GET(get_mul_fused_activation_option, LiteRtOp, op, uint32_t, 0)
GET(get_tensor_type_id, LiteRtTensor, tensor, LiteRtTensorTypeId, kLiteRtRankedTensorType)
GET(get_ranked_tensor_type, LiteRtTensor, tensor, LiteRtRankedTensorType, tensor->type)
GET(get_tensor_name, LiteRtTensor, tensor, const char*, "t")
GET(get_quantization_type_id, LiteRtTensor, tensor, LiteRtQuantizationTypeId, kLiteRtQuantizationNone)
GET(get_tensor_weights, LiteRtTensor, tensor, LiteRtWeights, (LiteRtWeights)tensor)
GET(get_opaque_options, LiteRtOptions, options, LiteRtOpaqueOptions, (LiteRtOpaqueOptions)options)

static LiteRtStatus get_weights_bytes(LiteRtWeights weights, const void** address, size_t* size) {
  if (weights == NULL) return kLiteRtStatusErrorInvalidArgument;
  *address = NULL;
  *size = 0;
  return kLiteRtStatusOk;
}

/* The user has said nothing to the vendor. */
static LiteRtStatus find_opaque_options_data(LiteRtOpaqueOptions opaque, const char* name, void** data) {
  return opaque == NULL || name == NULL || data == NULL ? kLiteRtStatusErrorInvalidArgument
                                                        : kLiteRtStatusErrorNotFound;
}

static LiteRtStatus get_custom_options(LiteRtOp op, const uint8_t** options, int32_t* size) {
  if (op == NULL) return kLiteRtStatusErrorInvalidArgument;
  *options = NULL;
  *size = 0;
  return kLiteRtStatusOk;
}

static LiteRtStatus push_op(LiteRtOpList list, LiteRtOp op, LiteRtParamIndex partition_index) {
  (void)partition_index;
  list->ops[list->num_ops++] = op;
  return kLiteRtStatusOk;
}

static const LiteRtCompilerContext compiler_context = {
    .abi_header = {sizeof(LiteRtCompilerContext), 1, 3, 0},
    .get_num_model_subgraphs = get_num_model_subgraphs,
    .get_model_subgraph = get_model_subgraph,
    .get_num_subgraph_ops = get_num_subgraph_ops,
    .get_subgraph_op = get_subgraph_op,
    .get_num_subgraph_inputs = get_num_subgraph_inputs,
    .get_subgraph_input = get_subgraph_input,
    .get_num_subgraph_outputs = get_num_subgraph_outputs,
    .get_subgraph_output = get_subgraph_output,
    .get_op_code = get_op_code,
    .get_custom_code = get_custom_code,
    .get_num_op_inputs = get_num_op_inputs,
    .get_op_input = get_op_input,
    .get_num_op_outputs = get_num_op_outputs,
    .get_op_output = get_op_output,
    .get_tensor_type_id = get_tensor_type_id,
    .get_ranked_tensor_type = get_ranked_tensor_type,
    .get_tensor_name = get_tensor_name,
    .get_quantization_type_id = get_quantization_type_id,
    .get_custom_options = get_custom_options,
    .get_tensor_weights = get_tensor_weights,
    .get_weights_bytes = get_weights_bytes,
    .push_op = push_op,
    .get_opaque_options = get_opaque_options,
    .find_opaque_options_data = find_opaque_options_data,
    .get_mul_fused_activation_option = get_mul_fused_activation_option,
};

#endif /* FAKE_MODEL_H_ */
