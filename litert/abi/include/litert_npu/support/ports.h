/* The inputs and outputs of a function, with the buffer that is attached to each, and its memory during a run. This
 * header is optional.
 *
 * Ports are your own array. The array lives as long as its invocation context, and one thread at a time uses it, like
 * the context. The functions allocate nothing. */
#ifndef LITERT_NPU_SUPPORT_PORTS_H_
#define LITERT_NPU_SUPPORT_PORTS_H_

#include "litert_npu/dispatch.h"
#include "litert_npu/support/buffer_table.h"
#include "litert_npu/support/errors.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Set `mode` and `size`; all other members begin as zeros. */
typedef struct LiteRtNpuPort {
  LiteRtTensorBufferLockMode mode; /* Read for an input, Write for an output */
  size_t size;                     /* in bytes, of the tensor: what a buffer must have at least */
  LiteRtTensorBuffer buffer;       /* the host's; NULL while none is attached */
  LiteRtTensorBufferHandle handle; /* of the buffer */
  void* memory;                    /* of the buffer; NULL but between lock and unlock */
  bool is_locked;                  /* by this port: ports of one buffer share a lock */
} LiteRtNpuPort;

/* Attaches a buffer in place of the previous buffer. A buffer that is not in the table, or is too small, is refused and
 * changes nothing. */
static inline LiteRtStatus LiteRtNpuAttach(
    LiteRtNpuPort* port, const LiteRtRuntimeContext* runtime, const LiteRtNpuBufferTable* table,
    LiteRtTensorBufferHandle handle) {
  LiteRtTensorBuffer buffer = LiteRtNpuFindBuffer(table, handle);
  size_t size;
  LITERT_NPU_CHECK(buffer != NULL);
  LITERT_NPU_TRY(runtime->get_tensor_buffer_size(buffer, &size));
  LITERT_NPU_CHECK(size >= port->size);
  port->buffer = buffer;
  port->handle = handle;
  return kLiteRtStatusOk;
}

/* Detaches a buffer, if it is the buffer that is attached. */
static inline void LiteRtNpuDetach(LiteRtNpuPort* port, LiteRtTensorBufferHandle handle) {
  if (port->handle == handle) port->buffer = NULL;
}

/* Unlocks all buffers that LiteRtNpuLockPorts has locked, even if one of them fails, and returns the status of the
 * failure. */
static inline LiteRtStatus LiteRtNpuUnlockPorts(const LiteRtRuntimeContext* runtime, LiteRtNpuPort* ports, int number) {
  LiteRtStatus status = kLiteRtStatusOk;
  for (int i = 0; i < number; i++) {
    const LiteRtStatus unlocked =
        ports[i].is_locked ? runtime->unlock_tensor_buffer(ports[i].buffer) : kLiteRtStatusOk;
    if (status == kLiteRtStatusOk) status = unlocked;
    ports[i].is_locked = false;
    ports[i].memory = NULL;
  }
  return status;
}

/* Locks the buffer of one port for all modes that its ports need, unless a previous port has locked the buffer. */
static inline LiteRtStatus LiteRtNpuLockPort(
    const LiteRtRuntimeContext* runtime, LiteRtNpuPort* ports, int number, int index) {
  LiteRtNpuPort* port = &ports[index];
  LiteRtTensorBufferLockMode mode = port->mode;
  for (int i = 0; i < number; i++) {
    if (ports[i].buffer != port->buffer) continue;
    if (i < index) {
      port->memory = ports[i].memory;
      return kLiteRtStatusOk;
    }
    if (ports[i].mode != mode) mode = kLiteRtTensorBufferLockModeReadWrite;
  }
  LITERT_NPU_TRY(runtime->lock_tensor_buffer(port->buffer, &port->memory, mode));
  port->is_locked = true;
  return kLiteRtStatusOk;
}

/* Locks all buffers and sets each port's `memory`. A buffer that is attached to several ports is locked once. After a
 * failure, for example because a port has no buffer, no buffer is locked. */
static inline LiteRtStatus LiteRtNpuLockPorts(const LiteRtRuntimeContext* runtime, LiteRtNpuPort* ports, int number) {
  LiteRtStatus status = kLiteRtStatusOk;
  for (int i = 0; i < number; i++) LITERT_NPU_CHECK(ports[i].buffer != NULL);
  for (int i = 0; i < number && status == kLiteRtStatusOk; i++) status = LiteRtNpuLockPort(runtime, ports, number, i);
  if (status != kLiteRtStatusOk) LiteRtNpuUnlockPorts(runtime, ports, number);
  return status;
}

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_SUPPORT_PORTS_H_ */
