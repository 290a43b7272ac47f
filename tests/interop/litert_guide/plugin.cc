// What the guide leaves out of a compiler plugin: it takes custom ops that have an asset, and ADD. An op adds up its inputs
// and its asset. The byte code of a function is 64 bytes: the names of the ops of a chain, with spaces between.
#include <string>
#include <vector>

#include "litert_npu/support/guide_plugin.h"

#include "litert_npu/support/compiled_result.h"
#include "litert_npu/support/no_transformations.h"
#include "litert_npu/support/plugin_identity.h"

static const char* const kSocModels[] = {"MySocModel"};
const LiteRtNpuPluginIdentity kLiteRtNpuPlugin = {"MyVendor", "1.0", kSocModels, 1};

struct LiteRtCompilerPluginT {
  std::vector<std::string> supported_custom_ops;
};

#include "block.h"

void LiteRtDestroyCompilerPlugin(LiteRtCompilerPlugin plugin) { delete plugin; }

static std::string name_of(const litert::Op& op) {
  const char* custom_code = "ADD";
  if (op.Code() == kLiteRtOpCodeTflCustom) LiteRtGetCustomCode(op.Get(), &custom_code);
  return custom_code;
}

LiteRtStatus LiteRtCompilerPluginCompile(
    LiteRtCompilerPlugin, const char*, LiteRtModel partitions, LiteRtCompiledResult* result) {
  LiteRtParamIndex number;
  LITERT_NPU_TRY(LiteRtNpuContext()->get_num_model_subgraphs(partitions, &number));
  LiteRtCompiledResult made;
  LITERT_NPU_TRY(LiteRtNpuCreateResult(number, 64 * number, &made));
  for (LiteRtParamIndex i = 0; i < number; i++) {
    LiteRtSubgraph subgraph;
    LITERT_NPU_TRY(LiteRtNpuContext()->get_model_subgraph(partitions, i, &subgraph));
    std::string names;
    for (const auto& op : litert::Subgraph(subgraph).Ops()) names += name_of(op) + " ";
    snprintf(made->byte_code + 64 * i, 64, "%s", names.c_str());
  }
  *result = made;
  return kLiteRtStatusOk;
}
