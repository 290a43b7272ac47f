/* A plugin whose byte code says all that its context told it of a partition, as text: two hosts are alike if the texts
 * are. SCRIBE_TAKE is what it takes of each subgraph: "all", or positions as "0,1:5,2", each with a partition index.
 * SCRIBE_OPTIONS is a file that gets what the options and the environment hold. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "litert_npu/compiler_options.h"
#include "litert_npu/compiler_plugin.h"
#include "rewrites.h"

#define REQUIRE(call)                                                       \
  do {                                                                      \
    LiteRtStatus status_ = (call);                                          \
    if (status_) {                                                          \
      fprintf(stderr, "scribe: %s: status %d\n", #call, (int)status_);      \
      return status_;                                                       \
    }                                                                       \
  } while (0)

struct LiteRtCompilerPluginT {
  const LiteRtCompilerContext* context;
};

struct LiteRtCompiledResultT {
  size_t count;
  char** texts;
  size_t* sizes;
};

static int32_t seen[4096];
static size_t num_seen;

static void describe_quantization(FILE* out, const LiteRtCompilerContext* c, LiteRtTensor tensor) {
  LiteRtQuantizationTypeId kind = -1;
  fprintf(out, " quantization %d", c->get_quantization_type_id(tensor, &kind));
  fprintf(out, ":%d", kind);
  LiteRtQuantizationPerTensor one = {0, 0};
  fprintf(out, " one %d", c->get_per_tensor_quantization(tensor, &one));
  fprintf(out, ":%a,%lld", one.scale, (long long)one.zero_point);
  LiteRtQuantizationPerChannel many = {0, 0, NULL, NULL};
  LiteRtStatus status = c->get_per_channel_quantization(tensor, &many);
  fprintf(out, " many %d:%d", status, status ? 0 : many.quantized_dimension);
  for (uint64_t i = 0; !status && i < many.num_channels; i++)
    fprintf(out, ",%a,%lld", many.scales[i], (long long)many.zero_points[i]);
  LiteRtQuantizationBlockWise blocks = {NULL, NULL, 0};
  status = c->get_block_wise_quantization(tensor, &blocks);
  fprintf(out, " blocks %d:%d", status, blocks.block_size);
  const char* name = NULL;
  if (!status && blocks.scales && !c->get_tensor_name(blocks.scales, &name))
    fprintf(out, " by %s%s", name, blocks.zero_points ? " and zero points" : "");
}

/* The place of a buffer's id among those with data that the plugin has seen so far: hosts number as they like. */
static size_t place_of(int32_t id) {
  size_t place = 0;
  while (place < num_seen && seen[place] != id) place++;
  if (place == num_seen && num_seen < sizeof seen / sizeof *seen) seen[num_seen++] = id;
  return place;
}

/* Has all ids of a subgraph's constants be seen, in the order of its ops. */
static LiteRtStatus see_buffers(const LiteRtCompilerContext* c, LiteRtSubgraph subgraph) {
  LiteRtParamIndex num_ops = 0, num_inputs = 0;
  REQUIRE(c->get_num_subgraph_ops(subgraph, &num_ops));
  for (LiteRtParamIndex i = 0; i < num_ops; i++) {
    LiteRtOp op = NULL;
    REQUIRE(c->get_subgraph_op(subgraph, i, &op));
    REQUIRE(c->get_num_op_inputs(op, &num_inputs));
    for (LiteRtParamIndex j = 0; j < num_inputs; j++) {
      LiteRtTensor tensor = NULL;
      LiteRtWeights weights = NULL;
      const void* data = NULL;
      size_t size = 0;
      int32_t buffer = -77;
      REQUIRE(c->get_op_input(op, j, &tensor));
      REQUIRE(c->get_tensor_weights(tensor, &weights));
      REQUIRE(c->get_weights_buffer_id(weights, &buffer));
      REQUIRE(c->get_weights_bytes(weights, &data, &size));
      if (size) place_of(buffer);
    }
  }
  return kLiteRtStatusOk;
}

