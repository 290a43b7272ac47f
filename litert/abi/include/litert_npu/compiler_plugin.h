/* The functions that a compiler plugin exports, from a library called `libLiteRtCompilerPlugin_<vendor>.so`.
 *
 * The host looks each of them up by its name; all are needed but LiteRtGetCompiledResultHandle,
 * LiteRtCompilerPluginGetRefusal and LiteRtIsCompiledResultOutputDynamic. Paragraphs that begin
 * with a name in brackets are the contract: `litert-npu vendor check` reports by these names. */
#ifndef LITERT_NPU_COMPILER_PLUGIN_H_
#define LITERT_NPU_COMPILER_PLUGIN_H_

#include "litert_npu/compiler_context.h"
#include "litert_npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The plugin's own; what is behind them only it knows. */
typedef struct LiteRtCompilerPluginT* LiteRtCompilerPlugin;
typedef struct LiteRtCompiledResultT* LiteRtCompiledResult;

/* Asked about one op: Ok if it matched, and has built what takes the op's place; PatternNoMatch if not. */
typedef LiteRtStatus (*LiteRtPatternFn)(
    const LiteRtCompilerContext* context, LiteRtBuilder builder, LiteRtOp op);

typedef struct {
  LiteRtPatternFn pattern;
  const char* name;
  size_t benefit;
} LiteRtTransformation;

/* Says which version of this interface the plugin was written for.
 *
 * [plugin.symbols] The library loads by dlopen with RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND | RTLD_NODELETE, and exports
 * all functions of this header but the optional one.
 * [plugin.version] It is 0.1.0, given without a plugin having been created.
 * [plugin.statuses] Whatever a function of this header answers is one of LiteRtStatus.
 * [plugin.null_arguments] Recommended: a function that is given NULL where it writes its answer, or where a handle
 * belongs, returns InvalidArgument and does nothing else. No host does that, but for result.nothing. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetCompilerPluginVersion(LiteRtApiVersion* api_version);

/* Says whose plugin it is: `--soc_manufacturer`, and in the stamp of each compiled file.
 *
 * [plugin.manufacturer] Text of 1 to 123 bytes, the same at each call, valid as long as the library. It is asked without
 * a plugin having been created. */
LITERT_CAPI_EXPORT const char* LiteRtGetCompilerPluginSocManufacturer(void);

/* Makes a plugin.
 *
 * [create.ok] With a context of this header, and options that say nothing, it succeeds.
 * [create.many] Several plugins may exist at one time, and do not know of each other; each is destroyed once.
 * [create.again] After all are destroyed another can be made.
 * [create.no_options] `env` and `options` may be NULL: no options were given.
 * [create.context] The context is the host's and lives as long as the process; slots are called only if they are there
 * (LITERT_HAS).
 * [create.slot_failure] Recommended: a slot that answers with a failure makes `partition` or `compile` fail, or leave the
 * op, and no more than that.
 * [create.failure] After a failure nothing is left to destroy: what the out argument points to is unchanged or NULL. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtCreateCompilerPlugin(
    const LiteRtCompilerContext* compiler_context, LiteRtCompilerPlugin* compiler_plugin,
    LiteRtEnvironmentOptions env, LiteRtOptions options);

/* Releases a plugin.
 *
 * [destroy.null] NULL is fine, and does nothing.
 * [plugin.ends] When the process ends after that, it ends: nothing of the library's crashes, hangs or changes the exit
 * status.
 * [destroy.results] Results of `compile` are destroyed before their plugin. */
LITERT_CAPI_EXPORT void LiteRtDestroyCompilerPlugin(LiteRtCompilerPlugin compiler_plugin);

