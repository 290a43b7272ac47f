/* What a compiler plugin may read of the user's wishes beyond the context's slots: the custom ops that the user has an
 * asset for. These functions are of this host and of LiteRT's custom op assets guide. This host loads a library that
 * links them; no release of LiteRT exports them yet, so a library for both looks them up:
 * `dlsym(RTLD_DEFAULT, "LiteRtGetCompilerOptionsNumCustomOpInfo")`. */
#ifndef LITERT_NPU_COMPILER_OPTIONS_H_
#define LITERT_NPU_COMPILER_OPTIONS_H_

#include "litert_npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct LiteRtCompilerOptionsT* LiteRtCompilerOptions;

/* The options of the plugin that is being created; NULL leaves them unsaid. The context's `get_opaque_options` does the
 * same, and is safer: where LiteRT's runtime is in the process, too, this name may be found there. */
LiteRtStatus LiteRtGetOpaqueOptions(LiteRtOptions options, LiteRtOpaqueOptions* opaque_options);
/* The compiler's among them; NotFound where there are none. */
LiteRtStatus LiteRtFindCompilerOptions(
    LiteRtOpaqueOptions opaque_options, LiteRtCompilerOptions* compiler_options);
/* How many custom ops have an asset. */
LiteRtStatus LiteRtGetCompilerOptionsNumCustomOpInfo(
    LiteRtCompilerOptions compiler_options, LiteRtParamIndex* num_custom_op_info);
/* An op's custom code, and the path of its asset; both are valid until the plugin is destroyed. IndexOOB beyond the
 * last. */
LiteRtStatus LiteRtGetCompilerOptionsCustomOpInfo(
    LiteRtCompilerOptions compiler_options, LiteRtParamIndex index, const char** op_name,
    const char** asset_path);

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_COMPILER_OPTIONS_H_ */
