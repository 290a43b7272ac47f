/* This header declares the functions that a compiler plugin exports. The plugin is a library called
 * `libLiteRtCompilerPlugin_<vendor>.so`.
 *
 * The host looks up each function by its name. All functions are required, except LiteRtGetCompiledResultHandle,
 * LiteRtCompilerPluginGetRefusal and LiteRtIsCompiledResultOutputDynamic. Each paragraph that begins with a name, such
 * as plugin.version, is a rule of the contract; `litert-npu vendor check` reports the names of broken rules. */
#ifndef LITERT_NPU_COMPILER_PLUGIN_H_
#define LITERT_NPU_COMPILER_PLUGIN_H_

#include "litert_npu/compiler_context.h"
#include "litert_npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Handles of the plugin. Only the plugin knows the structs behind them. */
typedef struct LiteRtCompilerPluginT* LiteRtCompilerPlugin;
typedef struct LiteRtCompiledResultT* LiteRtCompiledResult;

/* Called for one op. Returns Ok if the pattern matched and has built the ops that replace the op, and PatternNoMatch
 * otherwise. */
typedef LiteRtStatus (*LiteRtPatternFn)(
    const LiteRtCompilerContext* context, LiteRtBuilder builder, LiteRtOp op);

typedef struct {
  LiteRtPatternFn pattern;
  const char* name;
  size_t benefit;
} LiteRtTransformation;

/* Returns the version of the plugin interface for which the plugin was written.
 *
 * [plugin.symbols] dlopen can load the library with the flags RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND | RTLD_NODELETE.
 * The library exports all required functions of this header.
 * [plugin.version] LiteRtGetCompilerPluginVersion returns 0.1.0, which is the version of the interface in this header.
 * The host can call LiteRtGetCompilerPluginVersion before it creates a plugin.
 * [plugin.statuses] Each status that a function of this header returns is a value of the enum LiteRtStatus.
 * [plugin.null_arguments] Recommended: if an out argument (a pointer to memory for a result) or a handle is NULL, a
 * function returns InvalidArgument and does nothing else. The exceptions are the arguments for which another rule
 * allows NULL, such as create.no_options and result.nothing. Hosts pass NULL only for these arguments. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetCompilerPluginVersion(LiteRtApiVersion* api_version);

/* Returns the name of the manufacturer. Users select the plugin by this name, with the flag `--soc_manufacturer`. Each
 * file that the plugin compiles contains the name.
 *
 * [plugin.manufacturer] The name of the manufacturer is a text of 1 to 123 bytes, because stock LiteRT refuses longer
 * names. It is the same at each call, and stays valid while the library is loaded. The host can call
 * LiteRtGetCompilerPluginSocManufacturer before it creates a plugin. */
LITERT_CAPI_EXPORT const char* LiteRtGetCompilerPluginSocManufacturer(void);

/* Creates a plugin.
 *
 * [create.ok] LiteRtCreateCompilerPlugin succeeds if the options are empty, and the compiler context (the host's table
 * of functions) has all slots (function pointers) of compiler_context.h.
 * [create.many] Several plugins may exist at the same time, and do not affect each other. The host destroys each plugin
 * once.
 * [create.again] After the host has destroyed all plugins, it can create another plugin.
 * [create.no_options] `env` and `options` may be NULL if the user gave no options.
 * [create.context] The compiler context belongs to the host and lives as long as the process. The compiler context of
 * an older host may have fewer slots, and the plugin does not call the missing slots. The macro LITERT_HAS checks
 * whether the compiler context has a slot.
 * [create.slot_failure] Recommended: if a slot of the compiler context returns a failure, the plugin does not crash.
 * Instead, LiteRtCompilerPluginPartition or LiteRtCompilerPluginCompile fails, or the plugin leaves the op on the CPU.
 * [create.failure] After a failure of LiteRtCreateCompilerPlugin, there is no plugin to destroy, and the out argument
 * is unchanged or NULL. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtCreateCompilerPlugin(
    const LiteRtCompilerContext* compiler_context, LiteRtCompilerPlugin* compiler_plugin,
    LiteRtEnvironmentOptions env, LiteRtOptions options);

/* Destroys a plugin.
 *
 * [destroy.null] LiteRtDestroyCompilerPlugin does nothing if the plugin is NULL.
 * [plugin.ends] When the process ends after all plugins are destroyed, the library does not crash, hang or change the
 * exit status.
 * [destroy.results] The host destroys all compile results of a plugin before it destroys the plugin. */
LITERT_CAPI_EXPORT void LiteRtDestroyCompilerPlugin(LiteRtCompilerPlugin compiler_plugin);

