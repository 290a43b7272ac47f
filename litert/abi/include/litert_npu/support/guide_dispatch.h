/* Compiles a dispatch library in the form that LiteRT's guide for custom op assets prints, with `register_asset` in its
 * LiteRtDispatchApi. This header is optional. Include it in only one source file of the library, before the other
 * headers of litert_npu/support.
 *
 * A macro replaces LiteRtDispatchApi by LiteRtDispatchApiWithAssets, and gives your function LiteRtDispatchGetApi,
 * which may be `*api = MyApi;`, another name. This header exports the real LiteRtDispatchGetApi, which writes no more
 * bytes than the host's table has. Stock LiteRT, whose table ends before `register_asset`, therefore also loads the
 * library. */
#ifndef LITERT_NPU_SUPPORT_GUIDE_DISPATCH_H_
#define LITERT_NPU_SUPPORT_GUIDE_DISPATCH_H_

#include <string.h>

#include "litert_npu/dispatch.h"
#include "litert_npu/support/errors.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Your function, under its name in dispatch.h, which the macros below replace. */
LiteRtStatus LiteRtNpuYourGetApi(LiteRtDispatchApiWithAssets* api) __attribute__((visibility("hidden")));

LiteRtStatus LiteRtDispatchGetApi(LiteRtDispatchApi* api) {
  LITERT_NPU_CHECK(api != NULL);
  LiteRtDispatchApiWithAssets made;
  memset(&made, 0, sizeof(made));
  made.abi_header = api->abi_header;
  LITERT_NPU_TRY(LiteRtNpuYourGetApi(&made));
  made.abi_header = api->abi_header;
  if (made.abi_header.struct_size > sizeof(made)) made.abi_header.struct_size = sizeof(made);
  const bool has_room = made.abi_header.struct_size == sizeof(made);
  memcpy((void*)api, &made, has_room ? sizeof(made) : sizeof(*api));
  return kLiteRtStatusOk;
}

#define LiteRtDispatchApi LiteRtDispatchApiWithAssets
#define LiteRtDispatchGetApi LiteRtNpuYourGetApi

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_SUPPORT_GUIDE_DISPATCH_H_ */