static void describe_tensor(FILE* out, const LiteRtCompilerContext* c, LiteRtTensor tensor) {
  const char* name = NULL;
  fprintf(out, "    tensor ");
  if (!tensor) {
    fprintf(out, "none\n");
    return;
  }
  fprintf(out, "%d", c->get_tensor_name(tensor, &name));
  fprintf(out, ":%s", name ? name : "(null)");
  LiteRtTensorTypeId id = -1;
  uint32_t index = 99;
  fprintf(out, " index %d", c->get_tensor_index(tensor, &index));
  if (getenv("SCRIBE_INDICES")) fprintf(out, ":%u", index);
  fprintf(out, " kind %d", c->get_tensor_type_id(tensor, &id));
  fprintf(out, ":%d", id);
  LiteRtRankedTensorType type;
  memset(&type, 0, sizeof type);
  fprintf(out, " type %d", c->get_ranked_tensor_type(tensor, &type));
  fprintf(out, ":%d strides %d shape", type.element_type, type.layout.has_strides);
  for (unsigned i = 0; i < type.layout.rank; i++) fprintf(out, " %d", type.layout.dimensions[i]);
  LiteRtUnrankedTensorType unranked = {0};
  fprintf(out, " unranked %d", c->get_unranked_tensor_type(tensor, &unranked));
  describe_quantization(out, c, tensor);
  LiteRtParamIndex uses = 0;
  fprintf(out, " uses %d", c->get_num_tensor_uses(tensor, &uses));
  fprintf(out, ":%zu", uses);
  for (LiteRtParamIndex i = 0; i < uses; i++) {
    LiteRtOp user = NULL;
    LiteRtParamIndex argument = 99;
    LiteRtOpCode code = -1;
    c->get_tensor_use(tensor, i, &user, &argument);
    c->get_op_code(user, &code);
    fprintf(out, " by %d.%zu", code, argument);
  }
  bool has = false;
  LiteRtTensorDefiningOp defining = {NULL, 99};
  fprintf(out, " from %d", c->get_tensor_defining_op(tensor, &has, &defining));
  fprintf(out, ":%d", has);
  if (has) fprintf(out, ".%zu", defining.op_output_index);
  LiteRtWeights weights = NULL;
  const void* data = NULL;
  size_t size = 0;
  fprintf(out, " weights %d", c->get_tensor_weights(tensor, &weights));
  int32_t buffer = -77;
  fprintf(out, " buffer %d", c->get_weights_buffer_id(weights, &buffer));
  fprintf(out, " %d", c->get_weights_bytes(weights, &data, &size));
  fprintf(out, size ? " %zu" : " none", size ? place_of(buffer) : 0);
  uint32_t sum = 0;
  for (size_t i = 0; i < size; i++) sum = sum * 31 + ((const uint8_t*)data)[i];
  fprintf(out, ":%zu %08x%s\n", size, sum, data ? "" : " at NULL");
}

static void describe_composite(FILE* out, const LiteRtCompilerContext* c, LiteRtOp op) {
  const char* name = NULL;
  int32_t subgraph = -77, size = 0, version = -77;
  const uint8_t* attributes = NULL;
  if (c->get_shlo_composite_op_name(op, &name)) return;
  c->get_shlo_composite_op_decomposition_subgraph_index(op, &subgraph);
  c->get_shlo_composite_op_attributes(op, &attributes, &size);
  c->get_shlo_composite_op_version(op, &version);
  fprintf(out, "    composite %s %d %d", name, subgraph, version);
  for (int32_t i = 0; i < size; i++) fprintf(out, " %02x", attributes[i]);
  fprintf(out, "\n");
}

