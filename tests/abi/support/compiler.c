/* Uses what litert_npu/support has for compiler plugins, as a vendor does, and at its edges. With HAS_ASSETS the host
 * has the functions that tell of a user's assets. */
#include "expect.h"

#include "litert_npu/support/compiled_result.h"
#include "litert_npu/support/custom_op_assets.h"
#include "litert_npu/support/no_transformations.h"
#include "litert_npu/support/op_info.h"
#include "litert_npu/support/plugin_identity.h"
#include "litert_npu/support/plugin_options.h"
#include "litert_npu/support/shape_bounds.h"

static const char* const kSocModels[] = {"T1", "T2"};
const LiteRtNpuPluginIdentity kLiteRtNpuPlugin = {"Tin", "7", kSocModels, 2};

/* A host. */

struct LiteRtTensorT {
  LiteRtTensorTypeId id;
  LiteRtRankedTensorType type;
  size_t data_size;
};
struct LiteRtOpT {
  LiteRtOpCode code;
  struct LiteRtTensorT input, output;
};

#define GET(function, Of, Result, value)                        \
  static LiteRtStatus function(Of of, Result* result) {         \
    if (of == NULL) return kLiteRtStatusErrorRuntimeFailure;    \
    *result = (value);                                          \
    return kLiteRtStatusOk;                                     \
  }
GET(get_op_code, LiteRtOp, LiteRtOpCode, of->code)
GET(get_custom_code, LiteRtOp, const char*, "Mine")
GET(get_number, LiteRtOp, LiteRtParamIndex, 1)
GET(get_type_id, LiteRtTensor, LiteRtTensorTypeId, of->id)
GET(get_type, LiteRtTensor, LiteRtRankedTensorType, of->type)
GET(get_weights, LiteRtTensor, LiteRtWeights, (LiteRtWeights)of)
GET(get_opaque_options, LiteRtOptions, LiteRtOpaqueOptions, (LiteRtOpaqueOptions)of)

static LiteRtStatus get_input(LiteRtOp op, LiteRtParamIndex index, LiteRtTensor* tensor) {
  *tensor = &op->input;
  return index == 0 ? kLiteRtStatusOk : kLiteRtStatusErrorIndexOOB;
}

static LiteRtStatus get_output(LiteRtOp op, LiteRtParamIndex index, LiteRtTensor* tensor) {
  *tensor = &op->output;
  return index == 0 ? kLiteRtStatusOk : kLiteRtStatusErrorIndexOOB;
}

static LiteRtStatus get_data(LiteRtWeights weights, const void** data, size_t* size) {
  *size = ((LiteRtTensor)weights)->data_size;
  *data = *size > 0 ? weights : NULL;
  return kLiteRtStatusOk;
}

static LiteRtStatus find_data(LiteRtOpaqueOptions opaque, const char* name, void** data) {
  if (strcmp((const char*)(void*)opaque, "flags") != 0 || strcmp(name, "tin") != 0) return kLiteRtStatusErrorNotFound;
  *data = opaque;
  return kLiteRtStatusOk;
}

static LiteRtCompilerContext context; /* filled in by main */

#ifdef HAS_ASSETS /* functions that a plugin looks up */
LiteRtStatus LiteRtFindCompilerOptions(LiteRtOpaqueOptions opaque, LiteRtCompilerOptions* compiler) {
  *compiler = (LiteRtCompilerOptions)opaque;
  return *(const char*)opaque == 'c' ? kLiteRtStatusOk : kLiteRtStatusErrorNotFound;
}

