/* Cobalt's compiler plugin: takes MUL of two float tensors of one shape, and the custom op `Gain` if the user has an
 * asset for it; each op is a call of its own. What a function promises stands in litert_npu/compiler_plugin.h. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "byte_code.h"
#include "litert_npu/compiler_options.h"
#include "litert_npu/compiler_plugin.h"

struct LiteRtCompilerPluginT {
  const LiteRtCompilerContext* context;
  bool has_gain;
};

struct LiteRtCompiledResultT {
  char* byte_code;
  size_t num_calls; /* and functions */
};

static Function* functions_of(LiteRtCompiledResult result) { return (Function*)(result->byte_code + sizeof(Header)); }

/* Who it is, and what it serves. */

LiteRtStatus LiteRtGetCompilerPluginVersion(LiteRtApiVersion* api_version) {
  CHECK(api_version != NULL);
  *api_version = (LiteRtApiVersion){0, 1, 0};
  return kLiteRtStatusOk;
}

const char* LiteRtGetCompilerPluginSocManufacturer(void) { return "Cobalt"; }

LiteRtStatus LiteRtGetCompilerPluginSupportedHardware(LiteRtCompilerPlugin plugin, LiteRtHwAccelerators* hardware) {
  CHECK(plugin != NULL && hardware != NULL);
  *hardware = kLiteRtHwAcceleratorNpu;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetNumCompilerPluginSupportedSocModels(LiteRtCompilerPlugin plugin, LiteRtParamIndex* number) {
  CHECK(plugin != NULL && number != NULL);
  *number = 1;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompilerPluginSupportedSocModel(
    LiteRtCompilerPlugin plugin, LiteRtParamIndex index, const char** soc_model) {
  CHECK(plugin != NULL && soc_model != NULL && index == 0);
  *soc_model = "C1";
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompilerPluginSDKVersion(LiteRtCompilerPlugin plugin, const char** sdk_version) {
  CHECK(plugin != NULL && sdk_version != NULL);
  *sdk_version = "1.0";
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtCompilerPluginCheckCompilerCompatibility(
    LiteRtApiVersion version, LiteRtCompilerPlugin plugin, LiteRtEnvironmentOptions env, LiteRtOptions options,
    const char* soc_model) {
  (void)env, (void)options;
  CHECK(plugin != NULL);
  if (version.major != 0 || version.minor != 1) return kLiteRtStatusErrorUnsupportedCompilerVersion;
  if (soc_model == NULL || strcmp(soc_model, "C1") == 0) return kLiteRtStatusOk;
  SAY("there is no SoC model '%s', only C1", soc_model);
  return kLiteRtStatusErrorUnsupported;
}

/* A plugin lives for one run of the host's compiler. */

/* Finds a function of the host's; NULL if it has none of that name. */
static void look_up(const char* name, void* function) {
  void* found = dlsym(RTLD_DEFAULT, name);
  memcpy(function, &found, sizeof(found));
}

/* Whether the user has an asset for an op. Release 2.3.0 of LiteRT lacks these functions: nobody has. */
static bool has_asset(const LiteRtCompilerContext* context, LiteRtOptions options, const char* op) {
  __typeof__(&LiteRtFindCompilerOptions) find;
  __typeof__(&LiteRtGetCompilerOptionsNumCustomOpInfo) get_number;
  __typeof__(&LiteRtGetCompilerOptionsCustomOpInfo) get;
  LiteRtOpaqueOptions opaque;
  LiteRtCompilerOptions compiler;
  LiteRtParamIndex number;
  look_up("LiteRtFindCompilerOptions", &find);
  look_up("LiteRtGetCompilerOptionsNumCustomOpInfo", &get_number);
  look_up("LiteRtGetCompilerOptionsCustomOpInfo", &get);
  if (options == NULL || find == NULL || get_number == NULL || get == NULL) return false;
  if (context->get_opaque_options(options, &opaque) != kLiteRtStatusOk) return false;
  if (find(opaque, &compiler) != kLiteRtStatusOk || get_number(compiler, &number) != kLiteRtStatusOk) return false;
  for (LiteRtParamIndex i = 0; i < number; i++) {
    const char *name, *path;
    if (get(compiler, i, &name, &path) == kLiteRtStatusOk && strcmp(name, op) == 0) return true;
  }
  return false;
}

LiteRtStatus LiteRtCreateCompilerPlugin(
    const LiteRtCompilerContext* context, LiteRtCompilerPlugin* plugin, LiteRtEnvironmentOptions env,
    LiteRtOptions options) {
  (void)env;
  CHECK(context != NULL && plugin != NULL);
  LiteRtCompilerPlugin made = calloc(1, sizeof(*made));
  if (made == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
  made->context = context;
  made->has_gain = has_asset(context, options, "Gain");
  *plugin = made;
  return kLiteRtStatusOk;
}

void LiteRtDestroyCompilerPlugin(LiteRtCompilerPlugin plugin) { free(plugin); }

LiteRtStatus LiteRtCompilerPluginRegisterAllTransformations(
    LiteRtCompilerPlugin plugin, LiteRtTransformation** transformations, LiteRtParamIndex* number) {
  CHECK(plugin != NULL && transformations != NULL && number != NULL);
  *transformations = NULL;
  *number = 0;
  return kLiteRtStatusOk;
}

/* Which ops it takes. */

/* Reads the type of a float tensor that is computed or an input, and whose shape is known; else Unsupported. */
static LiteRtStatus read_type(
    const LiteRtCompilerContext* context, LiteRtTensor tensor, LiteRtRankedTensorType* type, uint32_t* num_elements) {
  LiteRtTensorTypeId id;
  LiteRtWeights weights;
  const void* data;
  size_t size;
  uint64_t number = 1;
  TRY(context->get_tensor_type_id(tensor, &id));
  if (id != kLiteRtRankedTensorType) return kLiteRtStatusErrorUnsupported;
  TRY(context->get_ranked_tensor_type(tensor, type));
  TRY(context->get_tensor_weights(tensor, &weights));
  TRY(context->get_weights_bytes(weights, &data, &size));
  if (type->element_type != kLiteRtElementTypeFloat32 || size > 0) return kLiteRtStatusErrorUnsupported;
  for (uint32_t i = 0; i < type->layout.rank; i++) {
    if (type->layout.dimensions[i] < 1) return kLiteRtStatusErrorUnsupported;
    number *= (uint64_t)type->layout.dimensions[i];
    if (number > INT32_MAX / sizeof(float)) return kLiteRtStatusErrorUnsupported;
  }
  *num_elements = (uint32_t)number;
  return kLiteRtStatusOk;
}

/* YOUR OPS: says what the driver is to do for an op; Unsupported leaves it to the CPU. */
static LiteRtStatus classify(LiteRtCompilerPlugin plugin, LiteRtOp op, Function* function) {
  const LiteRtCompilerContext* context = plugin->context;
  LiteRtOpCode code;
  LiteRtParamIndex num_inputs, num_outputs;
  TRY(context->get_op_code(op, &code));
  TRY(context->get_num_op_inputs(op, &num_inputs));
  TRY(context->get_num_op_outputs(op, &num_outputs));
  if (code == kLiteRtOpCodeTflMul && num_inputs == 2 && num_outputs == 1) {
    uint32_t fused_activation;
    TRY(context->get_mul_fused_activation_option(op, &fused_activation));
    if (fused_activation != 0) return kLiteRtStatusErrorUnsupported;
    function->op = kMul;
  } else if (code == kLiteRtOpCodeTflCustom && num_inputs == 1 && num_outputs == 1) {
    const char* custom_code;
    TRY(context->get_custom_code(op, &custom_code));
    if (!plugin->has_gain || strcmp(custom_code, "Gain") != 0) return kLiteRtStatusErrorUnsupported;
    function->op = kGain;
  } else {
    return kLiteRtStatusErrorUnsupported;
  }
  LiteRtTensor tensor;
  LiteRtRankedTensorType type, other;
  uint32_t ignored;
  TRY(context->get_op_output(op, 0, &tensor));
  TRY(read_type(context, tensor, &type, &function->num_elements));
  for (LiteRtParamIndex i = 0; i < num_inputs; i++) {
    TRY(context->get_op_input(op, i, &tensor));
    TRY(read_type(context, tensor, &other, &ignored));
    if (other.layout.rank != type.layout.rank ||
        memcmp(other.layout.dimensions, type.layout.dimensions, type.layout.rank * sizeof(int32_t)) != 0)
      return kLiteRtStatusErrorUnsupported; /* it broadcasts */
  }
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtCompilerPluginPartition(
    LiteRtCompilerPlugin plugin, const char* soc_model, LiteRtSubgraph subgraph, LiteRtOpList selected_ops) {
  (void)soc_model;
  CHECK(plugin != NULL && subgraph != NULL && selected_ops != NULL);
  LiteRtParamIndex num_ops, num_taken = 0;
  TRY(plugin->context->get_num_subgraph_ops(subgraph, &num_ops));
  for (LiteRtParamIndex i = 0; i < num_ops; i++) {
    LiteRtOp op;
    Function function;
    TRY(plugin->context->get_subgraph_op(subgraph, i, &op));
    LiteRtStatus status = classify(plugin, op, &function);
    if (status == kLiteRtStatusOk) status = plugin->context->push_op(selected_ops, op, num_taken++);
    if (status != kLiteRtStatusErrorUnsupported) TRY(status);
  }
  return kLiteRtStatusOk;
}

/* What becomes of them. */

static LiteRtStatus write_function(LiteRtCompilerPlugin plugin, LiteRtSubgraph subgraph, size_t i, Function* function) {
  LiteRtParamIndex num_ops, num_inputs;
  LiteRtOp op;
  TRY(plugin->context->get_num_subgraph_ops(subgraph, &num_ops));
  TRY(plugin->context->get_num_subgraph_inputs(subgraph, &num_inputs));
  if (num_ops != 1) return kLiteRtStatusErrorUnsupported;
  TRY(plugin->context->get_subgraph_op(subgraph, 0, &op));
  TRY(classify(plugin, op, function));
  function->num_inputs = (uint32_t)num_inputs;
  snprintf(function->name, sizeof(function->name), "f%u", (unsigned)i);
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtCompilerPluginCompile(
    LiteRtCompilerPlugin plugin, const char* soc_model, LiteRtModel partitions, LiteRtCompiledResult* result) {
  (void)soc_model;
  CHECK(plugin != NULL && partitions != NULL && result != NULL);
  LiteRtParamIndex number;
  TRY(plugin->context->get_num_model_subgraphs(partitions, &number));
  LiteRtCompiledResult made = calloc(1, sizeof(*made));
  if (made != NULL) made->byte_code = calloc(1, sizeof(Header) + number * sizeof(Function));
  LiteRtStatus status = kLiteRtStatusOk;
  if (made == NULL || made->byte_code == NULL) status = kLiteRtStatusErrorMemoryAllocationFailure;
  if (status == kLiteRtStatusOk) memcpy(made->byte_code, &kHeader, sizeof(Header));
  for (LiteRtParamIndex i = 0; i < number && status == kLiteRtStatusOk; i++) {
    LiteRtSubgraph subgraph;
    status = plugin->context->get_model_subgraph(partitions, i, &subgraph);
    if (status == kLiteRtStatusOk) status = write_function(plugin, subgraph, i, &functions_of(made)[i]);
    made->num_calls++;
  }
  if (status == kLiteRtStatusOk)
    *result = made;
  else
    LiteRtDestroyCompiledResult(made);
  return status;
}

void LiteRtDestroyCompiledResult(LiteRtCompiledResult result) {
  if (result != NULL) free(result->byte_code);
  free(result);
}

LiteRtStatus LiteRtCompiledResultNumByteCodeModules(LiteRtCompiledResult result, LiteRtParamIndex* number) {
  CHECK(number != NULL);
  *number = result == NULL ? 0 : 1; /* stock asks with NULL where nothing was selected */
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompiledResultByteCode(
    LiteRtCompiledResult result, LiteRtParamIndex index, const void** byte_code, size_t* byte_code_size) {
  CHECK(result != NULL && byte_code != NULL && byte_code_size != NULL && index == 0);
  *byte_code = result->byte_code;
  *byte_code_size = sizeof(Header) + result->num_calls * sizeof(Function);
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetNumCompiledResultCalls(LiteRtCompiledResult result, LiteRtParamIndex* number) {
  CHECK(result != NULL && number != NULL);
  *number = result->num_calls;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompiledResultCallInfo(
    LiteRtCompiledResult result, LiteRtParamIndex index, const void** name, size_t* size, LiteRtParamIndex* module) {
  CHECK(result != NULL && name != NULL && size != NULL && module != NULL && index < result->num_calls);
  *name = functions_of(result)[index].name;
  *size = strlen(functions_of(result)[index].name);
  *module = 0;
  return kLiteRtStatusOk;
}