static void describe_options(FILE* out, const LiteRtCompilerContext* c, LiteRtOp op) {
#define I32(name) { int32_t v = -77; int s = c->name(op, &v); if (!s) fprintf(out, "    " #name " %d\n", v); }
#define U32(name) { uint32_t v = 77; int s = c->name(op, &v); if (!s) fprintf(out, "    " #name " %u\n", v); }
#define BOOL(name) { bool v = false; int s = c->name(op, &v); if (!s) fprintf(out, "    " #name " %d\n", v); }
#define F32(name) { float v = -77; int s = c->name(op, &v); if (!s) fprintf(out, "    " #name " %a\n", v); }
#define LIST(name)                                              \
  {                                                             \
    const int32_t* v = NULL;                                    \
    int32_t n = 0;                                              \
    int s = c->name(op, &v, &n);                                \
    if (!s) {                                                   \
      fprintf(out, "    " #name " %d:", n);                     \
      for (int32_t i = 0; i < n; i++) fprintf(out, " %d", v[i]); \
      fprintf(out, "\n");                                       \
    }                                                           \
  }
#include "getters.inc"
}

static LiteRtStatus describe_op(FILE* out, const LiteRtCompilerContext* c, LiteRtOp op) {
  LiteRtOpCode code = -1;
  const char* custom = NULL;
  const uint8_t* options = NULL;
  int32_t size = 0;
  LiteRtParamIndex inputs = 0, outputs = 0;
  REQUIRE(c->get_op_code(op, &code));
  LiteRtStatus status = c->get_custom_code(op, &custom);
  fprintf(out, "  op %d custom %d:%s options", code, status, !status ? custom : "");
  status = code == 32 ? c->get_custom_options(op, &options, &size) : 1;
  for (int32_t i = 0; !status && i < size; i++) fprintf(out, " %02x", options[i]);
  fprintf(out, "\n");
  describe_options(out, c, op);
  describe_composite(out, c, op);
  REQUIRE(c->get_num_op_inputs(op, &inputs));
  for (LiteRtParamIndex i = 0; i < inputs; i++) {
    LiteRtTensor tensor = NULL;
    REQUIRE(c->get_op_input(op, i, &tensor));
    describe_tensor(out, c, tensor);
  }
  REQUIRE(c->get_num_op_outputs(op, &outputs));
  fprintf(out, "   to\n");
  for (LiteRtParamIndex i = 0; i < outputs; i++) {
    LiteRtTensor tensor = NULL;
    REQUIRE(c->get_op_output(op, i, &tensor));
    describe_tensor(out, c, tensor);
  }
  return kLiteRtStatusOk;
}

static LiteRtStatus describe_subgraph(FILE* out, const LiteRtCompilerContext* c, LiteRtSubgraph g) {
  LiteRtParamIndex count = 0;
  REQUIRE(c->get_num_subgraph_inputs(g, &count));
  fprintf(out, " inputs\n");
  for (LiteRtParamIndex i = 0; i < count; i++) {
    LiteRtTensor tensor = NULL;
    REQUIRE(c->get_subgraph_input(g, i, &tensor));
    describe_tensor(out, c, tensor);
  }
  REQUIRE(c->get_num_subgraph_outputs(g, &count));
  fprintf(out, " outputs\n");
  for (LiteRtParamIndex i = 0; i < count; i++) {
    LiteRtTensor tensor = NULL;
    REQUIRE(c->get_subgraph_output(g, i, &tensor));
    describe_tensor(out, c, tensor);
  }
  REQUIRE(c->get_num_subgraph_ops(g, &count));
  for (LiteRtParamIndex i = 0; i < count; i++) {
    LiteRtOp op = NULL;
    REQUIRE(c->get_subgraph_op(g, i, &op));
    REQUIRE(describe_op(out, c, op));
  }
  return kLiteRtStatusOk;
}

/* By the functions of the guide, which stock's tool does not have. */
static void write_assets(FILE* out, LiteRtOpaqueOptions opaque) {
  LiteRtStatus (*find)(LiteRtOpaqueOptions, LiteRtCompilerOptions*) =
      dlsym(RTLD_DEFAULT, "LiteRtFindCompilerOptions");
  LiteRtStatus (*get_number)(LiteRtCompilerOptions, LiteRtParamIndex*) =
      dlsym(RTLD_DEFAULT, "LiteRtGetCompilerOptionsNumCustomOpInfo");
  LiteRtStatus (*get)(LiteRtCompilerOptions, LiteRtParamIndex, const char**, const char**) =
      dlsym(RTLD_DEFAULT, "LiteRtGetCompilerOptionsCustomOpInfo");
  LiteRtCompilerOptions options;
  LiteRtParamIndex count = 0;
  if (!opaque || !find || !get_number || !get || find(opaque, &options)) return;
  if (get_number(options, &count)) return;
  for (LiteRtParamIndex i = 0; i < count; i++) {
    const char *name = NULL, *path = NULL;
    if (!get(options, i, &name, &path)) fprintf(out, "asset %s %s\n", name, path);
  }
}

static void write_options(const LiteRtCompilerContext* c, LiteRtEnvironmentOptions env,
                          LiteRtOptions options) {
  const char* path = getenv("SCRIBE_OPTIONS");
  if (!path) return;
  FILE* out = fopen(path, "w");
  LiteRtOpaqueOptions opaque = NULL;
  const char* names = getenv("SCRIBE_PAYLOADS");
  char* copy = strdup(names ? names : "");
  if (options && !c->get_opaque_options(options, &opaque))
    for (char* name = strtok(copy, ","); name; name = strtok(NULL, ",")) {
      void* data = NULL;
      LiteRtStatus status = c->find_opaque_options_data(opaque, name, &data);
      fprintf(out, "%s %d\n%s", name, status, status ? "" : (const char*)data);
    }
  write_assets(out, opaque);
  for (int tag = 0; env && tag < 26; tag++) {
    LiteRtAny value = {0};
    if (c->get_environment_options_value(env, tag, &value)) continue;
    fprintf(out, "tag %d type %d\n", tag, value.type);
  }
  free(copy);
  fclose(out);
}

LiteRtStatus LiteRtGetCompilerPluginVersion(LiteRtApiVersion* version) {
  if (!version) return kLiteRtStatusErrorInvalidArgument;
  *version = (LiteRtApiVersion){0, 1, 0};
  return kLiteRtStatusOk;
}

const char* LiteRtGetCompilerPluginSocManufacturer(void) { return "Scribe"; }

LiteRtStatus LiteRtCreateCompilerPlugin(const LiteRtCompilerContext* context,
                                        LiteRtCompilerPlugin* plugin,
                                        LiteRtEnvironmentOptions env, LiteRtOptions options) {
  *plugin = malloc(sizeof **plugin);
  (*plugin)->context = context;
  num_seen = 0;
  write_options(context, env, options);
  return kLiteRtStatusOk;
}

void LiteRtDestroyCompilerPlugin(LiteRtCompilerPlugin plugin) { free(plugin); }

LiteRtStatus LiteRtGetCompilerPluginSupportedHardware(LiteRtCompilerPlugin plugin,
                                                      LiteRtHwAccelerators* hardware) {
  *hardware = kLiteRtHwAcceleratorNpu;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetNumCompilerPluginSupportedSocModels(LiteRtCompilerPlugin plugin,
                                                          LiteRtParamIndex* count) {
  *count = 2;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompilerPluginSupportedSocModel(LiteRtCompilerPlugin plugin,
                                                      LiteRtParamIndex index, const char** name) {
  static const char* names[] = {"quill", "pencil"};
  if (index >= 2) return kLiteRtStatusErrorIndexOOB;
  *name = names[index];
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompilerPluginSDKVersion(LiteRtCompilerPlugin plugin, const char** version) {
  *version = "1.2 of a kind";
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtCompilerPluginCheckCompilerCompatibility(
    LiteRtApiVersion version, LiteRtCompilerPlugin plugin, LiteRtEnvironmentOptions env,
    LiteRtOptions options, const char* soc_model) {
  bool is_ours = version.major == 0 && version.minor == 1 && version.patch == 0;
  if (!is_ours) return kLiteRtStatusErrorUnsupportedCompilerVersion;
  return soc_model && !strcmp(soc_model, "pencil") ? kLiteRtStatusErrorUnsupported : kLiteRtStatusOk;
}

LiteRtStatus LiteRtCompilerPluginRegisterAllTransformations(LiteRtCompilerPlugin plugin,
                                                            LiteRtTransformation** transformations,
                                                            LiteRtParamIndex* count) {
  *count = choose_rewrites(getenv("SCRIBE_REWRITES"), transformations);
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtCompilerPluginPartition(LiteRtCompilerPlugin plugin, const char* soc_model,
                                           LiteRtSubgraph subgraph, LiteRtOpList ops) {
  const LiteRtCompilerContext* c = plugin->context;
  const char* take = getenv("SCRIBE_TAKE");
  LiteRtParamIndex count = 0;
  REQUIRE(see_buffers(c, subgraph));
  REQUIRE(c->get_num_subgraph_ops(subgraph, &count));
  if (!take) return kLiteRtStatusOk;
  bool all = !strcmp(take, "all");
  for (LiteRtParamIndex i = 0; all ? i < count : *take; i++) {
    char* end = NULL;
    LiteRtParamIndex position = all ? i : strtoull(take, &end, 10), index = 0;
    if (!all) {
      if (*end == ':') index = strtoull(end + 1, &end, 10);
      take = *end == ',' ? end + 1 : end;
    }
    if (position >= count) continue;
    LiteRtOp op = NULL;
    REQUIRE(c->get_subgraph_op(subgraph, position, &op));
    REQUIRE(c->push_op(ops, op, index));
  }
  return kLiteRtStatusOk;
}

/* SCRIBE_FILE is a file that gets the partitions as a model, with a signature for each. */
static LiteRtStatus serialize(const LiteRtCompilerContext* c, LiteRtModel model, size_t count) {
  static char* keys[] = {"first", "second", "third"};
  const char* path = getenv("SCRIBE_FILE");
  LiteRtModelSerializationOptions options = {1};
  uint8_t* data = NULL;
  size_t size = 0, offset = 0;
  if (!path) return kLiteRtStatusOk;
  if (c->serialize_model_with_signatures(model, &data, &size, &offset, false, keys, count + 1,
                                         options) != kLiteRtStatusErrorInvalidArgument)
    return kLiteRtStatusErrorUnknown;
  REQUIRE(c->serialize_model_with_signatures(model, &data, &size, &offset, false, keys, count,
                                             options));
  FILE* out = fopen(path, "wb");
  fwrite(data + offset, 1, size, out);
  fclose(out);
  free(data);
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtCompilerPluginCompile(LiteRtCompilerPlugin plugin, const char* soc_model,
                                         LiteRtModel partitions, LiteRtCompiledResult* result) {
  const LiteRtCompilerContext* c = plugin->context;
  LiteRtCompiledResult made = calloc(1, sizeof *made);
  REQUIRE(c->get_num_model_subgraphs(partitions, &made->count));
  made->texts = calloc(made->count, sizeof *made->texts);
  made->sizes = calloc(made->count, sizeof *made->sizes);
  for (size_t i = 0; i < made->count; i++) {
    LiteRtSubgraph subgraph = NULL;
    REQUIRE(c->get_model_subgraph(partitions, i, &subgraph));
    FILE* out = open_memstream(&made->texts[i], &made->sizes[i]);
    fprintf(out, "for %s\n", soc_model ? soc_model : "(null)");
    LiteRtStatus status = describe_subgraph(out, c, subgraph);
    fclose(out);
    REQUIRE(status);
  }
  *result = made;
  return serialize(c, partitions, made->count);
}

void LiteRtDestroyCompiledResult(LiteRtCompiledResult result) {
  if (!result) return;
  for (size_t i = 0; i < result->count; i++) free(result->texts[i]);
  free(result->texts);
  free(result->sizes);
  free(result);
}

LiteRtStatus LiteRtCompiledResultNumByteCodeModules(LiteRtCompiledResult result,
                                                    LiteRtParamIndex* count) {
  *count = result ? result->count : 0;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompiledResultByteCode(LiteRtCompiledResult result, LiteRtParamIndex index,
                                             const void** data, size_t* size) {
  if (!result || index >= result->count) return kLiteRtStatusErrorIndexOOB;
  *data = result->texts[index];
  *size = result->sizes[index];
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetNumCompiledResultCalls(LiteRtCompiledResult result, LiteRtParamIndex* count) {
  *count = result->count;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompiledResultCallInfo(LiteRtCompiledResult result, LiteRtParamIndex index,
                                             const void** name, size_t* size,
                                             LiteRtParamIndex* module) {
  static char names[1024][16];
  if (!result || index >= result->count || index >= 1024) return kLiteRtStatusErrorIndexOOB;
  *size = (size_t)snprintf(names[index], sizeof names[index], "page_%zu", index);
  *name = names[index];
  *module = index;
  return kLiteRtStatusOk;
}
