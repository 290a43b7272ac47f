/* Patterns that a plugin may have, one for each kind of change. `option_rewrites.inc` has further ones: OPTIONS(name),
 * each of which builds an op anew with other options. */
#include "rewrites.h"

#include <stdlib.h>
#include <string.h>

#define NO_MATCH kLiteRtStatusPatternNoMatch
#define TRY(call)                            \
  do {                                       \
    LiteRtStatus status_ = (call);           \
    if (status_) return status_;             \
  } while (0)

enum { ADD = 0, MUL = 18, RELU = 19, RELU6 = 21, MINIMUM = 57, NEG = 59, SUB = 41 };

static bool is(const LiteRtCompilerContext* c, LiteRtOp op, LiteRtOpCode wanted) {
  LiteRtOpCode code = -1;
  return op && !c->get_op_code(op, &code) && code == wanted;
}

static LiteRtTensor input(const LiteRtCompilerContext* c, LiteRtOp op, LiteRtParamIndex index) {
  LiteRtTensor tensor = NULL;
  return c->get_op_input(op, index, &tensor) ? NULL : tensor;
}

static LiteRtTensor output(const LiteRtCompilerContext* c, LiteRtOp op) {
  LiteRtTensor tensor = NULL;
  return c->get_op_output(op, 0, &tensor) ? NULL : tensor;
}

static LiteRtStatus like(const LiteRtCompilerContext* c, LiteRtBuilder b, LiteRtTensor other,
                         LiteRtWeights weights, const char* name, LiteRtTensor* made) {
  LiteRtRankedTensorType type;
  LiteRtUnrankedTensorType unranked = {0};
  LiteRtQuantizationPerTensor one = {0.5f, 7};
  LiteRtQuantizationPerChannel many = {0, 0, NULL, NULL};
  LiteRtQuantizationBlockWise blocks = {NULL, NULL, 0};
  TRY(c->get_ranked_tensor_type(other, &type));
  return c->build_tensor(b, kLiteRtRankedTensorType, type, unranked, weights,
                         kLiteRtQuantizationPerTensor, one, many, blocks, name, made);
}

/* ADD, then RELU, where nobody else reads the sum: one ADD. */
static LiteRtStatus fuse(const LiteRtCompilerContext* c, LiteRtBuilder b, LiteRtOp relu) {
  if (!is(c, relu, RELU)) return NO_MATCH;
  LiteRtTensor sum = input(c, relu, 0);
  LiteRtTensorDefiningOp add = {NULL, 0};
  bool has = false;
  LiteRtParamIndex uses = 0;
  TRY(c->get_num_tensor_uses(sum, &uses));
  TRY(c->get_tensor_defining_op(sum, &has, &add));
  if (!has || uses != 1 || !is(c, add.op, ADD)) return NO_MATCH;
  LiteRtTensor inputs[2] = {input(c, add.op, 0), input(c, add.op, 1)}, result = output(c, relu);
  LiteRtOp made;
  uint32_t activation = 1;
  TRY(c->build_op(b, ADD, 2, inputs, 1, &result, &made));
  TRY(c->build_add_op_option(b, made, &activation));
  TRY(c->erase_op(b, add.op));
  return c->erase_op(b, relu);
}

