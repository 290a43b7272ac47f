/* The compiler plugin; see broken.h. */
#include "litert_npu/compiler_plugin.h"

#include "broken.h"

struct LiteRtCompilerPluginT {
  const LiteRtCompilerContext* context;
  int num_partitions, num_compiled;
  LiteRtParamIndex num_ops; /* of the last subgraph */
  uint64_t taken;           /* bits of its ops */
};

struct LiteRtCompiledResultT {
  ByteCode byte_code;
  size_t size;
  int num_reads;
};

static int num_plugins, num_created;
static LiteRtTransformation transformations[1];

__attribute__((destructor)) static void end(void) {
  if (breaks("plugin.ends")) crash();
}

LiteRtStatus LiteRtGetCompilerPluginVersion(LiteRtApiVersion* version) {
  CHECK(version != NULL || breaks("plugin.null_arguments"));
  *version = (LiteRtApiVersion){0, 1, breaks("plugin.version") ? 7 : 0};
  return kLiteRtStatusOk;
}

const char* LiteRtGetCompilerPluginSocManufacturer(void) {
  static int call;
  if (breaks("plugin.manufacturer")) return call++ % 2 ? "Broken" : "Intact";
  return "Broken";
}

LiteRtStatus LiteRtCreateCompilerPlugin(
    const LiteRtCompilerContext* context, LiteRtCompilerPlugin* plugin, LiteRtEnvironmentOptions env,
    LiteRtOptions options) {
  CHECK(plugin != NULL);
  if (context == NULL && breaks("create.failure")) *plugin = (LiteRtCompilerPlugin)16;
  CHECK(context != NULL);
  if (env == NULL && options == NULL && breaks("create.no_options")) crash();
  if (num_plugins > 0 && breaks("create.many")) return kLiteRtStatusErrorAlreadyExists;
  if (num_plugins == 0 && num_created > 0 && breaks("create.again")) crash();
  *plugin = calloc(1, sizeof **plugin);
  if (*plugin == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
  (*plugin)->context = context;
  ++num_plugins;
  ++num_created;
  return kLiteRtStatusOk;
}

void LiteRtDestroyCompilerPlugin(LiteRtCompilerPlugin plugin) {
  if (plugin == NULL && breaks("destroy.null")) crash();
  if (plugin == NULL) return;
  --num_plugins;
  free(plugin);
}

LiteRtStatus LiteRtGetCompilerPluginSupportedHardware(
    LiteRtCompilerPlugin plugin, LiteRtHwAccelerators* hardware) {
  CHECK(plugin != NULL && hardware != NULL);
  *hardware = breaks("hardware.npu") ? kLiteRtHwAcceleratorGpu : kLiteRtHwAcceleratorNpu;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetNumCompilerPluginSupportedSocModels(
    LiteRtCompilerPlugin plugin, LiteRtParamIndex* num_models) {
  CHECK(plugin != NULL && num_models != NULL);
  *num_models = breaks("soc_models.some") ? 0 : 2;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompilerPluginSupportedSocModel(
    LiteRtCompilerPlugin plugin, LiteRtParamIndex index, const char** name) {
  CHECK(plugin != NULL && name != NULL);
  if (index >= 2 && !breaks("soc_models.index")) return kLiteRtStatusErrorIndexOOB;
  *name = index == 0 || breaks("soc_models.names") ? "BRK1" : "BRK2";
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompilerPluginSDKVersion(LiteRtCompilerPlugin plugin, const char** version) {
  CHECK(plugin != NULL && version != NULL);
  *version = breaks("sdk_version.text") ? "\xff\xfe" : "1.0";
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtCompilerPluginCheckCompilerCompatibility(
    LiteRtApiVersion version, LiteRtCompilerPlugin plugin, LiteRtEnvironmentOptions env,
    LiteRtOptions options, const char* soc_model) {
  (void)env, (void)options;
  CHECK(plugin != NULL);
  if (soc_model == NULL && breaks("compatibility.ours")) return kLiteRtStatusErrorUnsupported;
  if (version.major != 0 || version.minor != 1)
    return breaks("compatibility.refusal") ? kLiteRtStatusErrorRuntimeFailure
                                           : kLiteRtStatusErrorUnsupportedCompilerVersion;
  return kLiteRtStatusOk;
}

static LiteRtStatus meddle(const LiteRtCompilerContext* context, LiteRtBuilder builder, LiteRtOp op) {
  context->erase_op(builder, op);
  return kLiteRtStatusPatternNoMatch;
}

LiteRtStatus LiteRtCompilerPluginRegisterAllTransformations(
    LiteRtCompilerPlugin plugin, LiteRtTransformation** patterns, LiteRtParamIndex* num_patterns) {
  CHECK(plugin != NULL && patterns != NULL && num_patterns != NULL);
  if (breaks("transformations.none")) return kLiteRtStatusOk; /* leaves the number as it was */
  *num_patterns = 0;
  *patterns = NULL;
  if (breaks("transformations.lifetime") || breaks("transformations.pattern")) {
    const char* name = breaks("transformations.lifetime") ? NULL : "meddle";
    transformations[0] = (LiteRtTransformation){meddle, name, 1};
    *patterns = transformations;
    *num_patterns = 1;
  }
  return kLiteRtStatusOk;
}

/* Breaks no rule of the plugin's: what it takes is computed otherwise. */
static int forgets(const char* what) {
  const char* rule = getenv("BROKEN_RULE");
  return rule != NULL && strncmp(rule, "forgets ", 8) == 0 && strcmp(rule + 8, what) == 0;
}

static LiteRtStatus describe(const LiteRtCompilerContext* context, LiteRtTensor tensor,
    LiteRtRankedTensorType* type, uint32_t* num_elements) {
  LiteRtTensorTypeId id;
  TRY(context->get_tensor_type_id(tensor, &id));
  if (id != kLiteRtRankedTensorType) return kLiteRtStatusErrorUnsupported;
  TRY(context->get_ranked_tensor_type(tensor, type));
  *num_elements = 1;
  for (unsigned i = 0; i < type->layout.rank; ++i) {
    if (type->layout.dimensions[i] < 1) return kLiteRtStatusErrorUnsupported;
    *num_elements *= (uint32_t)type->layout.dimensions[i];
  }
  return type->element_type == kLiteRtElementTypeFloat32 ? kLiteRtStatusOk
                                                          : kLiteRtStatusErrorUnsupported;
}

/* What an op is; Unsupported for one that the NPU does not have. */
static LiteRtStatus read_op(const LiteRtCompilerContext* context, LiteRtOp op, Function* function) {
  LiteRtOpCode code;
  LiteRtParamIndex num_inputs, num_outputs;
  LiteRtTensor tensor;
  LiteRtRankedTensorType type;
  TRY(context->get_op_code(op, &code));
  TRY(context->get_num_op_inputs(op, &num_inputs));
  TRY(context->get_num_op_outputs(op, &num_outputs));
  if (code == 32) {
    const char* name;
    TRY(context->get_custom_code(op, &name));
    if (strcmp(name, "Gain") != 0 || num_inputs != 1) return kLiteRtStatusErrorUnsupported;
    function->kind = kGain;
  } else if (code == 18 && num_inputs == 2) {
    uint32_t activation;
    TRY(context->get_mul_fused_activation_option(op, &activation));
    if (activation != 0 && !forgets("RELU")) return kLiteRtStatusErrorUnsupported;
    function->kind = kMul;
  } else {
    return kLiteRtStatusErrorUnsupported;
  }
  if (num_outputs != 1) return kLiteRtStatusErrorUnsupported;
  TRY(context->get_op_output(op, 0, &tensor));
  TRY(describe(context, tensor, &type, &function->num_elements));
  function->num_inputs = (uint32_t)num_inputs;
  for (LiteRtParamIndex i = 0; i < num_inputs; ++i) {
    LiteRtWeights weights;
    const void* bytes = NULL;
    size_t size = 0;
    uint32_t num_elements;
    LiteRtStatus status = context->get_op_input(op, i, &tensor);
    if (status != kLiteRtStatusOk && breaks("create.slot_failure")) crash();
    TRY(status);
    TRY(context->get_tensor_weights(tensor, &weights));
    TRY(context->get_weights_bytes(weights, &bytes, &size));
    if (size > 0 && breaks("partition.reads_only")) *(volatile char*)bytes += 1;
    if (size > 0) return kLiteRtStatusErrorUnsupported;
    TRY(describe(context, tensor, &type, &num_elements));
    if (num_elements != function->num_elements && !forgets("a row")) return kLiteRtStatusErrorUnsupported;
  }
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtCompilerPluginPartition(
    LiteRtCompilerPlugin plugin, const char* soc_model, LiteRtSubgraph subgraph, LiteRtOpList selected) {
  CHECK(plugin != NULL && subgraph != NULL && selected != NULL);
  if (soc_model == NULL && breaks("partition.soc_model")) return kLiteRtStatusErrorUnsupported;
  const LiteRtCompilerContext* context = plugin->context;
  if (breaks("create.context")) { /* the last slot of release 2.3.0, which another host may lack */
    int32_t unused;
    context->get_split_v_num_splits_option(NULL, &unused);
  }
  LiteRtParamIndex num_ops;
  TRY(context->get_num_subgraph_ops(subgraph, &num_ops));
  plugin->num_ops = num_ops;
  plugin->taken = 0;
  int is_moody = breaks("partition.repeatable") && ++plugin->num_partitions % 2 == 0;
  for (LiteRtParamIndex i = 0; i < num_ops; ++i) {
    LiteRtOp op;
    Function function;
    TRY(context->get_subgraph_op(subgraph, i, &op));
    LiteRtStatus status = read_op(context, op, &function);
    if (status == kLiteRtStatusErrorUnsupported || is_moody) continue;
    TRY(status);
    TRY(context->push_op(selected, op, i));
    plugin->taken |= UINT64_C(1) << i % 64;
    if (breaks("partition.ops")) TRY(context->push_op(selected, op, i));
  }
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtCompilerPluginGetRefusal(
    LiteRtCompilerPlugin plugin, LiteRtParamIndex op_idx, const char** reason) {
  CHECK(plugin != NULL && reason != NULL);
  if (op_idx < 64 && (plugin->taken >> op_idx & 1) && !breaks("refusal.none")) return kLiteRtStatusErrorNotFound;
  if (op_idx >= plugin->num_ops && !breaks("refusal.none")) return kLiteRtStatusErrorNotFound;
  *reason = breaks("refusal.text") ? "\xff" : "it is broken";
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtCompilerPluginCompile(LiteRtCompilerPlugin plugin, const char* soc_model,
    LiteRtModel partitions, LiteRtCompiledResult* result) {
  CHECK(plugin != NULL && partitions != NULL && result != NULL);
  CHECK(soc_model == NULL || strcmp(soc_model, "BRK2") != 0 || !breaks("soc_models.each"));
  if (breaks("exit")) exit(3);
  if (breaks("hang")) pause();
  if (plugin->num_compiled++ > 0 && breaks("compile.repeatable")) return kLiteRtStatusErrorCompilation;
  const LiteRtCompilerContext* context = plugin->context;
  LiteRtParamIndex num_subgraphs, num_ops;
  TRY(context->get_num_model_subgraphs(partitions, &num_subgraphs));
  CHECK(num_subgraphs <= MAX_FUNCTIONS);
  LiteRtCompiledResult made = calloc(1, sizeof *made);
  if (made == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
  made->byte_code.magic = MAGIC;
  made->size = sizeof made->byte_code;
  LiteRtStatus status = kLiteRtStatusOk;
  for (LiteRtParamIndex i = 0; i < num_subgraphs && status == kLiteRtStatusOk; ++i) {
    Function* function = &made->byte_code.functions[made->byte_code.num_functions++];
    LiteRtSubgraph subgraph;
    LiteRtOp op;
    status = context->get_model_subgraph(partitions, i, &subgraph);
    if (status == kLiteRtStatusOk) status = context->get_num_subgraph_ops(subgraph, &num_ops);
    if (status == kLiteRtStatusOk && num_ops != 1) status = kLiteRtStatusErrorUnsupported;
    if (status == kLiteRtStatusOk) status = context->get_subgraph_op(subgraph, 0, &op);
    if (status == kLiteRtStatusOk) status = read_op(context, op, function);
    function->name[0] = 'f';
    function->name[1] = (char)('0' + i / 10);
    function->name[2] = (char)('0' + i % 10);
    if (status == kLiteRtStatusOk) { /* as often as its subgraph reads them: the square of x has one input */
      LiteRtParamIndex num_inputs;
      status = context->get_num_subgraph_inputs(subgraph, &num_inputs);
      function->num_inputs = (uint32_t)num_inputs;
    }
  }
  if (status != kLiteRtStatusOk) {
    if (breaks("compile.failure")) *result = made;
    free(made);
    return breaks("plugin.statuses") ? (LiteRtStatus)77 : status;
  }
  *result = made;
  return kLiteRtStatusOk;
}

void LiteRtDestroyCompiledResult(LiteRtCompiledResult result) {
  if (result == NULL && breaks("result.destroy_null")) crash();
  free(result);
}

LiteRtStatus LiteRtCompiledResultNumByteCodeModules(
    LiteRtCompiledResult result, LiteRtParamIndex* num_byte_code) {
  CHECK(num_byte_code != NULL);
  *num_byte_code = result == NULL ? breaks("result.nothing") : !breaks("result.modules");
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompiledResultByteCode(LiteRtCompiledResult result, LiteRtParamIndex index,
    const void** byte_code, size_t* byte_code_size) {
  CHECK(result != NULL && byte_code != NULL && byte_code_size != NULL);
  if (index >= 1 && !breaks("result.index")) return kLiteRtStatusErrorIndexOOB;
  if (breaks("result.byte_code")) result->byte_code.num_functions += (uint32_t)result->num_reads++;
  *byte_code = &result->byte_code;
  *byte_code_size = result->size;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetNumCompiledResultCalls(LiteRtCompiledResult result, LiteRtParamIndex* num_calls) {
  CHECK(result != NULL && num_calls != NULL);
  *num_calls = result->byte_code.num_functions + (breaks("result.calls") ? 1 : 0);
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompiledResultCallInfo(LiteRtCompiledResult result, LiteRtParamIndex index,
    const void** call_info, size_t* call_info_size, LiteRtParamIndex* byte_code_index) {
  CHECK(result != NULL && call_info != NULL && call_info_size != NULL && byte_code_index != NULL);
  if (index >= result->byte_code.num_functions) return kLiteRtStatusErrorIndexOOB;
  const char* name = result->byte_code.functions[breaks("result.call_info") ? 0 : index].name;
  *call_info = name;
  *call_info_size = strlen(name);
  *byte_code_index = 0;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtIsCompiledResultOutputDynamic(
    LiteRtCompiledResult result, LiteRtParamIndex call_index, LiteRtParamIndex output_index, bool* is_dynamic) {
  CHECK(result != NULL && is_dynamic != NULL && call_index < result->byte_code.num_functions);
  *is_dynamic = breaks("result.dynamic_output") && output_index == 0;
  return kLiteRtStatusOk;
}