LiteRtStatus LiteRtGetCompilerOptionsNumCustomOpInfo(LiteRtCompilerOptions options, LiteRtParamIndex* number) {
  (void)options;
  *number = 2;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompilerOptionsCustomOpInfo(
    LiteRtCompilerOptions options, LiteRtParamIndex index, const char** name, const char** path) {
  (void)options;
  *name = index == 0 ? "First" : "Second";
  *path = index == 0 ? "1.cl" : "2.cl";
  return kLiteRtStatusOk;
}
#endif

/* The parts. */

static void test_compiled_result(void) {
  LiteRtCompiledResult result = NULL;
  LiteRtParamIndex number, module;
  const void* data;
  size_t size;
  for (int left = 0; left < 2; left++) {
    allocations_left = left;
    EXPECT(LiteRtNpuCreateResult(3, 10, &result) == kLiteRtStatusErrorMemoryAllocationFailure && result == NULL);
  }
  allocations_left = -1;
  EXPECT(LiteRtNpuCreateResult(SIZE_MAX / 2, 10, &result) == kLiteRtStatusErrorMemoryAllocationFailure);
  OK(LiteRtNpuCreateResult(0, 0, &result));
  OK(LiteRtGetNumCompiledResultCalls(result, &number));
  EXPECT(number == 0);
  LiteRtDestroyCompiledResult(result);
  OK(LiteRtNpuCreateResult(12, 10, &result));
  memcpy(result->byte_code, "0123456789", 10);
  snprintf(result->names[2], sizeof(result->names[2]), "%s", "mine");
  OK(LiteRtCompiledResultNumByteCodeModules(result, &number));
  EXPECT(number == 1);
  OK(LiteRtGetCompiledResultByteCode(result, 0, &data, &size));
  EXPECT(size == 10 && memcmp(data, "0123456789", 10) == 0);
  OK(LiteRtGetCompiledResultCallInfo(result, 11, &data, &size, &module));
  EXPECT(size == 3 && memcmp(data, "f11", 3) == 0 && module == 0);
  OK(LiteRtGetCompiledResultCallInfo(result, 2, &data, &size, &module));
  EXPECT(size == 4 && memcmp(data, "mine", 4) == 0);
  REFUSED(LiteRtGetCompiledResultCallInfo(result, 12, &data, &size, &module));
  REFUSED(LiteRtGetCompiledResultCallInfo(NULL, 0, &data, &size, &module));
  bool is_dynamic = true;
  OK(LiteRtIsCompiledResultOutputDynamic(result, 11, 0, &is_dynamic));
  EXPECT(!is_dynamic);
  result->dynamic_outputs[11] = 2;
  for (LiteRtParamIndex output = 0; output < 66; output++) {
    OK(LiteRtIsCompiledResultOutputDynamic(result, 11, output, &is_dynamic));
    EXPECT(is_dynamic == (output == 1));
  }
  REFUSED(LiteRtIsCompiledResultOutputDynamic(result, 12, 0, &is_dynamic));
  REFUSED(LiteRtIsCompiledResultOutputDynamic(result, 11, 0, NULL));
  REFUSED(LiteRtGetCompiledResultByteCode(result, 1, &data, &size));
  REFUSED(LiteRtGetCompiledResultByteCode(result, 0, NULL, &size));
  REFUSED(LiteRtGetNumCompiledResultCalls(NULL, &number));
  REFUSED(LiteRtCompiledResultNumByteCodeModules(NULL, NULL));
  OK(LiteRtCompiledResultNumByteCodeModules(NULL, &number)); /* [result.nothing] */
  EXPECT(number == 0);
  free(result->byte_code); /* others in their place */
  result->byte_code = (char*)malloc(2);
  result->byte_code_size = 2;
  OK(LiteRtGetCompiledResultByteCode(result, 0, &data, &size));
  EXPECT(data == result->byte_code && size == 2);
  LiteRtDestroyCompiledResult(result);
  LiteRtDestroyCompiledResult(NULL);
}

static void test_identity(void) {
  LiteRtCompilerPlugin plugin = (LiteRtCompilerPlugin)&context; /* some address */
  LiteRtApiVersion version, other = {0, 2, 0};
  LiteRtHwAccelerators hardware;
  LiteRtParamIndex number;
  LiteRtTransformation* transformations;
  const char* text;
  OK(LiteRtGetCompilerPluginVersion(&version));
  EXPECT(strcmp(LiteRtGetCompilerPluginSocManufacturer(), "Tin") == 0);
  OK(LiteRtGetCompilerPluginSupportedHardware(plugin, &hardware));
  EXPECT(hardware == kLiteRtHwAcceleratorNpu);
  OK(LiteRtGetNumCompilerPluginSupportedSocModels(plugin, &number));
  OK(LiteRtGetCompilerPluginSupportedSocModel(plugin, 1, &text));
  EXPECT(number == 2 && strcmp(text, "T2") == 0);
  OK(LiteRtGetCompilerPluginSDKVersion(plugin, &text));
  OK(LiteRtCompilerPluginCheckCompilerCompatibility(version, plugin, NULL, NULL, NULL));
  OK(LiteRtCompilerPluginCheckCompilerCompatibility(version, plugin, NULL, NULL, "T2"));
  EXPECT(LiteRtCompilerPluginCheckCompilerCompatibility(version, plugin, NULL, NULL, "T3") ==
         kLiteRtStatusErrorUnsupported);
  EXPECT(LiteRtCompilerPluginCheckCompilerCompatibility(other, plugin, NULL, NULL, "T1") ==
         kLiteRtStatusErrorUnsupportedCompilerVersion);
  OK(LiteRtCompilerPluginRegisterAllTransformations(plugin, &transformations, &number));
  EXPECT(number == 0);
  REFUSED(LiteRtGetCompilerPluginVersion(NULL));
  REFUSED(LiteRtGetCompilerPluginSupportedHardware(NULL, &hardware));
  REFUSED(LiteRtGetNumCompilerPluginSupportedSocModels(plugin, NULL));
  REFUSED(LiteRtGetCompilerPluginSupportedSocModel(plugin, 2, &text));
  REFUSED(LiteRtGetCompilerPluginSDKVersion(NULL, &text));
  REFUSED(LiteRtCompilerPluginCheckCompilerCompatibility(version, NULL, NULL, NULL, NULL));
  REFUSED(LiteRtCompilerPluginRegisterAllTransformations(plugin, NULL, &number));
}

static void test_op_info(void) {
  struct LiteRtOpT op;
  struct LiteRtTensorT* tensor = &op.input;
  LiteRtNpuOpInfo info;
  LiteRtNpuTensorInfo input, output;
  memset(&op, 0, sizeof(op));
  op.code = kLiteRtOpCodeTflMul;
  OK(LiteRtNpuReadOp(&context, &op, &info));
  EXPECT(info.code == kLiteRtOpCodeTflMul && strcmp(info.custom_code, "") == 0 && info.num_inputs == 1);
  op.code = kLiteRtOpCodeTflCustom;
  OK(LiteRtNpuReadOp(&context, &op, &info));
  EXPECT(strcmp(info.custom_code, "Mine") == 0);
  EXPECT(LiteRtNpuReadOp(&context, NULL, &info) == kLiteRtStatusErrorRuntimeFailure); /* the host's answer */
  EXPECT(LiteRtNpuReadInput(&context, &op, 1, &input) == kLiteRtStatusErrorIndexOOB);

  OK(LiteRtNpuReadInput(&context, &op, 0, &input)); /* a scalar */
  EXPECT(input.num_elements == 1 && input.data_size == 0 && input.data == NULL);
  op.output.type.layout.rank = tensor->type.layout.rank = 2;
  op.output.type.layout.dimensions[0] = tensor->type.layout.dimensions[0] = 3;
  op.output.type.layout.dimensions[1] = tensor->type.layout.dimensions[1] = 4;
  op.output.type.layout.dimensions[2] = 9; /* beyond the rank */
  tensor->data_size = 48;
  OK(LiteRtNpuReadInput(&context, &op, 0, &input));
  OK(LiteRtNpuReadOutput(&context, &op, 0, &output));
  EXPECT(input.num_elements == 12 && input.data_size == 48 && input.data == tensor);
  EXPECT(LiteRtNpuHaveOneShape(&input, &output));
  output.type.layout.rank = 1;
  EXPECT(!LiteRtNpuHaveOneShape(&input, &output));
  output.type.layout.rank = 2;
  output.type.layout.dimensions[1] = 1; /* it broadcasts */
  EXPECT(!LiteRtNpuHaveOneShape(&input, &output));

  const int32_t bad[] = {0, -1, INT32_MIN, INT32_MAX / 3 + 1};
  for (int i = 0; i < 4; i++) {
    tensor->type.layout.dimensions[1] = bad[i];
    EXPECT(LiteRtNpuReadTensor(&context, tensor, &input) == kLiteRtStatusErrorUnsupported);
  }
  tensor->type.layout.dimensions[1] = INT32_MAX / 3;
  OK(LiteRtNpuReadTensor(&context, tensor, &input));
  tensor->type.layout.rank = 9;
  EXPECT(LiteRtNpuReadTensor(&context, tensor, &input) == kLiteRtStatusErrorUnsupported);
  tensor->id = kLiteRtUnrankedTensorType;
  EXPECT(LiteRtNpuReadTensor(&context, tensor, &input) == kLiteRtStatusErrorUnsupported);
}

static void test_custom_op_assets(void) {
  char options[] = "compiler", others[] = "other";
  EXPECT(LiteRtNpuFindAsset(&context, NULL, "Second") == NULL);
  EXPECT(LiteRtNpuFindAsset(&context, (LiteRtOptions)(void*)others, "Second") == NULL);
  const char* path = LiteRtNpuFindAsset(&context, (LiteRtOptions)(void*)options, "Second");
#ifdef HAS_ASSETS
  EXPECT(path != NULL && strcmp(path, "2.cl") == 0);
#else
  EXPECT(path == NULL);
#endif
  EXPECT(LiteRtNpuFindAsset(&context, (LiteRtOptions)(void*)options, "Third") == NULL);
}

static void test_plugin_options(void) {
  char options[] = "flags", others[] = "other";
  const char* text = LiteRtNpuFindOptions(&context, (LiteRtOptions)(void*)options, "tin");
  EXPECT(text != NULL && strcmp(text, "flags") == 0);
  EXPECT(LiteRtNpuFindOptions(&context, NULL, "tin") == NULL);
  EXPECT(LiteRtNpuFindOptions(&context, (LiteRtOptions)(void*)options, "lead") == NULL);
  EXPECT(LiteRtNpuFindOptions(&context, (LiteRtOptions)(void*)others, "tin") == NULL);
}

static void test_shape_bounds(void) {
  static const char kOptions[] =
      "check_kernels=false\nshape_bounds=a:b:8x4\nshape_bounds=a:50x4\nshape_bounds=c:5000000000";
  LiteRtLayout layout;
  int32_t largest[8];
  memset(&layout, 0, sizeof(layout));
  layout.rank = 2;
  layout.dimensions[0] = -1;
  layout.dimensions[1] = 4;
  EXPECT(LiteRtNpuFindShapeBound(kOptions, "a", &layout, largest) && largest[0] == 50 && largest[1] == 4);
  EXPECT(LiteRtNpuFindShapeBound(kOptions, "a:b", &layout, largest) && largest[0] == 8);
  EXPECT(!LiteRtNpuFindShapeBound(kOptions, "b", &layout, largest));
  EXPECT(!LiteRtNpuFindShapeBound(NULL, "a", &layout, largest));
  EXPECT(!LiteRtNpuFindShapeBound("", "a", &layout, largest));
  layout.dimensions[1] = 5; /* the bound is of another shape */
  EXPECT(!LiteRtNpuFindShapeBound(kOptions, "a", &layout, largest));
  layout.rank = 1;
  EXPECT(!LiteRtNpuFindShapeBound(kOptions, "a", &layout, largest));
  EXPECT(!LiteRtNpuFindShapeBound(kOptions, "c", &layout, largest)); /* too large */
}

int main(int argc, char** argv) {
  static const Part kParts[] = {
      {"compiled_result", test_compiled_result},
      {"custom_op_assets", test_custom_op_assets},
      {"identity", test_identity},
      {"op_info", test_op_info},
      {"plugin_options", test_plugin_options},
      {"shape_bounds", test_shape_bounds},
  };
  context.find_opaque_options_data = find_data;
  context.get_op_code = get_op_code;
  context.get_custom_code = get_custom_code;
  context.get_num_op_inputs = get_number;
  context.get_num_op_outputs = get_number;
  context.get_op_input = get_input;
  context.get_op_output = get_output;
  context.get_tensor_type_id = get_type_id;
  context.get_ranked_tensor_type = get_type;
  context.get_tensor_weights = get_weights;
  context.get_weights_bytes = get_data;
  context.get_opaque_options = get_opaque_options;
  return run_part(kParts, sizeof(kParts) / sizeof(kParts[0]), argc, argv);
}
