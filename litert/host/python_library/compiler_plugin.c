/* Exported functions of a compiler plugin written in Python: each function passes its arguments to Python. */
#include "litert_npu/compiler_plugin.h"

#include <stdatomic.h>

#include "configuration.h"
#include "start.h"

#define SYMBOLS(X) \
  X(LiteRtGetCompilerPluginVersion) \
  X(LiteRtGetCompilerPluginSocManufacturer) \
  X(LiteRtCreateCompilerPlugin) \
  X(LiteRtDestroyCompilerPlugin) \
  X(LiteRtGetCompilerPluginSupportedHardware) \
  X(LiteRtGetNumCompilerPluginSupportedSocModels) \
  X(LiteRtGetCompilerPluginSupportedSocModel) \
  X(LiteRtGetCompilerPluginSDKVersion) \
  X(LiteRtCompilerPluginCheckCompilerCompatibility) \
  X(LiteRtCompilerPluginRegisterAllTransformations) \
  X(LiteRtCompilerPluginPartition) \
  X(LiteRtCompilerPluginGetRefusal) \
  X(LiteRtCompilerPluginCompile) \
  X(LiteRtDestroyCompiledResult) \
  X(LiteRtCompiledResultNumByteCodeModules) \
  X(LiteRtGetCompiledResultByteCode) \
  X(LiteRtGetCompiledResultHandle) \
  X(LiteRtGetNumCompiledResultCalls) \
  X(LiteRtGetCompiledResultCallInfo) \
  X(LiteRtIsCompiledResultOutputDynamic)

#define INDEX(name) INDEX_##name,
enum { SYMBOLS(INDEX) NUM_FUNCTIONS };

#define NAME(name) #name "\n"
static python_function functions[NUM_FUNCTIONS];
static _Atomic bool is_closed;

static void close_functions(void) { is_closed = true; }

static const struct python_library library = {SYMBOLS(NAME), functions, close_functions};

#define OF_PYTHON(name) ((__typeof__(&name))functions[INDEX_##name])

