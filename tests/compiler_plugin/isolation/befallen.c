/* A plugin that takes every op, and to which something happens in the function that BEFALL names: `function:what`. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "litert_npu/compiler_plugin.h"

static void Befall(const char* function) {
  const char* order = getenv("BEFALL");
  size_t size = strlen(function);
  if (order == NULL || strncmp(order, function, size) != 0 || order[size] != ':') return;
  const char* what = order + size + 1;
  fprintf(stderr, "starting %s\n", function);
  if (strcmp(what, "segv") == 0) *(volatile int*)8 = 0;
  if (strcmp(what, "abort") == 0) abort();
  if (strcmp(what, "exit") == 0) exit(3);
  if (strcmp(what, "exit0") == 0) exit(0);
  if (strcmp(what, "kill") == 0) kill(getpid(), SIGKILL);
  for (;;) pause();
}

__attribute__((constructor)) static void Load(void) { Befall("dlopen"); }

static const LiteRtCompilerContext* g_context;
static int g_plugin;
static size_t g_num_calls;

LiteRtStatus LiteRtGetCompilerPluginVersion(LiteRtApiVersion* version) {
  Befall(__func__);
  *version = (LiteRtApiVersion){0, 1, 0};
  return kLiteRtStatusOk;
}

const char* LiteRtGetCompilerPluginSocManufacturer(void) {
  Befall(__func__);
  return "Acme";
}

LiteRtStatus LiteRtCreateCompilerPlugin(
    const LiteRtCompilerContext* context, LiteRtCompilerPlugin* plugin, LiteRtEnvironmentOptions env,
    LiteRtOptions options) {
  Befall(__func__);
  g_context = context;
  *plugin = (LiteRtCompilerPlugin)&g_plugin;
  return kLiteRtStatusOk;
}

void LiteRtDestroyCompilerPlugin(LiteRtCompilerPlugin plugin) { Befall(__func__); }

LiteRtStatus LiteRtGetCompilerPluginSupportedHardware(
    LiteRtCompilerPlugin plugin, LiteRtHwAccelerators* hardware) {
  Befall(__func__);
  *hardware = kLiteRtHwAcceleratorNpu;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetNumCompilerPluginSupportedSocModels(
    LiteRtCompilerPlugin plugin, LiteRtParamIndex* number) {
  Befall(__func__);
  *number = 1;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompilerPluginSupportedSocModel(
    LiteRtCompilerPlugin plugin, LiteRtParamIndex index, const char** name) {
  Befall(__func__);
  *name = "B1";
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompilerPluginSDKVersion(LiteRtCompilerPlugin plugin, const char** version) {
  Befall(__func__);
  *version = "1";
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtCompilerPluginCheckCompilerCompatibility(
    LiteRtApiVersion version, LiteRtCompilerPlugin plugin, LiteRtEnvironmentOptions env,
    LiteRtOptions options, const char* soc_model) {
  Befall(__func__);
  return kLiteRtStatusOk;
}

static LiteRtStatus Match(
    const LiteRtCompilerContext* context, LiteRtBuilder builder, LiteRtOp op) {
  Befall("transformation 'Match'");
  return kLiteRtStatusPatternNoMatch;
}

LiteRtStatus LiteRtCompilerPluginRegisterAllTransformations(
    LiteRtCompilerPlugin plugin, LiteRtTransformation** transformations, LiteRtParamIndex* number) {
  static LiteRtTransformation match = {Match, "Match", 1};
  Befall(__func__);
  *transformations = &match;
  *number = 1;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtCompilerPluginPartition(
    LiteRtCompilerPlugin plugin, const char* soc_model, LiteRtSubgraph subgraph, LiteRtOpList ops) {
  LiteRtParamIndex number = 0;
  Befall(__func__);
  g_context->get_num_subgraph_ops(subgraph, &number);
  for (LiteRtParamIndex index = 0; index < number; ++index) {
    LiteRtOp op;
    g_context->get_subgraph_op(subgraph, index, &op);
    g_context->push_op(ops, op, 0);
  }
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtCompilerPluginCompile(
    LiteRtCompilerPlugin plugin, const char* soc_model, LiteRtModel partitions,
    LiteRtCompiledResult* result) {
  LiteRtParamIndex number = 0;
  Befall(__func__);
  g_context->get_num_model_subgraphs(partitions, &number);
  g_num_calls = number;
  *result = (LiteRtCompiledResult)&g_num_calls;
  return kLiteRtStatusOk;
}

void LiteRtDestroyCompiledResult(LiteRtCompiledResult result) { Befall(__func__); }

LiteRtStatus LiteRtCompiledResultNumByteCodeModules(
    LiteRtCompiledResult result, LiteRtParamIndex* number) {
  Befall(__func__);
  *number = 1;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompiledResultByteCode(
    LiteRtCompiledResult result, LiteRtParamIndex index, const void** data, size_t* size) {
  Befall(__func__);
  *data = "byte code";
  *size = 9;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetNumCompiledResultCalls(LiteRtCompiledResult result, LiteRtParamIndex* number) {
  Befall(__func__);
  *number = g_num_calls;
  return kLiteRtStatusOk;
}

LiteRtStatus LiteRtGetCompiledResultCallInfo(
    LiteRtCompiledResult result, LiteRtParamIndex call, const void** info, size_t* size,
    LiteRtParamIndex* module) {
  Befall(__func__);
  *info = "f";
  *size = 1;
  *module = 0;
  return kLiteRtStatusOk;
}
