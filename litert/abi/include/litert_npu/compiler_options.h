/* Functions by which a compiler plugin finds the custom ops that the user has an asset for; the compiler context has no
 * slots for this. The functions are defined by this host and by LiteRT's custom op assets guide. This host loads a
 * plugin that links these functions. No release of LiteRT exports them yet, so a plugin for both hosts looks them up at
 * run time: `dlsym(RTLD_DEFAULT, "LiteRtGetCompilerOptionsNumCustomOpInfo")`. */
#ifndef LITERT_NPU_COMPILER_OPTIONS_H_
#define LITERT_NPU_COMPILER_OPTIONS_H_

#include "litert_npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct LiteRtCompilerOptionsT* LiteRtCompilerOptions;

/* Returns the options of the plugin that is being created; `options` may be NULL. The context's `get_opaque_options`
 * does the same and is safer: if LiteRT's runtime is in the process, too, the linker may find that runtime's function
 * of this name. */
LiteRtStatus LiteRtGetOpaqueOptions(LiteRtOptions options, LiteRtOpaqueOptions* opaque_options);
/* Returns the compiler's options among the opaque options, or the status NotFound if there are none. */
LiteRtStatus LiteRtFindCompilerOptions(
    LiteRtOpaqueOptions opaque_options, LiteRtCompilerOptions* compiler_options);
/* Returns the number of custom ops that have an asset. */
LiteRtStatus LiteRtGetCompilerOptionsNumCustomOpInfo(
    LiteRtCompilerOptions compiler_options, LiteRtParamIndex* num_custom_op_info);
/* Returns an op's custom code and the path of its asset; both texts stay valid until the plugin is destroyed. An index
 * beyond the last op returns IndexOOB. */
LiteRtStatus LiteRtGetCompilerOptionsCustomOpInfo(
    LiteRtCompilerOptions compiler_options, LiteRtParamIndex index, const char** op_name,
    const char** asset_path);

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_COMPILER_OPTIONS_H_ */