/* RELU6 becomes RELU, and MINIMUM with a constant; what is between has no name. */
static LiteRtStatus split(const LiteRtCompilerContext* c, LiteRtBuilder b, LiteRtOp op) {
  static const float six = 6;
  if (!is(c, op, RELU6)) return NO_MATCH;
  LiteRtTensor x = input(c, op, 0), y = output(c, op), between, limit;
  LiteRtRankedTensorType scalar;
  memset(&scalar, 0, sizeof scalar);
  scalar.element_type = kLiteRtElementTypeFloat32;
  LiteRtUnrankedTensorType unranked = {0};
  LiteRtQuantizationPerTensor one = {0, 0};
  LiteRtQuantizationPerChannel many = {0, 0, NULL, NULL};
  LiteRtQuantizationBlockWise blocks = {NULL, NULL, 0};
  LiteRtWeights weights;
  LiteRtOp made;
  TRY(like(c, b, y, NULL, NULL, &between));
  TRY(c->build_tensor(b, kLiteRtRankedTensorType, scalar, unranked, NULL, kLiteRtQuantizationNone,
                      one, many, blocks, "six", &limit));
  TRY(c->build_weights(b, (const uint8_t*)&six, sizeof six, limit, &weights));
  TRY(c->build_op(b, RELU, 1, &x, 1, &between, &made));
  LiteRtTensor inputs[2] = {between, limit};
  TRY(c->build_op(b, MINIMUM, 2, inputs, 1, &y, &made));
  return c->erase_op(b, op);
}

/* A constant of MUL is shared with a new tensor of other quantization: MUL becomes SUB. */
static LiteRtStatus share(const LiteRtCompilerContext* c, LiteRtBuilder b, LiteRtOp op) {
  if (!is(c, op, MUL)) return NO_MATCH;
  LiteRtWeights weights;
  const void* data = NULL;
  size_t size = 0;
  LiteRtTensor factor = input(c, op, 1), result = output(c, op), made;
  TRY(c->get_tensor_weights(factor, &weights));
  TRY(c->get_weights_bytes(weights, &data, &size));
  if (!size) return NO_MATCH;
  TRY(like(c, b, factor, weights, "shared", &made));
  LiteRtTensor inputs[2] = {input(c, op, 0), made};
  LiteRtOp sub;
  uint32_t activation = 3;
  TRY(c->build_op(b, SUB, 2, inputs, 1, &result, &sub));
  TRY(c->build_sub_op_option(b, sub, &activation));
  return c->erase_op(b, op);
}

/* NEG(NEG(x)) is x: its readers read x, built anew, since no function gives them another input. */
static LiteRtStatus cancel(const LiteRtCompilerContext* c, LiteRtBuilder b, LiteRtOp relu) {
  if (!is(c, relu, RELU)) return NO_MATCH;
  LiteRtTensorDefiningOp second = {NULL, 0}, first = {NULL, 0};
  bool has = false;
  TRY(c->get_tensor_defining_op(input(c, relu, 0), &has, &second));
  if (!has || !is(c, second.op, NEG)) return NO_MATCH;
  TRY(c->get_tensor_defining_op(input(c, second.op, 0), &has, &first));
  if (!has || !is(c, first.op, NEG)) return NO_MATCH;
  LiteRtTensor x = input(c, first.op, 0), y = output(c, relu);
  LiteRtOp made;
  TRY(c->build_op(b, RELU, 1, &x, 1, &y, &made));
  TRY(c->erase_op(b, relu));
  TRY(c->erase_op(b, second.op));
  return c->erase_op(b, first.op);
}

/* RESHAPE, SQUEEZE and a composite are built from ops without options, or NEG. */
static LiteRtStatus lists(const LiteRtCompilerContext* c, LiteRtBuilder b, LiteRtOp op) {
  static const int32_t values[] = {1, 0};
  static const uint8_t attributes[] = {1, 2, 255};
  const int32_t* now = NULL;
  int32_t count = 0, subgraph = 1, version = 3;
  LiteRtTensor x = input(c, op, 0), y = output(c, op);
  LiteRtOp made;
  if (is(c, op, 22)) {
    if (c->get_reshape_new_shape_option(op, &now, &count) || count) return NO_MATCH;
    TRY(c->build_op(b, 22, 1, &x, 1, &y, &made));
    TRY(c->build_reshape_op_option(b, made, (int32_t*)values, 2));
  } else if (is(c, op, 43)) {
    if (c->get_squeeze_dims_option(op, &now, &count) || count) return NO_MATCH;
    TRY(c->build_op(b, 43, 1, &x, 1, &y, &made));
    TRY(c->build_squeeze_op_option(b, made, values, 1));
  } else if (is(c, op, NEG)) {
    TRY(c->build_op(b, 206, 1, &x, 1, &y, &made));
    TRY(c->build_shlo_composite_op_option(b, made, "acme.neg", &subgraph, &version, attributes, 3));
  } else {
    return NO_MATCH;
  }
  return c->erase_op(b, op);
}

