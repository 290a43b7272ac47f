/* Compiles a compiler plugin in the form that LiteRT's guide for custom op assets prints: with a
 * LiteRtCreateCompilerPlugin of three arguments, free functions such as LiteRtPushOp, and in C++ `op.Code()` and
 * `op.Get()`. This header is optional. Include it in only one source file of the plugin, before the functions that you
 * write.
 *
 * You write LiteRtCreateCompilerPlugin, LiteRtDestroyCompilerPlugin, LiteRtCompilerPluginPartition and
 * LiteRtCompilerPluginCompile. Macros give your functions other names, and this header exports the functions of
 * compiler_plugin.h, which call your functions. During such a call, and only in its thread, the free functions use the
 * compiler context of the plugin that is called. In hosts without custom op infos, such as release 2.3.0 of LiteRT,
 * LiteRtFindCompilerOptions returns NotFound. */
#ifndef LITERT_NPU_SUPPORT_GUIDE_PLUGIN_H_
#define LITERT_NPU_SUPPORT_GUIDE_PLUGIN_H_

#include <pthread.h>
#include <stdlib.h>

#include "litert_npu/compiler_plugin.h"
#include "litert_npu/support/custom_op_assets.h"
#include "litert_npu/support/errors.h"

#ifdef __cplusplus
#include <vector>

