/* Finds the largest shapes that the user gives by `--shape_bounds=keep:50`, for outputs whose shape is known only after
 * a run. This header is optional. Stock LiteRT has no such bounds. */
#ifndef LITERT_NPU_SUPPORT_SHAPE_BOUNDS_H_
#define LITERT_NPU_SUPPORT_SHAPE_BOUNDS_H_

#include <stdlib.h>
#include <string.h>

#include "litert_npu/compiler_context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Identifier of the options that contain the bounds: LiteRtNpuFindOptions finds the options by this identifier while
 * the plugin is created. Copy the text, because it is valid only during that call. */
#define LITERT_NPU_HOST_OPTIONS "litert_npu"

/* Writes the largest shape of a tensor with unknown dimensions, and returns whether there is such a bound. Fixed
 * dimensions of the tensor do not change. `options` is the text of LITERT_NPU_HOST_OPTIONS, or NULL; `tensor_name` is
 * the name that the context returns for the tensor. */
static inline bool LiteRtNpuFindShapeBound(
    const char* options, const char* tensor_name, const LiteRtLayout* layout, int32_t largest[8]) {
  static const char kFlag[] = "shape_bounds=";
  const size_t name_size = strlen(tensor_name);
  for (const char* line = options; line != NULL && *line != 0; line = strchr(line, '\n'), line += line != NULL) {
    if (strncmp(line, kFlag, sizeof(kFlag) - 1) != 0) continue;
    const char* at = line + sizeof(kFlag) - 1;
    if (strncmp(at, tensor_name, name_size) != 0 || at[name_size] != ':') continue;
    at += name_size;
    uint32_t rank = 0;
    for (; rank < layout->rank && rank < 8 && *at == (rank == 0 ? ':' : 'x'); rank++) {
      char* end;
      const long size = strtol(at + 1, &end, 10);
      if (size < 1 || size > INT32_MAX) break;
      if (layout->dimensions[rank] >= 0 && layout->dimensions[rank] != size) break;
      largest[rank] = (int32_t)size;
      at = end;
    }
    if (rank == layout->rank && (*at == '\n' || *at == 0)) return true; /* otherwise the name begins a longer name */
  }
  return false;
}

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_SUPPORT_SHAPE_BOUNDS_H_ */
