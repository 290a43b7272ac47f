/* Reads what a compiler asks of each op: its code, and the type, shape and constant value of its tensors. Optional.
 *
 * Nothing is allocated; texts and data that the structs point to are the host's, and valid during the call of the
 * plugin that they were read in. A failure of the host's is handed on. */
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
  const char* custom_code; /* of a custom op; "" of others */
  LiteRtParamIndex num_inputs;
  LiteRtParamIndex num_outputs;
} LiteRtNpuOpInfo;

typedef struct LiteRtNpuTensorInfo {
  LiteRtRankedTensorType type; /* each dimension is at least 1 */
  uint32_t num_elements;       /* up to INT32_MAX */
  const void* data;            /* of a constant, in `data_size` bytes */
  size_t data_size;            /* 0 for what is an input or computed */
} LiteRtNpuTensorInfo;

static inline LiteRtStatus LiteRtNpuReadOp(const LiteRtCompilerContext* context, LiteRtOp op, LiteRtNpuOpInfo* info) {
  info->custom_code = "";
  LITERT_NPU_TRY(context->get_op_code(op, &info->code));
  if (info->code == kLiteRtOpCodeTflCustom) LITERT_NPU_TRY(context->get_custom_code(op, &info->custom_code));
  LITERT_NPU_TRY(context->get_num_op_inputs(op, &info->num_inputs));
  return context->get_num_op_outputs(op, &info->num_outputs);
}

/* Unsupported for a tensor without a rank, with a dimension that is 0 or not known, or of too many elements. */
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

/* Finds which input of its subgraph, and so of the call, an op's input is: a call has the subgraph's inputs, in the
 * subgraph's order. NotFound for a constant, and for what another op of the subgraph computes. */
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

/* Whether two tensors have one shape: no broadcasting. */
static inline bool LiteRtNpuHaveOneShape(const LiteRtNpuTensorInfo* tensor, const LiteRtNpuTensorInfo* other) {
  const LiteRtLayout *layout = &tensor->type.layout, *other_layout = &other->type.layout;
  return layout->rank == other_layout->rank &&
         memcmp(layout->dimensions, other_layout->dimensions, layout->rank * sizeof(int32_t)) == 0;
}

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_SUPPORT_OP_INFO_H_ */