/* Says what hardware it compiles for, in bits.
 *
 * [hardware.npu] The NPU is among it: JIT passes over plugins without it. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetCompilerPluginSupportedHardware(
    LiteRtCompilerPlugin compiler_plugin, LiteRtHwAccelerators* supported_hardware);

/* Says how many SoC models there are.
 *
 * [soc_models.some] At least one; the first is the default. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetNumCompilerPluginSupportedSocModels(
    LiteRtCompilerPlugin compiler_plugin, LiteRtParamIndex* num_supported_soc_models);

/* Names a SoC model.
 *
 * [soc_models.names] Text of 1 to 123 bytes, each another, valid as long as the plugin.
 * [soc_models.each] `partition` and `compile` take each, though perhaps fewer ops for some.
 * [soc_models.index] An index that is too high is refused with InvalidArgument, IndexOOB or Unsupported. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetCompilerPluginSupportedSocModel(
    LiteRtCompilerPlugin compiler_plugin, LiteRtParamIndex soc_model_idx, const char** soc_model_name);

/* Says which version of the vendor's compiler it is, in any form.
 *
 * [sdk_version.text] Text, which may be empty, valid as long as the plugin. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetCompilerPluginSDKVersion(
    LiteRtCompilerPlugin compiler_plugin, const char** sdk_version);

/* Refuses a host or a SoC model that it cannot serve.
 *
 * [compatibility.ours] The version of this header, with its own first SoC model or NULL, is taken.
 * [compatibility.refusal] What is refused is refused with UnsupportedCompilerVersion, Unsupported or WrongVersion. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtCompilerPluginCheckCompilerCompatibility(
    LiteRtApiVersion api_version, LiteRtCompilerPlugin compiler_plugin, LiteRtEnvironmentOptions env,
    LiteRtOptions options, const char* soc_model_name);

/* Gives the patterns that the host is to apply before it partitions.
 *
 * [transformations.lifetime] The array, and the names in it, are the plugin's and valid as long as it.
 * [transformations.none] With none, the number is 0, and the array may be NULL.
 * [transformations.pattern] A pattern that does not match changes nothing and returns PatternNoMatch; one that matches
 * changes the graph through the builder alone. The host scans again after each match, the highest benefit first. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtCompilerPluginRegisterAllTransformations(
    LiteRtCompilerPlugin compiler_plugin, LiteRtTransformation** transformations,
    LiteRtParamIndex* num_patterns);

/* Says which ops of a subgraph the NPU takes, by the context's `push_op`.
 *
 * [partition.ops] Each op is of this subgraph, and pushed once. Ops of one index that run one after the other
 * become a partition, so that no cycle runs through the CPU.
 * [partition.reads_only] The subgraph is not changed.
 * [partition.soc_model] `soc_model` may be NULL: the plugin chooses.
 * [partition.repeatable] It is called for each subgraph, again after a change, and gives the same answer for the same
 * subgraph. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtCompilerPluginPartition(
    LiteRtCompilerPlugin compiler_plugin, const char* soc_model, LiteRtSubgraph subgraph,
    LiteRtOpList selected_ops);

/* Says why the plugin did not take an op of the subgraph that it was last asked about: the report has it. Stock LiteRT
 * has no such function, and does not call it.
 *
 * [refusal.text] `op_idx` counts the subgraph's ops. The reason is text in UTF-8, a phrase or a sentence, valid until the
 * plugin is asked about a subgraph again, or destroyed.
 * [refusal.none] For an op that was taken, one without a reason and one that is not there the status is NotFound. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtCompilerPluginGetRefusal(
    LiteRtCompilerPlugin compiler_plugin, LiteRtParamIndex op_idx, const char** reason);

/* Compiles a model, each subgraph of which is a partition.
 *
 * [compile.subgraphs] Inputs and outputs of a call are those of its subgraph, in their order.
 * [compile.ok] What the plugin took, and the host grouped, compiles.
 * [compile.shared_weights] Recommended: weights that several subgraphs share, those of one `get_weights_buffer_id`, are
 * in the byte code once.
 * [compile.soc_model] `soc_model` may be NULL: the plugin chooses.
 * [compile.repeatable] It may be called again, also before the first result is destroyed.
 * [compile.failure] After a failure the out argument is unchanged or NULL, and the plugin can be used again. Unsupported
 * refuses: this host then tries fewer ops. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtCompilerPluginCompile(
    LiteRtCompilerPlugin compiler_plugin, const char* soc_model, LiteRtModel partitions,
    LiteRtCompiledResult* compiled_result);

/* Releases a result.
 *
 * [result.destroy_null] NULL is fine, and does nothing. */
LITERT_CAPI_EXPORT void LiteRtDestroyCompiledResult(LiteRtCompiledResult result);

/* Says how many byte code modules a result has.
 *
 * [result.modules] At least one for a result with calls.
 * [result.nothing] Stock's `apply_plugin_main` asks with a NULL result where nothing was selected: answer Ok and 0
 * modules, or it fails. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtCompiledResultNumByteCodeModules(
    LiteRtCompiledResult compiled_result, LiteRtParamIndex* num_byte_code);

/* Gives a byte code module.
 *
 * [result.byte_code] Not empty; the bytes are the result's, and the same at each call until it is destroyed.
 * [result.index] Recommended: an index that is too high is refused with InvalidArgument or IndexOOB. No host asks for
 * one. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetCompiledResultByteCode(
    LiteRtCompiledResult compiled_result, LiteRtParamIndex byte_code_idx, const void** byte_code,
    size_t* byte_code_size);

/* Optional: gives an executable that need not be written to a file, for JIT; Unsupported is "there is none". */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetCompiledResultHandle(
    LiteRtCompiledResult compiled_result, LiteRtParamIndex byte_code_idx, LiteRtJitExecutable* handle);

/* Says how many calls a result has.
 *
 * [result.calls] One for each subgraph that was compiled, in their order. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetNumCompiledResultCalls(
    LiteRtCompiledResult compiled_result, LiteRtParamIndex* num_calls);

/* Says which function of which module a call is.
 *
 * [result.call_info] A name of at least one byte, whose size is given without a terminator, the result's until it is
 * destroyed; and the index of a module that there is. Calls of one module have different names. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtGetCompiledResultCallInfo(
    LiteRtCompiledResult compiled_result, LiteRtParamIndex call_idx, const void** call_info,
    size_t* call_info_size, LiteRtParamIndex* byte_code_idx);

/* Says whether the shape of a call's output is known only after a run. Stock LiteRT has no such function, and does not
 * call it: leave an op with such an output on the CPU unless the user has given the output a bound, which
 * LiteRtNpuFindShapeBound finds, and stock does not have.
 *
 * The call gets an int32 output of shape [rank] for each of these outputs, in their order, behind the outputs of its
 * subgraph. Its driver gives the size of the largest output in `get_output_requirements`, whose type has -1 for unknown
 * dimensions. A run writes the data at the beginning of the output, and the shape into the int32 output.
 *
 * [result.dynamic_output] An output of fixed shape is not dynamic. The answer is the same at each call. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtIsCompiledResultOutputDynamic(
    LiteRtCompiledResult compiled_result, LiteRtParamIndex call_idx, LiteRtParamIndex output_idx,
    bool* is_dynamic);

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_COMPILER_PLUGIN_H_ */
