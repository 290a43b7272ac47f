/* Uses guide_plugin.h and guide_dispatch.h as code does that LiteRT's guide prints, and as a host does around it. */
#include "expect.h"

#include "litert_npu/support/guide_dispatch.h"
#include "litert_npu/support/guide_plugin.h"

/* The vendor. */

struct LiteRtCompilerPluginT {
  int number;
};

static LiteRtStatus create_answer = kLiteRtStatusOk;
static const char* seen_code; /* of the op that a plugin was asked about last */

LiteRtStatus LiteRtCreateCompilerPlugin(
    LiteRtCompilerPlugin* plugin_out, LiteRtEnvironmentOptions env, LiteRtOptions options) {
  static struct LiteRtCompilerPluginT plugins[8];
  static int number;
  LiteRtOpaqueOptions opaque;
  (void)env;
  EXPECT(LiteRtNpuContext() != NULL);
  if (options == NULL) REFUSED(LiteRtGetOpaqueOptions(options, &opaque));
  if (create_answer == kLiteRtStatusOk) *plugin_out = &plugins[number++];
  return create_answer;
}

void LiteRtDestroyCompilerPlugin(LiteRtCompilerPlugin plugin) { EXPECT(plugin != NULL); }

static LiteRtCompilerPlugin other; /* that is asked inside, if it is not NULL */

static LiteRtStatus ask_other(LiteRtSubgraph subgraph, LiteRtOpList selected_ops);

LiteRtStatus LiteRtCompilerPluginPartition(
    LiteRtCompilerPlugin plugin, const char* soc_model, LiteRtSubgraph subgraph, LiteRtOpList selected_ops) {
  (void)plugin;
  (void)soc_model;
  if (other != NULL) OK(ask_other(subgraph, selected_ops));
  OK(LiteRtGetCustomCode(NULL, &seen_code));
  return LiteRtPushOp(selected_ops, NULL, 0);
}

LiteRtStatus LiteRtCompilerPluginCompile(
    LiteRtCompilerPlugin plugin, const char* soc_model, LiteRtModel partitions, LiteRtCompiledResult* result) {
  (void)plugin;
  (void)soc_model;
  (void)partitions;
  (void)result;
  return LiteRtGetCustomCode(NULL, &seen_code);
}

static LiteRtStatus MyRegisterAsset(
    LiteRtDispatchDeviceContext device_context, const char* asset_name, const LiteRtMemBuffer* asset_buffer) {
  (void)device_context;
  (void)asset_name;
  (void)asset_buffer;
  return kLiteRtStatusOk;
}

static LiteRtStatus get_api_answer = kLiteRtStatusOk;

LiteRtStatus LiteRtDispatchGetApi(LiteRtDispatchApi* api) {
  LiteRtDispatchApi mine;
  memset(&mine, 0, sizeof(mine));
  mine.version.minor = 1;
  mine.register_asset = MyRegisterAsset;
  *api = mine; /* all of it, the header, too */
  return get_api_answer;
}

/* The host. */
#undef LiteRtCreateCompilerPlugin
#undef LiteRtDestroyCompilerPlugin
#undef LiteRtCompilerPluginPartition
#undef LiteRtCompilerPluginCompile
#undef LiteRtDispatchApi
#undef LiteRtDispatchGetApi

static LiteRtStatus ask_other(LiteRtSubgraph subgraph, LiteRtOpList selected_ops) {
  LiteRtCompilerPlugin asked = other;
  other = NULL;
  return LiteRtCompilerPluginPartition(asked, NULL, subgraph, selected_ops);
}

static LiteRtStatus get_first(LiteRtOp op, const char** code) {
  (void)op;
  *code = "first";
  return kLiteRtStatusOk;
}

static LiteRtStatus get_second(LiteRtOp op, const char** code) {
  (void)op;
  *code = "second";
  return kLiteRtStatusOk;
}

static LiteRtStatus push(LiteRtOpList op_list, LiteRtOp op, LiteRtParamIndex partition_index) {
  EXPECT(op_list != NULL && op == NULL && partition_index == 0);
  return kLiteRtStatusOk;
}

static LiteRtCompilerContext first, second;
static int something;
#define SUBGRAPH ((LiteRtSubgraph)(void*)&something)
#define MODEL ((LiteRtModel)(void*)&something)
#define LIST ((LiteRtOpList)(void*)&something)