/* Matches what it has made, for ever. */
static LiteRtStatus endless(const LiteRtCompilerContext* c, LiteRtBuilder b, LiteRtOp op) {
  if (!is(c, op, NEG)) return NO_MATCH;
  LiteRtTensor x = input(c, op, 0), y = output(c, op);
  LiteRtOp made;
  TRY(c->build_op(b, NEG, 1, &x, 1, &y, &made));
  return c->erase_op(b, op);
}

/* Builds, and says that it is no match. */
static LiteRtStatus withdraw(const LiteRtCompilerContext* c, LiteRtBuilder b, LiteRtOp op) {
  LiteRtTensor x = input(c, op, 0), y = output(c, op), made;
  LiteRtOp neg;
  if (is(c, op, NEG)) return NO_MATCH;
  TRY(like(c, b, y, NULL, "withdrawn", &made));
  TRY(c->build_op(b, NEG, 1, &x, 1, &made, &neg));
  return NO_MATCH;
}

/* Leaves the tensors that the op wrote to nobody. */
static LiteRtStatus orphan(const LiteRtCompilerContext* c, LiteRtBuilder b, LiteRtOp op) {
  return is(c, op, NEG) ? c->erase_op(b, op) : NO_MATCH;
}

/* What stock refuses with InvalidArgument; a match if all of it is refused. */
static LiteRtStatus misuse(const LiteRtCompilerContext* c, LiteRtBuilder b, LiteRtOp op) {
  const LiteRtStatus bad = kLiteRtStatusErrorInvalidArgument;
  LiteRtTensor x = input(c, op, 0), y = output(c, op), none = NULL;
  LiteRtOp made;
  uint32_t activation = 0;
  int32_t number = -1;
  if (!is(c, op, NEG)) return NO_MATCH;
  if (c->build_op(b, NEG, 1, &none, 1, &y, &made) != bad) return NO_MATCH;
  if (c->build_op(b, NEG, 1, NULL, 1, &y, &made) != bad) return NO_MATCH;
  if (c->build_add_op_option(b, op, &activation) != bad) return NO_MATCH;
  TRY(c->build_op(b, RELU, 1, &x, 1, &y, &made));
  if (c->build_add_op_option(b, made, &activation) != bad) return NO_MATCH;
  if (c->build_squeeze_op_option(b, made, &number, 1) != bad) return NO_MATCH;
  if (c->erase_op(b, NULL) != bad) return NO_MATCH;
  return c->erase_op(b, op);
}

#include "option_rewrites.inc"

static const LiteRtTransformation known[] = {
    {fuse, "fuse", 0},       {split, "split", 0},     {share, "share", 0},
    {cancel, "cancel", 0},   {endless, "endless", 0}, {withdraw, "withdraw", 0},
    {orphan, "orphan", 0},   {misuse, "misuse", 0},   {lists, "lists", 0},
#define OPTIONS(name) {name, #name, 0},
#include "option_rewrites_list.inc"
};

LiteRtParamIndex choose_rewrites(const char* names, LiteRtTransformation** transformations) {
  static LiteRtTransformation chosen[64];
  LiteRtParamIndex count = 0;
  char* copy = strdup(names ? names : "");
  /* The last that is named has the highest benefit. */
  for (char* name = strtok(copy, ","); name; name = strtok(NULL, ","))
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
      if (!strcmp(name, known[i].name)) {
        chosen[count] = known[i];
        chosen[count].benefit = count;
        count++;
      }
  free(copy);
  *transformations = count ? chosen : NULL;
  return count;
}
