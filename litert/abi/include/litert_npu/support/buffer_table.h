/* A table of the tensor buffers that are registered with a device, by their handles. This header is optional.
 *
 * A table of zeros is empty. The table belongs to a device context, and only one thread at a time may use it. The
 * handle of a removed buffer is free, and the table may later give it to another buffer. The buffers belong to the
 * host. */
#ifndef LITERT_NPU_SUPPORT_BUFFER_TABLE_H_
#define LITERT_NPU_SUPPORT_BUFFER_TABLE_H_

#include <stdlib.h>

#include "litert_npu/dispatch.h"
#include "litert_npu/support/errors.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct LiteRtNpuBufferTable {
  LiteRtTensorBuffer* buffers; /* NULL where a handle is free */
  size_t capacity;
} LiteRtNpuBufferTable;

/* Gives a buffer the lowest free handle. If all handles are taken, the table doubles its size; if that fails, the table
 * does not change. */
static inline LiteRtStatus LiteRtNpuAddBuffer(
    LiteRtNpuBufferTable* table, LiteRtTensorBuffer buffer, LiteRtTensorBufferHandle* handle) {
  LITERT_NPU_CHECK(buffer != NULL);
  size_t free_place = 0;
  while (free_place < table->capacity && table->buffers[free_place] != NULL) free_place++;
  if (free_place == table->capacity) {
    const size_t capacity = table->capacity > 0 ? 2 * table->capacity : 8;
    LiteRtTensorBuffer* grown = (LiteRtTensorBuffer*)realloc(table->buffers, capacity * sizeof(*grown));
    if (grown == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
    for (size_t i = table->capacity; i < capacity; i++) grown[i] = NULL;
    table->buffers = grown;
    table->capacity = capacity;
  }
  table->buffers[free_place] = buffer;
  *handle = free_place;
  return kLiteRtStatusOk;
}

/* Returns the buffer of a handle, or NULL if the handle has no buffer. */
static inline LiteRtTensorBuffer LiteRtNpuFindBuffer(
    const LiteRtNpuBufferTable* table, LiteRtTensorBufferHandle handle) {
  return handle < table->capacity ? table->buffers[handle] : NULL;
}

static inline LiteRtStatus LiteRtNpuRemoveBuffer(LiteRtNpuBufferTable* table, LiteRtTensorBufferHandle handle) {
  LITERT_NPU_CHECK(LiteRtNpuFindBuffer(table, handle) != NULL);
  table->buffers[handle] = NULL;
  return kLiteRtStatusOk;
}

/* Frees the memory of the table; the table is then empty. */
static inline void LiteRtNpuFreeBufferTable(LiteRtNpuBufferTable* table) {
  free(table->buffers);
  table->buffers = NULL;
  table->capacity = 0;
}

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_SUPPORT_BUFFER_TABLE_H_ */
