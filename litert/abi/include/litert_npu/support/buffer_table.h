/* The tensor buffers that are registered with a device, by their handles. Optional.
 *
 * A table that is all zeros is empty; it belongs to its device context, and is used like one, by one thread at a time.
 * A handle is free again once its buffer is removed, and may then stand for another. The buffers stay the host's. */
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

/* Gives a buffer the lowest free handle. The table doubles where all are taken, and is as it was if that fails. */
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

/* The buffer of a handle; NULL if it has none. */
static inline LiteRtTensorBuffer LiteRtNpuFindBuffer(
    const LiteRtNpuBufferTable* table, LiteRtTensorBufferHandle handle) {
  return handle < table->capacity ? table->buffers[handle] : NULL;
}

static inline LiteRtStatus LiteRtNpuRemoveBuffer(LiteRtNpuBufferTable* table, LiteRtTensorBufferHandle handle) {
  LITERT_NPU_CHECK(LiteRtNpuFindBuffer(table, handle) != NULL);
  table->buffers[handle] = NULL;
  return kLiteRtStatusOk;
}

/* Releases what the table has allocated; it is empty then. */
static inline void LiteRtNpuFreeBufferTable(LiteRtNpuBufferTable* table) {
  free(table->buffers);
  table->buffers = NULL;
  table->capacity = 0;
}

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_SUPPORT_BUFFER_TABLE_H_ */
