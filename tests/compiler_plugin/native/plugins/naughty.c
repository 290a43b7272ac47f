/* The scribe, with one function that does what -DNAUGHTY says. */
#define CREATE 1
#define CREATE_NULL 2
#define MANUFACTURER 3
#define PUSH_GARBAGE 4
#define PUSH_TWICE 5
#define ODD_STATUS 6
#define NO_RESULT 7
#define NULL_BYTE_CODE 8
#define ODD_NAME 9
#define NO_SUCH_MODULE 10
#define KEEP_HANDLE 11
#define REFUSE 12
#define OLD 13

#define LiteRtCreateCompilerPlugin scribe_create
#define LiteRtGetCompilerPluginSocManufacturer scribe_manufacturer
#define LiteRtCompilerPluginPartition scribe_partition
#define LiteRtCompilerPluginCompile scribe_compile
#define LiteRtGetCompiledResultByteCode scribe_byte_code
#define LiteRtGetCompiledResultCallInfo scribe_call_info
#define LiteRtGetCompilerPluginVersion scribe_version
#include "scribe.c"
#undef LiteRtCreateCompilerPlugin
#undef LiteRtGetCompilerPluginSocManufacturer
#undef LiteRtCompilerPluginPartition
#undef LiteRtCompilerPluginCompile
#undef LiteRtGetCompiledResultByteCode
#undef LiteRtGetCompiledResultCallInfo
#undef LiteRtGetCompilerPluginVersion

static LiteRtOp kept;

LiteRtStatus LiteRtGetCompilerPluginVersion(LiteRtApiVersion* version) {
  scribe_version(version);
  if (NAUGHTY == OLD) version->patch = 5;
  return kLiteRtStatusOk;
}

const char* LiteRtGetCompilerPluginSocManufacturer(void) {
  return NAUGHTY == MANUFACTURER ? NULL : "Scribe";
}

LiteRtStatus LiteRtCreateCompilerPlugin(const LiteRtCompilerContext* context,
                                        LiteRtCompilerPlugin* plugin,
                                        LiteRtEnvironmentOptions env, LiteRtOptions options) {
  if (NAUGHTY == CREATE) return kLiteRtStatusErrorInvalidToolConfig;
  if (NAUGHTY == CREATE_NULL) return kLiteRtStatusOk;
  return scribe_create(context, plugin, env, options);
}

LiteRtStatus LiteRtCompilerPluginPartition(LiteRtCompilerPlugin plugin, const char* soc_model,
                                           LiteRtSubgraph subgraph, LiteRtOpList ops) {
  const LiteRtCompilerContext* c = plugin->context;
  LiteRtOp op;
  if (NAUGHTY == PUSH_GARBAGE) return c->push_op(ops, (LiteRtOp)0xdeadbeef, 0);
  if (NAUGHTY == ODD_STATUS) return 4711;
  REQUIRE(c->get_subgraph_op(subgraph, 0, &op));
  if (NAUGHTY == PUSH_TWICE) REQUIRE(c->push_op(ops, op, 0));
  kept = op;
  return c->push_op(ops, op, 0);
}

LiteRtStatus LiteRtCompilerPluginCompile(LiteRtCompilerPlugin plugin, const char* soc_model,
                                         LiteRtModel partitions, LiteRtCompiledResult* result) {
  LiteRtOpCode code;
  if (NAUGHTY == NO_RESULT) return kLiteRtStatusOk;
  if (NAUGHTY == REFUSE) return kLiteRtStatusErrorUnsupported;
  if (NAUGHTY == KEEP_HANDLE) return plugin->context->get_op_code(kept, &code);
  return scribe_compile(plugin, soc_model, partitions, result);
}

LiteRtStatus LiteRtGetCompiledResultByteCode(LiteRtCompiledResult result, LiteRtParamIndex index,
                                             const void** data, size_t* size) {
  LiteRtStatus status = scribe_byte_code(result, index, data, size);
  if (NAUGHTY == NULL_BYTE_CODE) *data = NULL;
  return status;
}

LiteRtStatus LiteRtGetCompiledResultCallInfo(LiteRtCompiledResult result, LiteRtParamIndex index,
                                             const void** name, size_t* size,
                                             LiteRtParamIndex* module) {
  LiteRtStatus status = scribe_call_info(result, index, name, size, module);
  if (NAUGHTY == ODD_NAME) *name = "\xff\xfe", *size = 2;
  if (NAUGHTY == NO_SUCH_MODULE) *module = 9;
  return status;
}