/* Returns the kinds of hardware that the plugin compiles for, as a bit mask.
 *
 * [hardware.npu] The bit mask includes kLiteRtHwAcceleratorNpu. If a host compiles a model while it loads the model,
 * the host skips plugins without this bit. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetCompilerPluginSupportedHardware(
    LiteRtCompilerPlugin compiler_plugin, LiteRtHwAccelerators* supported_hardware);

/* Returns the number of SoC models (types of chips) that the plugin supports.
 *
 * [soc_models.some] The plugin supports at least one SoC model; the first is the default. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetNumCompilerPluginSupportedSocModels(
    LiteRtCompilerPlugin compiler_plugin, LiteRtParamIndex* num_supported_soc_models);

/* Returns the name of a SoC model.
 *
 * [soc_models.names] The name of a SoC model is a text of 1 to 123 bytes. It differs from the names of the other SoC
 * models, and stays valid until the plugin is destroyed.
 * [soc_models.each] LiteRtCompilerPluginPartition and LiteRtCompilerPluginCompile accept each SoC model, but
 * LiteRtCompilerPluginPartition may select fewer ops for some SoC models.
 * [soc_models.index] An index beyond the last SoC model is refused with InvalidArgument, IndexOOB or Unsupported. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetCompilerPluginSupportedSocModel(
    LiteRtCompilerPlugin compiler_plugin, LiteRtParamIndex soc_model_idx, const char** soc_model_name);

/* Returns the version of the vendor's compiler, in any form.
 *
 * [sdk_version.text] The version of the vendor's compiler is a text that may be empty. It stays valid until the plugin
 * is destroyed. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetCompilerPluginSDKVersion(
    LiteRtCompilerPlugin compiler_plugin, const char** sdk_version);

/* Refuses a host or a SoC model that the plugin does not support.
 *
 * [compatibility.ours] LiteRtCompilerPluginCheckCompilerCompatibility accepts version 0.1.0 of the interface, both with
 * the plugin's first SoC model and with NULL in place of a SoC model.
 * [compatibility.refusal] If LiteRtCompilerPluginCheckCompilerCompatibility refuses the host or the SoC model, the
 * status is UnsupportedCompilerVersion, Unsupported or WrongVersion. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtCompilerPluginCheckCompilerCompatibility(
    LiteRtApiVersion api_version, LiteRtCompilerPlugin compiler_plugin, LiteRtEnvironmentOptions env,
    LiteRtOptions options, const char* soc_model_name);

/* Returns the transformations that the host applies before it partitions the model. The pattern of a transformation is
 * a function that the host calls for an op of the graph; if the op matches, the function changes the graph.
 *
 * [transformations.lifetime] The array of transformations and the names in the array belong to the plugin, and stay
 * valid until the plugin is destroyed.
 * [transformations.none] If the plugin has no patterns, `num_patterns` is 0, and the array may be NULL.
 * [transformations.pattern] A pattern that does not match changes nothing and returns PatternNoMatch. A pattern that
 * matches changes the graph only through its argument `builder`. The host scans the graph again after each match. The
 * host first tries the transformations with a higher `benefit`, a field of LiteRtTransformation. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtCompilerPluginRegisterAllTransformations(
    LiteRtCompilerPlugin compiler_plugin, LiteRtTransformation** transformations,
    LiteRtParamIndex* num_patterns);

/* Selects the ops that the NPU takes from a subgraph, by calling `push_op` of the compiler context for each of these
 * ops.
 *
 * [partition.ops] Each op that the plugin pushes belongs to the given subgraph, and is pushed only once. A partition
 * consists of ops that the plugin pushed with the same partition index (an argument of `push_op`), and that are
 * consecutive in execution order. Therefore no path through CPU ops leads from a partition back to the same partition.
 * [partition.reads_only] LiteRtCompilerPluginPartition does not change the subgraph.
 * [partition.soc_model] If `soc_model` is NULL, the plugin chooses a SoC model.
 * [partition.repeatable] The host calls LiteRtCompilerPluginPartition for each subgraph, and again after a change of
 * the subgraph. The plugin selects the same ops whenever it gets the same subgraph. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtCompilerPluginPartition(
    LiteRtCompilerPlugin compiler_plugin, const char* soc_model, LiteRtSubgraph subgraph,
    LiteRtOpList selected_ops);

/* Returns the reason why the plugin did not take an op of the subgraph that the last call of
 * LiteRtCompilerPluginPartition received. The compiler's report shows this reason. Stock LiteRT does not know this
 * function, and does not call it.
 *
 * [refusal.text] `op_idx` is the op's index in the subgraph. The reason is a phrase or a sentence in UTF-8, and stays
 * valid until the next call of LiteRtCompilerPluginPartition, or until the plugin is destroyed.
 * [refusal.none] The status is NotFound if the plugin took the op or gives no reason, or if the index is beyond the
 * last op. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtCompilerPluginGetRefusal(
    LiteRtCompilerPlugin compiler_plugin, LiteRtParamIndex op_idx, const char** reason);

/* Compiles a model in which each subgraph is a partition.
 *
 * [compile.subgraphs] Each subgraph becomes an NPU call, which has the inputs and outputs of the subgraph, in the
 * subgraph's order.
 * [compile.ok] The plugin compiles all partitions that the host made from the ops that the plugin took.
 * [compile.shared_weights] Recommended: if several subgraphs share weights, the byte code contains these weights only
 * once. If two tensors share weights, `get_weights_buffer_id` returns the same number for both.
 * [compile.soc_model] If `soc_model` is NULL, the plugin chooses a SoC model.
 * [compile.repeatable] The host may call LiteRtCompilerPluginCompile again, even before it destroys the first result.
 * [compile.failure] After a failure of LiteRtCompilerPluginCompile, the out argument is unchanged or NULL, and the
 * plugin can be used again. A plugin should take only ops that it can compile (rule compile.ok). If a plugin returns
 * Unsupported nevertheless, litert-npu tries again with fewer ops. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtCompilerPluginCompile(
    LiteRtCompilerPlugin compiler_plugin, const char* soc_model, LiteRtModel partitions,
    LiteRtCompiledResult* compiled_result);

/* Destroys a compile result.
 *
 * [result.destroy_null] LiteRtDestroyCompiledResult does nothing if the result is NULL. */