/* A vendor that cannot be loaded has already printed an error to standard error. */
#define HAND_ON(name, ...) \
  if (is_closed) return kLiteRtStatusErrorRuntimeFailure; \
  if (!start_python(&library)) return kLiteRtStatusErrorDynamicLoading; \
  if (!functions[INDEX_##name]) return kLiteRtStatusErrorUnsupported; \
  return OF_PYTHON(name)(__VA_ARGS__)

#define HAND_ON_VOID(name, ...) \
  if (!is_closed && start_python(&library)) OF_PYTHON(name)(__VA_ARGS__)

LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetCompilerPluginVersion(LiteRtApiVersion* api_version) {
  HAND_ON(LiteRtGetCompilerPluginVersion, api_version);
}

/* The only function without a status: it returns a value whether Python is available or not. */
LITERT_CAPI_EXPORT const char* LiteRtGetCompilerPluginSocManufacturer(void) { return MANUFACTURER; }

LITERT_CAPI_EXPORT LiteRtStatus LiteRtCreateCompilerPlugin(
    const LiteRtCompilerContext* compiler_context, LiteRtCompilerPlugin* compiler_plugin, LiteRtEnvironmentOptions env,
    LiteRtOptions options) {
  HAND_ON(LiteRtCreateCompilerPlugin, compiler_context, compiler_plugin, env, options);
}

LITERT_CAPI_EXPORT void LiteRtDestroyCompilerPlugin(LiteRtCompilerPlugin compiler_plugin) {
  HAND_ON_VOID(LiteRtDestroyCompilerPlugin, compiler_plugin);
}

LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetCompilerPluginSupportedHardware(
    LiteRtCompilerPlugin compiler_plugin, LiteRtHwAccelerators* supported_hardware) {
  HAND_ON(LiteRtGetCompilerPluginSupportedHardware, compiler_plugin, supported_hardware);
}

LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetNumCompilerPluginSupportedSocModels(
    LiteRtCompilerPlugin compiler_plugin, LiteRtParamIndex* num_supported_soc_models) {
  HAND_ON(LiteRtGetNumCompilerPluginSupportedSocModels, compiler_plugin, num_supported_soc_models);
}

LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetCompilerPluginSupportedSocModel(
    LiteRtCompilerPlugin compiler_plugin, LiteRtParamIndex soc_model_idx, const char** soc_model_name) {
  HAND_ON(LiteRtGetCompilerPluginSupportedSocModel, compiler_plugin, soc_model_idx, soc_model_name);
}

LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetCompilerPluginSDKVersion(
    LiteRtCompilerPlugin compiler_plugin, const char** sdk_version) {
  HAND_ON(LiteRtGetCompilerPluginSDKVersion, compiler_plugin, sdk_version);
}

LITERT_CAPI_EXPORT LiteRtStatus LiteRtCompilerPluginCheckCompilerCompatibility(
    LiteRtApiVersion api_version, LiteRtCompilerPlugin compiler_plugin, LiteRtEnvironmentOptions env,
    LiteRtOptions options, const char* soc_model_name) {
  HAND_ON(LiteRtCompilerPluginCheckCompilerCompatibility, api_version, compiler_plugin, env, options, soc_model_name);
}

LITERT_CAPI_EXPORT LiteRtStatus LiteRtCompilerPluginRegisterAllTransformations(
    LiteRtCompilerPlugin compiler_plugin, LiteRtTransformation** transformations, LiteRtParamIndex* num_patterns) {
  HAND_ON(LiteRtCompilerPluginRegisterAllTransformations, compiler_plugin, transformations, num_patterns);
}

LITERT_CAPI_EXPORT LiteRtStatus LiteRtCompilerPluginPartition(
    LiteRtCompilerPlugin compiler_plugin, const char* soc_model, LiteRtSubgraph subgraph, LiteRtOpList selected_ops) {
  HAND_ON(LiteRtCompilerPluginPartition, compiler_plugin, soc_model, subgraph, selected_ops);
}

LITERT_CAPI_EXPORT LiteRtStatus LiteRtCompilerPluginGetRefusal(
    LiteRtCompilerPlugin compiler_plugin, LiteRtParamIndex op_idx, const char** reason) {
  HAND_ON(LiteRtCompilerPluginGetRefusal, compiler_plugin, op_idx, reason);
}

LITERT_CAPI_EXPORT LiteRtStatus LiteRtCompilerPluginCompile(
    LiteRtCompilerPlugin compiler_plugin, const char* soc_model, LiteRtModel partitions,
    LiteRtCompiledResult* compiled_result) {
  HAND_ON(LiteRtCompilerPluginCompile, compiler_plugin, soc_model, partitions, compiled_result);
}

LITERT_CAPI_EXPORT void LiteRtDestroyCompiledResult(LiteRtCompiledResult result) {
  HAND_ON_VOID(LiteRtDestroyCompiledResult, result);
}

LITERT_CAPI_EXPORT LiteRtStatus LiteRtCompiledResultNumByteCodeModules(
    LiteRtCompiledResult compiled_result, LiteRtParamIndex* num_byte_code) {
  HAND_ON(LiteRtCompiledResultNumByteCodeModules, compiled_result, num_byte_code);
}

LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetCompiledResultByteCode(
    LiteRtCompiledResult compiled_result, LiteRtParamIndex byte_code_idx, const void** byte_code,
    size_t* byte_code_size) {
  HAND_ON(LiteRtGetCompiledResultByteCode, compiled_result, byte_code_idx, byte_code, byte_code_size);
}

LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetCompiledResultHandle(
    LiteRtCompiledResult compiled_result, LiteRtParamIndex byte_code_idx, LiteRtJitExecutable* handle) {
  HAND_ON(LiteRtGetCompiledResultHandle, compiled_result, byte_code_idx, handle);
}

LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetNumCompiledResultCalls(
    LiteRtCompiledResult compiled_result, LiteRtParamIndex* num_calls) {
  HAND_ON(LiteRtGetNumCompiledResultCalls, compiled_result, num_calls);
}

LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetCompiledResultCallInfo(
    LiteRtCompiledResult compiled_result, LiteRtParamIndex call_idx, const void** call_info, size_t* call_info_size,
    LiteRtParamIndex* byte_code_idx) {
  HAND_ON(LiteRtGetCompiledResultCallInfo, compiled_result, call_idx, call_info, call_info_size, byte_code_idx);
}

LITERT_CAPI_EXPORT LiteRtStatus LiteRtIsCompiledResultOutputDynamic(
    LiteRtCompiledResult compiled_result, LiteRtParamIndex call_idx, LiteRtParamIndex output_idx, bool* is_dynamic) {
  HAND_ON(LiteRtIsCompiledResultOutputDynamic, compiled_result, call_idx, output_idx, is_dynamic);
}