extern "C" {
#endif

/* Your functions, under their names in the guide, which the macros below replace. */
#define LITERT_NPU_YOURS __attribute__((visibility("hidden")))
LITERT_NPU_YOURS LiteRtStatus LiteRtNpuYourCreate(
    LiteRtCompilerPlugin* plugin, LiteRtEnvironmentOptions env, LiteRtOptions options);
LITERT_NPU_YOURS void LiteRtNpuYourDestroy(LiteRtCompilerPlugin plugin);
LITERT_NPU_YOURS LiteRtStatus LiteRtNpuYourPartition(
    LiteRtCompilerPlugin plugin, const char* soc_model, LiteRtSubgraph subgraph, LiteRtOpList selected_ops);
LITERT_NPU_YOURS LiteRtStatus LiteRtNpuYourCompile(
    LiteRtCompilerPlugin plugin, const char* soc_model, LiteRtModel partitions, LiteRtCompiledResult* result);
#undef LITERT_NPU_YOURS

/* All existing plugins, with the contexts that they were created with. */
typedef struct LiteRtNpuGuidePlugin {
  LiteRtCompilerPlugin plugin;
  const LiteRtCompilerContext* context;
  struct LiteRtNpuGuidePlugin* next;
} LiteRtNpuGuidePlugin;

static LiteRtNpuGuidePlugin* litert_npu_guide_plugins;
static pthread_mutex_t litert_npu_guide_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread const LiteRtCompilerContext* litert_npu_guide_context;

/* The context of the plugin that this thread is calling; NULL outside of calls. */
static inline const LiteRtCompilerContext* LiteRtNpuContext(void) { return litert_npu_guide_context; }

/* Sets this thread's context, and returns the previous context, because a plugin may be called during a call of another
 * plugin. */
static inline const LiteRtCompilerContext* LiteRtNpuEnterContext(const LiteRtCompilerContext* context) {
  const LiteRtCompilerContext* before = litert_npu_guide_context;
  litert_npu_guide_context = context;
  return before;
}

static inline const LiteRtCompilerContext* LiteRtNpuFindContext(LiteRtCompilerPlugin plugin) {
  const LiteRtCompilerContext* context = NULL;
  pthread_mutex_lock(&litert_npu_guide_lock);
  for (const LiteRtNpuGuidePlugin* each = litert_npu_guide_plugins; each != NULL && context == NULL; each = each->next)
    if (each->plugin == plugin) context = each->context;
  pthread_mutex_unlock(&litert_npu_guide_lock);
  return context;
}

static inline void LiteRtNpuForgetPlugin(LiteRtCompilerPlugin plugin) {
  pthread_mutex_lock(&litert_npu_guide_lock);
  LiteRtNpuGuidePlugin** place = &litert_npu_guide_plugins;
  while (*place != NULL && (*place)->plugin != plugin) place = &(*place)->next;
  LiteRtNpuGuidePlugin* found = *place;
  if (found != NULL) *place = found->next;
  pthread_mutex_unlock(&litert_npu_guide_lock);
  free(found);
}

/* The exported functions, which the host calls. */

LiteRtStatus LiteRtCreateCompilerPlugin(
    const LiteRtCompilerContext* context, LiteRtCompilerPlugin* plugin, LiteRtEnvironmentOptions env,
    LiteRtOptions options) {
  LITERT_NPU_CHECK(context != NULL && plugin != NULL);
  LiteRtNpuGuidePlugin* made = (LiteRtNpuGuidePlugin*)calloc(1, sizeof(*made));
  if (made == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
  const LiteRtCompilerContext* before = LiteRtNpuEnterContext(context);
  const LiteRtStatus status = LiteRtNpuYourCreate(plugin, env, options);
  LiteRtNpuEnterContext(before);
  if (status != kLiteRtStatusOk) {
    free(made);
    return status;
  }
  made->plugin = *plugin;
  made->context = context;
  pthread_mutex_lock(&litert_npu_guide_lock);
  made->next = litert_npu_guide_plugins;
  litert_npu_guide_plugins = made;
  pthread_mutex_unlock(&litert_npu_guide_lock);
  return kLiteRtStatusOk;
}

void LiteRtDestroyCompilerPlugin(LiteRtCompilerPlugin plugin) {
  if (plugin == NULL) return;
  LiteRtNpuForgetPlugin(plugin);
  LiteRtNpuYourDestroy(plugin);
}

LiteRtStatus LiteRtCompilerPluginPartition(
    LiteRtCompilerPlugin plugin, const char* soc_model, LiteRtSubgraph subgraph, LiteRtOpList selected_ops) {
  LITERT_NPU_CHECK(plugin != NULL && subgraph != NULL && selected_ops != NULL);
  const LiteRtCompilerContext* context = LiteRtNpuFindContext(plugin);
  LITERT_NPU_CHECK(context != NULL);
  const LiteRtCompilerContext* before = LiteRtNpuEnterContext(context);
  const LiteRtStatus status = LiteRtNpuYourPartition(plugin, soc_model, subgraph, selected_ops);
  LiteRtNpuEnterContext(before);
  return status;
}

LiteRtStatus LiteRtCompilerPluginCompile(
    LiteRtCompilerPlugin plugin, const char* soc_model, LiteRtModel partitions, LiteRtCompiledResult* result) {
  LITERT_NPU_CHECK(plugin != NULL && partitions != NULL && result != NULL);
  const LiteRtCompilerContext* context = LiteRtNpuFindContext(plugin);
  LITERT_NPU_CHECK(context != NULL);
  const LiteRtCompilerContext* before = LiteRtNpuEnterContext(context);
  const LiteRtStatus status = LiteRtNpuYourCompile(plugin, soc_model, partitions, result);
  LiteRtNpuEnterContext(before);
  return status;
}

#define LiteRtCreateCompilerPlugin LiteRtNpuYourCreate
#define LiteRtDestroyCompilerPlugin LiteRtNpuYourDestroy
#define LiteRtCompilerPluginPartition LiteRtNpuYourPartition
#define LiteRtCompilerPluginCompile LiteRtNpuYourCompile

/* The guide's free functions, most of which call slots of the context. */

static inline LiteRtStatus LiteRtGetCustomCode(LiteRtOp op, const char** code) {
  LITERT_NPU_CHECK(LiteRtNpuContext() != NULL);
  return LiteRtNpuContext()->get_custom_code(op, code);
}

static inline LiteRtStatus LiteRtPushOp(LiteRtOpList op_list, LiteRtOp op, LiteRtParamIndex partition_index) {
  LITERT_NPU_CHECK(LiteRtNpuContext() != NULL);
  return LiteRtNpuContext()->push_op(op_list, op, partition_index);
}

static inline LiteRtStatus LiteRtNpuGetOpaqueOptions(LiteRtOptions options, LiteRtOpaqueOptions* opaque_options) {
  LITERT_NPU_CHECK(LiteRtNpuContext() != NULL && options != NULL && opaque_options != NULL);
  return LiteRtNpuContext()->get_opaque_options(options, opaque_options);
}

static inline LiteRtStatus LiteRtNpuFindCompilerOptions(
    LiteRtOpaqueOptions opaque_options, LiteRtCompilerOptions* compiler_options) {
  const LiteRtNpuOptionFunctions functions = LiteRtNpuFindOptionFunctions();
  if (functions.find == NULL || functions.get_number == NULL || functions.get == NULL) return kLiteRtStatusErrorNotFound;
  return functions.find(opaque_options, compiler_options);
}

static inline LiteRtStatus LiteRtNpuGetNumCustomOpInfo(
    LiteRtCompilerOptions compiler_options, LiteRtParamIndex* num_custom_op_info) {
  return LiteRtNpuFindOptionFunctions().get_number(compiler_options, num_custom_op_info);
}

static inline LiteRtStatus LiteRtNpuGetCustomOpInfo(
    LiteRtCompilerOptions compiler_options, LiteRtParamIndex index, const char** op_name, const char** asset_path) {
  return LiteRtNpuFindOptionFunctions().get(compiler_options, index, op_name, asset_path);
}

/* Looked up at run time: releases without these functions would not load a plugin that links them. */
#define LiteRtGetOpaqueOptions LiteRtNpuGetOpaqueOptions
#define LiteRtFindCompilerOptions LiteRtNpuFindCompilerOptions
#define LiteRtGetCompilerOptionsNumCustomOpInfo LiteRtNpuGetNumCustomOpInfo
#define LiteRtGetCompilerOptionsCustomOpInfo LiteRtNpuGetCustomOpInfo

#ifdef __cplusplus
}

namespace litert {

/* An op of the subgraph that the host passed to the plugin. */
class Op {
 public:
  explicit Op(LiteRtOp op) : op_(op) {}
  LiteRtOp Get() const { return op_; }
  LiteRtOpCode Code() const {
    LiteRtOpCode code = -1;
    if (LiteRtNpuContext() != nullptr) LiteRtNpuContext()->get_op_code(op_, &code);
    return code;
  }

 private:
  LiteRtOp op_;
};

/* A subgraph: `for (const auto& op : litert::Subgraph(subgraph).Ops())` iterates over its ops in their order. */
class Subgraph {
 public:
  explicit Subgraph(LiteRtSubgraph subgraph) : subgraph_(subgraph) {}
  LiteRtSubgraph Get() const { return subgraph_; }
  std::vector<Op> Ops() const {
    std::vector<Op> ops;
    const LiteRtCompilerContext* context = LiteRtNpuContext();
    LiteRtParamIndex number = 0;
    if (context != nullptr) context->get_num_subgraph_ops(subgraph_, &number);
    for (LiteRtParamIndex i = 0; i < number; i++) {
      LiteRtOp op;
      if (context->get_subgraph_op(subgraph_, i, &op) == kLiteRtStatusOk) ops.emplace_back(op);
    }
    return ops;
  }

 private:
  LiteRtSubgraph subgraph_;
};

}  // namespace litert
#endif

#endif /* LITERT_NPU_SUPPORT_GUIDE_PLUGIN_H_ */
