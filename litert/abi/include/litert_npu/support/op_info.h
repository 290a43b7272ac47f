/* Reads the code of an op, and the type, shape and constant value of its tensors. This header is optional.
 *
 * The functions allocate nothing. The texts and data that the structs point to belong to the host, and are valid during
 * the call of the plugin that read them. If the host fails, the functions return its status. */
#ifndef LITERT_NPU_SUPPORT_OP_INFO_H_
#define LITERT_NPU_SUPPORT_OP_INFO_H_

#include <string.h>

#include "litert_npu/compiler_context.h"
#include "litert_npu/support/errors.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct LiteRtNpuOpInfo {
  LiteRtOpCode code;
  const char* custom_code; /* "" if the op is not a custom op */
  LiteRtParamIndex num_inputs;
  LiteRtParamIndex num_outputs;
} LiteRtNpuOpInfo;

typedef struct LiteRtNpuTensorInfo {
  LiteRtRankedTensorType type; /* each dimension is at least 1 */
  uint32_t num_elements;       /* up to INT32_MAX */
  const void* data;            /* the data of a constant, `data_size` bytes */
  size_t data_size;            /* 0 if the tensor is not constant */
} LiteRtNpuTensorInfo;

static inline LiteRtStatus LiteRtNpuReadOp(const LiteRtCompilerContext* context, LiteRtOp op, LiteRtNpuOpInfo* info) {
  info->custom_code = "";
  LITERT_NPU_TRY(context->get_op_code(op, &info->code));
  if (info->code == kLiteRtOpCodeTflCustom) LITERT_NPU_TRY(context->get_custom_code(op, &info->custom_code));
  LITERT_NPU_TRY(context->get_num_op_inputs(op, &info->num_inputs));
  return context->get_num_op_outputs(op, &info->num_outputs);
}

/* Returns Unsupported for a tensor without a rank, with a dimension that is 0 or unknown, or with too many elements. */
static inline LiteRtStatus LiteRtNpuReadTensor(
    const LiteRtCompilerContext* context, LiteRtTensor tensor, LiteRtNpuTensorInfo* info) {
  LiteRtTensorTypeId id;
  LiteRtWeights weights;
  uint64_t number = 1;
  LITERT_NPU_TRY(context->get_tensor_type_id(tensor, &id));
  if (id != kLiteRtRankedTensorType) return kLiteRtStatusErrorUnsupported;
  LITERT_NPU_TRY(context->get_ranked_tensor_type(tensor, &info->type));
  LITERT_NPU_TRY(context->get_tensor_weights(tensor, &weights));
  LITERT_NPU_TRY(context->get_weights_bytes(weights, &info->data, &info->data_size));
  if (info->type.layout.rank > 8) return kLiteRtStatusErrorUnsupported;
  for (uint32_t i = 0; i < info->type.layout.rank; i++) {
    if (info->type.layout.dimensions[i] < 1) return kLiteRtStatusErrorUnsupported;
    number *= (uint64_t)info->type.layout.dimensions[i];
    if (number > INT32_MAX) return kLiteRtStatusErrorUnsupported;
  }
  info->num_elements = (uint32_t)number;
  return kLiteRtStatusOk;
}

static inline LiteRtStatus LiteRtNpuReadInput(
    const LiteRtCompilerContext* context, LiteRtOp op, LiteRtParamIndex index, LiteRtNpuTensorInfo* info) {
  LiteRtTensor tensor;
  LITERT_NPU_TRY(context->get_op_input(op, index, &tensor));
  return LiteRtNpuReadTensor(context, tensor, info);
}

static inline LiteRtStatus LiteRtNpuReadOutput(
    const LiteRtCompilerContext* context, LiteRtOp op, LiteRtParamIndex index, LiteRtNpuTensorInfo* info) {
  LiteRtTensor tensor;
  LITERT_NPU_TRY(context->get_op_output(op, index, &tensor));
  return LiteRtNpuReadTensor(context, tensor, info);
}

/* Finds the index of the call's input that an op's input reads: a call has the inputs of its subgraph, in the
 * subgraph's order. Returns NotFound for a constant, and for a tensor that another op of the subgraph computes. */
static inline LiteRtStatus LiteRtNpuFindOperand(
    const LiteRtCompilerContext* context, LiteRtSubgraph subgraph, LiteRtOp op, LiteRtParamIndex index,
    uint32_t* position) {
  LiteRtParamIndex num_inputs;
  LiteRtTensor operand, input;
  LITERT_NPU_TRY(context->get_op_input(op, index, &operand));
  LITERT_NPU_TRY(context->get_num_subgraph_inputs(subgraph, &num_inputs));
  for (LiteRtParamIndex i = 0; i < num_inputs; i++) {
    LITERT_NPU_TRY(context->get_subgraph_input(subgraph, i, &input));
    if (input != operand) continue;
    *position = (uint32_t)i;
    return kLiteRtStatusOk;
  }
  return kLiteRtStatusErrorNotFound;
}

/* Returns whether two tensors have the same shape, without broadcasting. */
static inline bool LiteRtNpuHaveOneShape(const LiteRtNpuTensorInfo* tensor, const LiteRtNpuTensorInfo* other) {
  const LiteRtLayout *layout = &tensor->type.layout, *other_layout = &other->type.layout;
  return layout->rank == other_layout->rank &&
         memcmp(layout->dimensions, other_layout->dimensions, layout->rank * sizeof(int32_t)) == 0;
}

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_SUPPORT_OP_INFO_H_ */