static void test_contexts(void) {
  LiteRtCompilerPlugin a = NULL, b = NULL;
  LiteRtCompiledResult result = NULL;
  first.get_custom_code = get_first;
  second.get_custom_code = get_second;
  first.push_op = second.push_op = push;
  OK(LiteRtCreateCompilerPlugin(&first, &a, NULL, NULL));
  OK(LiteRtCreateCompilerPlugin(&second, &b, NULL, NULL));
  OK(LiteRtCompilerPluginPartition(a, NULL, SUBGRAPH, LIST));
  EXPECT(strcmp(seen_code, "first") == 0);
  OK(LiteRtCompilerPluginPartition(b, NULL, SUBGRAPH, LIST));
  EXPECT(strcmp(seen_code, "second") == 0);
  OK(LiteRtCompilerPluginCompile(a, NULL, MODEL, &result));
  EXPECT(strcmp(seen_code, "first") == 0);
  other = b; /* a call in a call: the outer one has its own again */
  OK(LiteRtCompilerPluginPartition(a, NULL, SUBGRAPH, LIST));
  EXPECT(strcmp(seen_code, "first") == 0 && LiteRtNpuContext() == NULL);
  REFUSED(LiteRtGetCustomCode(NULL, &seen_code));
  REFUSED(LiteRtPushOp(LIST, NULL, 0));
  LiteRtDestroyCompilerPlugin(a);
  REFUSED(LiteRtCompilerPluginCompile(a, NULL, MODEL, &result)); /* it is gone, and its context is not known */
  OK(LiteRtCompilerPluginCompile(b, NULL, MODEL, &result));
  LiteRtDestroyCompilerPlugin(b);
  LiteRtDestroyCompilerPlugin(NULL);
}

static void test_creation(void) {
  LiteRtCompilerPlugin plugin = NULL;
  LiteRtCompiledResult result = NULL;
  REFUSED(LiteRtCreateCompilerPlugin(NULL, &plugin, NULL, NULL));
  REFUSED(LiteRtCreateCompilerPlugin(&first, NULL, NULL, NULL));
  REFUSED(LiteRtCompilerPluginPartition(NULL, NULL, SUBGRAPH, LIST));
  REFUSED(LiteRtCompilerPluginCompile(NULL, NULL, MODEL, &result));
  create_answer = kLiteRtStatusErrorUnsupported;
  EXPECT(LiteRtCreateCompilerPlugin(&first, &plugin, NULL, NULL) == create_answer && plugin == NULL);
  create_answer = kLiteRtStatusOk;
  allocations_left = 0;
  const LiteRtStatus status = LiteRtCreateCompilerPlugin(&first, &plugin, NULL, NULL);
  allocations_left = -1;
  EXPECT(status == kLiteRtStatusErrorMemoryAllocationFailure && plugin == NULL);
}

static void test_room(void) {
  static const uint16_t kSizes[] = {0, 56, 64, 72};
  REFUSED(LiteRtDispatchGetApi(NULL));
  for (size_t i = 0; i < sizeof(kSizes) / sizeof(kSizes[0]); i++) {
    const bool has_room = kSizes[i] >= sizeof(LiteRtDispatchApiWithAssets);
    /* No more memory than the host says: with sanitizers, one byte behind it ends the program. */
    LiteRtDispatchApi* api = (LiteRtDispatchApi*)calloc(1, kSizes[i] > 56 ? kSizes[i] : 56);
    if (api == NULL) exit(2);
    api->abi_header.struct_size = kSizes[i];
    api->abi_header.major_version = 1;
    OK(LiteRtDispatchGetApi(api));
    EXPECT(api->version.minor == 1 && api->abi_header.major_version == 1);
    EXPECT(api->abi_header.struct_size == (has_room ? sizeof(LiteRtDispatchApiWithAssets) : kSizes[i]));
    if (has_room) {
      LiteRtDispatchApiWithAssets large;
      memcpy((void*)&large, (const void*)api, sizeof(large));
      EXPECT(large.register_asset == MyRegisterAsset);
    }
    api->version.minor = 7;
    get_api_answer = kLiteRtStatusErrorUnsupported;
    EXPECT(LiteRtDispatchGetApi(api) == get_api_answer && api->version.minor == 7);
    get_api_answer = kLiteRtStatusOk;
    free(api);
  }
}

int main(int argc, char** argv) {
  static const Part kParts[] = {{"contexts", test_contexts}, {"creation", test_creation}, {"room", test_room}};
  return run_part(kParts, sizeof(kParts) / sizeof(kParts[0]), argc, argv);
}