LITERT_CAPI_EXPORT void LiteRtDestroyCompiledResult(LiteRtCompiledResult result);

/* Returns the number of byte code modules in a compile result.
 *
 * [result.modules] A compile result with NPU calls has at least one byte code module.
 * [result.nothing] If LiteRtCompilerPluginPartition selected no ops, stock LiteRT's `apply_plugin_main` calls
 * LiteRtCompiledResultNumByteCodeModules with a NULL result. Return Ok and 0 modules for a NULL result; otherwise
 * `apply_plugin_main` fails. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtCompiledResultNumByteCodeModules(
    LiteRtCompiledResult compiled_result, LiteRtParamIndex* num_byte_code);

/* Returns a byte code module.
 *
 * [result.byte_code] The byte code of a module is not empty. The bytes of the byte code belong to the compile result,
 * and are the same at each call until the result is destroyed.
 * [result.index] Recommended: an index beyond the last module is refused with InvalidArgument or IndexOOB. Hosts do not
 * pass such an index. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetCompiledResultByteCode(
    LiteRtCompiledResult compiled_result, LiteRtParamIndex byte_code_idx, const void** byte_code,
    size_t* byte_code_size);

/* Optional: returns an executable that exists in memory, in place of byte code. Hosts can call this function when they
 * compile a model at load time and write no file. The status Unsupported means that the plugin makes no executables in
 * memory. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetCompiledResultHandle(
    LiteRtCompiledResult compiled_result, LiteRtParamIndex byte_code_idx, LiteRtJitExecutable* handle);

/* Returns the number of NPU calls in a compile result.
 *
 * [result.calls] The compile result has one NPU call for each compiled subgraph, in the order of the subgraphs. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetNumCompiledResultCalls(
    LiteRtCompiledResult compiled_result, LiteRtParamIndex* num_calls);

/* Returns the function name and the byte code module of an NPU call.
 *
 * [result.call_info] The name of the call's function has at least one byte; the size of the name does not include a
 * terminator. The name belongs to the compile result, and stays valid until the result is destroyed. The returned index
 * of a byte code module is less than the number of modules. NPU calls of one module have different function names. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetCompiledResultCallInfo(
    LiteRtCompiledResult compiled_result, LiteRtParamIndex call_idx, const void** call_info,
    size_t* call_info_size, LiteRtParamIndex* byte_code_idx);

/* Returns whether an output of an NPU call is dynamic, which means that its shape is known only after a run. Stock
 * LiteRT does not know this function, and does not call it. Leave an op with such an output on the CPU unless the user
 * gave a bound for the shape of the output; LiteRtNpuFindShapeBound finds this bound. Stock LiteRT has no such bounds.
 *
 * For each dynamic output, the call has an additional int32 output, which has one element for each dimension. The
 * additional outputs follow the outputs of the subgraph, in the order of the dynamic outputs. In
 * `get_output_requirements`, the dispatch library gets a tensor type with -1 for unknown dimensions, and returns the
 * size of the largest possible output. A run writes the data at the beginning of the dynamic output's buffer, and the
 * shape into the int32 output.
 *
 * [result.dynamic_output] An output with a fixed shape is not dynamic. LiteRtIsCompiledResultOutputDynamic returns the
 * same value at each call. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtIsCompiledResultOutputDynamic(
    LiteRtCompiledResult compiled_result, LiteRtParamIndex call_idx, LiteRtParamIndex output_idx,
    bool* is_dynamic);

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_COMPILER_PLUGIN_H_ */
