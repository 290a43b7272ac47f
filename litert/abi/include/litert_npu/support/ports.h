/* Defines ports: a port is an input or output of a function, with its attached buffer, and with the address of the
 * buffer's memory during a run. This header is optional.
 *
 * Ports are your own array. The array must live as long as its invocation context, and only one thread at a time may
 * use it. The functions allocate nothing. */
#ifndef LITERT_NPU_SUPPORT_PORTS_H_
#define LITERT_NPU_SUPPORT_PORTS_H_

#include "litert_npu/dispatch.h"
#include "litert_npu/support/buffer_table.h"
#include "litert_npu/support/errors.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Set `mode` and `size`; all other members must be zeros at first. */
typedef struct LiteRtNpuPort {
  LiteRtTensorBufferLockMode mode; /* Read for an input, Write for an output */
  size_t size;                     /* size of the tensor in bytes, which is the least size of a buffer */
  LiteRtTensorBuffer buffer;       /* belongs to the host; NULL if no buffer is attached */
  LiteRtTensorBufferHandle handle; /* handle of the buffer */
  void* memory;                    /* address of the locked buffer; NULL if it is not locked */
  bool is_locked;                  /* whether this port holds the lock, which all ports of a buffer share */
} LiteRtNpuPort;

/* Attaches a buffer in place of the previous buffer. If the buffer is not in the table, or is too small, the function
 * returns a failure and changes nothing. */
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

/* Detaches a buffer from a port, if this buffer is attached to the port. */
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

/* Locks the buffer of a port in the mode that all ports of this buffer need together, unless a previous port has locked
 * the buffer. */
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
