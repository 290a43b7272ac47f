/* With these functions, a compiler plugin finds the custom ops for which the user gave an asset; the compiler context
 * has no slots for this. LiteRT's custom op assets guide defines the functions, and litert-npu exports them, so that a
 * plugin can call them by name. No release of LiteRT exports these functions yet. A plugin that must also work in
 * LiteRT therefore looks the functions up at run time: `dlsym(RTLD_DEFAULT,
 * "LiteRtGetCompilerOptionsNumCustomOpInfo")`. */
#ifndef LITERT_NPU_COMPILER_OPTIONS_H_
#define LITERT_NPU_COMPILER_OPTIONS_H_

#include "litert_npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct LiteRtCompilerOptionsT* LiteRtCompilerOptions;

/* Returns the opaque options (options in a vendor's own format) of `options`, an argument of LiteRtCreateCompilerPlugin
 * that may be NULL. The slot `get_opaque_options` of the compiler context does the same and is safer. If LiteRT's
 * runtime is also in the process, a call of LiteRtGetOpaqueOptions by name may reach the runtime's function instead of
 * the host's function. */
LiteRtStatus LiteRtGetOpaqueOptions(LiteRtOptions options, LiteRtOpaqueOptions* opaque_options);
/* Finds the compiler's options, which contain the custom ops and their assets, among the opaque options. The status is
 * NotFound if the opaque options do not contain the compiler's options. */
LiteRtStatus LiteRtFindCompilerOptions(
    LiteRtOpaqueOptions opaque_options, LiteRtCompilerOptions* compiler_options);
/* Returns the number of custom ops for which the user gave an asset. */
LiteRtStatus LiteRtGetCompilerOptionsNumCustomOpInfo(
    LiteRtCompilerOptions compiler_options, LiteRtParamIndex* num_custom_op_info);
/* Returns the custom code of an op and the path of its asset; both texts stay valid until the plugin is destroyed. The
 * status for an index beyond the last op is IndexOOB. */
LiteRtStatus LiteRtGetCompilerOptionsCustomOpInfo(
    LiteRtCompilerOptions compiler_options, LiteRtParamIndex index, const char** op_name,
    const char** asset_path);

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_COMPILER_OPTIONS_H_ */
