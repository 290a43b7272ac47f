/* This table contains the host's functions that a dispatch library calls to handle buffers, requirements, options and
 * events. Release 2.3.0 of LiteRT passes a table of 416 bytes (version 1.2). LiteRT's main branch of August 2026 passes
 * only the first 408 bytes (version 1.1), and release 2.2.0 passes only the first 400 bytes (version 1.0). The table
 * lives as long as the process. */
#ifndef LITERT_NPU_RUNTIME_CONTEXT_H_
#define LITERT_NPU_RUNTIME_CONTEXT_H_

#include "litert_npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct LiteRtRuntimeContext {
  LiteRtAbiHeader abi_header;

  /* 8: The following slot makes the memory requirements of an input or output. The host receives the requirements
   * object, and destroys it. The object contains one or more types of memory; the best type is the first in the list.
   * If `num_strides` is 0, the elements are contiguous, in row-major order. The memory that the host allocates is
   * aligned to 64 bytes. */
  LiteRtStatus (*create_tensor_buffer_requirements)(
      int num_supported_tensor_buffer_types,
      const LiteRtTensorBufferType* supported_tensor_buffer_types, size_t buffer_size,
      int num_strides, const uint32_t* strides, LiteRtTensorBufferRequirements* requirements);

  /* 16: The following slots find and register the buffers of TfLiteTensors. They are for accelerators (extensions of
   * LiteRT's runtime, for example for a GPU), not for dispatch libraries. */
  LiteRtStatus (*get_external_litert_buffer_context_tensor_buffer)(
      LiteRtExternalLiteRtBufferContext context, const TfLiteTensor* tensor,
      LiteRtTensorBuffer* tensor_buffer);
  LiteRtStatus (*external_litert_buffer_context_create_tensor_buffer)(
      LiteRtExternalLiteRtBufferContext context, const TfLiteTensor* tensor,
      LiteRtTensorBuffer* buffer);
  LiteRtStatus (*external_litert_buffer_context_register_tensor_buffer)(
      LiteRtExternalLiteRtBufferContext context, const TfLiteTensor* tensor,
      LiteRtTensorBuffer buffer);
  LiteRtStatus (*external_litert_buffer_context_unregister_tensor_buffer)(
      LiteRtExternalLiteRtBufferContext context, const TfLiteTensor* tensor);
  LiteRtStatus (*external_litert_buffer_context_register_buffer_requirements)(
      LiteRtExternalLiteRtBufferContext context, const TfLiteTensor* tensor,
      LiteRtTensorBufferRequirements buffer_requirements);
  LiteRtStatus (*external_litert_buffer_context_get_environment)(
      LiteRtExternalLiteRtBufferContext context, LiteRtEnvironment* env);
  LiteRtStatus (*external_litert_buffer_context_is_async_execution_mode)(
      LiteRtExternalLiteRtBufferContext context, bool* is_async_execution_mode);
  void (*external_litert_buffer_context_destroy)(LiteRtExternalLiteRtBufferContext context);

  /* 80: The options that the user gave for a vendor are stored under the vendor's identifier, in a format that the
   * vendor defines. If there are no such options, the status is NotFound. In litert-npu, the identifier is the vendor's
   * name from the library's file name, in small letters: `acme` for libLiteRtDispatch_Acme.so. Dispatch options such as
   * `--dispatch_option tiles=4` become a C string in TOML, with one option on each line. `destroy_options` does nothing
   * in litert-npu, because the host destroys its options itself. */
  LiteRtStatus (*get_opaque_options)(LiteRtOptions options, LiteRtOpaqueOptions* opaque_options);
  LiteRtStatus (*find_opaque_options_data)(
      LiteRtOpaqueOptions options, const char* payload_identifier, void** payload_data);
  void (*destroy_options)(LiteRtOptions options);

  /* 104: The following slots read and set options of the environment, an object of the host with settings such as the
   * folder of the dispatch library. The status for an option that is not set is NotFound. In litert-npu, an environment
   * never has a GPU environment; `add_environment_options` and `gpu_environment_create` return Unsupported. */
  LiteRtStatus (*get_environment_options)(LiteRtEnvironment env, LiteRtEnvironmentOptions* options);
  LiteRtStatus (*get_environment_options_value)(
      LiteRtEnvironmentOptions options, LiteRtEnvOptionTag tag, LiteRtAny* option_value);
  void (*environment_has_gpu_environment)(LiteRtEnvironment environment, bool* has_gpu_environment);
  LiteRtStatus (*add_environment_options)(
      LiteRtEnvironment environment, int num_options, const LiteRtEnvOption* options,
      bool overwrite);
  LiteRtStatus (*gpu_environment_create)(
      LiteRtEnvironment environment, int num_options, const LiteRtEnvOption* options);

  /* 144: The following slots wrap TFLite's delegates. They are for accelerators (extensions of LiteRT's runtime, for
   * example for a GPU), not for dispatch libraries. */
  LiteRtStatus (*wrap_delegate)(
      TfLiteOpaqueDelegate* delegate, void (*deleter)(TfLiteOpaqueDelegate*),
      LiteRtDelegateWrapper* wrapper);
  LiteRtStatus (*unwrap_delegate)(LiteRtDelegateWrapper wrapper, TfLiteOpaqueDelegate** delegate);

  /* 160: The following slots handle tensor buffers. The size of a buffer is the size of its memory; the packed size is
   * the size of the tensor's elements without padding. The tensor's data begin at the buffer's offset in its memory; in
   * litert-npu, this offset is always 0. `lock_tensor_buffer` waits for the buffer's event, and returns the address of
   * the memory. Unlock a buffer before you lock it again: stock LiteRT's runtime refuses a second lock. A slot for one
   * kind of memory refuses buffers with other kinds of memory. `get_tensor_buffer_host_memory` is for host memory, and
   * works without a lock of the buffer. `get_tensor_buffer_custom_tensor_buffer_handle` returns the `memory_handle`
   * that the vendor's own handlers made. */
  LiteRtStatus (*create_tensor_buffer_from_host_memory)(
      const LiteRtRankedTensorType* tensor_type, void* host_buffer_addr, size_t host_buffer_size,
      LiteRtHostMemoryDeallocator deallocator, LiteRtTensorBuffer* buffer);
  LiteRtStatus (*create_managed_tensor_buffer)(
      LiteRtEnvironment env, LiteRtTensorBufferType buffer_type,
      const LiteRtRankedTensorType* tensor_type, size_t buffer_size, LiteRtTensorBuffer* buffer);
  void (*destroy_tensor_buffer)(LiteRtTensorBuffer buffer);
  LiteRtStatus (*get_tensor_buffer_type)(
      LiteRtTensorBuffer tensor_buffer, LiteRtTensorBufferType* buffer_type);
  LiteRtStatus (*get_tensor_buffer_tensor_type)(
      LiteRtTensorBuffer tensor_buffer, LiteRtRankedTensorType* tensor_type);
  LiteRtStatus (*get_tensor_buffer_size)(LiteRtTensorBuffer tensor_buffer, size_t* buffer_size);
  LiteRtStatus (*get_tensor_buffer_packed_size)(LiteRtTensorBuffer tensor_buffer, size_t* size);
  LiteRtStatus (*get_tensor_buffer_offset)(LiteRtTensorBuffer tensor_buffer, size_t* offset);
  LiteRtStatus (*lock_tensor_buffer)(
      LiteRtTensorBuffer tensor_buffer, void** host_mem_addr, LiteRtTensorBufferLockMode mode);
  LiteRtStatus (*unlock_tensor_buffer)(LiteRtTensorBuffer tensor_buffer);
  LiteRtStatus (*get_tensor_buffer_host_memory)(
      LiteRtTensorBuffer tensor_buffer, void** host_memory_addr);
  LiteRtStatus (*get_tensor_buffer_opencl_memory)(
      LiteRtTensorBuffer tensor_buffer, void** cl_mem_addr);
  LiteRtStatus (*get_tensor_buffer_gl_buffer)(
      LiteRtTensorBuffer tensor_buffer, uint32_t* target, uint32_t* id, size_t* size_bytes,
      size_t* offset);
  LiteRtStatus (*get_tensor_buffer_custom_tensor_buffer_handle)(
      LiteRtTensorBuffer tensor_buffer, void** hw_memory_handle);
  LiteRtStatus (*get_tensor_buffer_ahwb)(LiteRtTensorBuffer tensor_buffer, AHardwareBuffer** ahwb);
  LiteRtStatus (*get_tensor_buffer_dma_buf_buffer)(
      LiteRtTensorBuffer tensor_buffer, void** dmabuf_buffer_addr, int* dmabuf_buffer_fd);
  LiteRtStatus (*get_tensor_buffer_fast_rpc_buffer)(
      LiteRtTensorBuffer tensor_buffer, void** host_buffer_addr, int* fd);

  /* 296: The following slots handle events. An asynchronous run signals an event for each output; the output's buffer
   * refers to this event. If the timeout of `wait_event` is -1, the slot waits until the event is signaled. */
  LiteRtStatus (*has_tensor_buffer_event)(LiteRtTensorBuffer tensor_buffer, bool* has_event);
  LiteRtStatus (*get_tensor_buffer_event)(LiteRtTensorBuffer tensor_buffer, LiteRtEvent* event);
  LiteRtStatus (*set_tensor_buffer_event)(LiteRtTensorBuffer tensor_buffer, LiteRtEvent event);
  LiteRtStatus (*create_managed_event)(
      LiteRtEnvironment env, LiteRtEventType event_type, LiteRtEvent* event);
  LiteRtStatus (*create_event_from_sync_fence_fd)(
      LiteRtEnvironment env, int sync_fence_fd, bool owns_fd, LiteRtEvent* event);
  LiteRtStatus (*get_event_event_type)(LiteRtEvent event, LiteRtEventType* type);
  LiteRtStatus (*get_event_sync_fence_fd)(LiteRtEvent event, int* sync_fence_fd);
  LiteRtStatus (*create_event_from_opencl_event)(
      LiteRtEnvironment env, void* cl_event, LiteRtEvent* event);
  LiteRtStatus (*get_event_opencl_event)(LiteRtEvent event, void** cl_event);
  LiteRtStatus (*set_custom_event)(LiteRtEvent event, LiteRtCustomEvent custom_event);
  LiteRtStatus (*get_custom_event)(LiteRtEvent event, LiteRtCustomEvent* custom_event);
  LiteRtStatus (*wait_event)(LiteRtEvent event, int64_t timeout_in_ms);

  /* 392: The following slot returns the options of a run. The options belong to the host, and are valid during the
   * run. */
  LiteRtStatus (*external_litert_buffer_context_get_run_options)(
      LiteRtExternalLiteRtBufferContext context, LiteRtOptions* run_options);
  /* 400: The following slot returns the kinds of hardware that options allow. It has existed since version 1.1 of the
   * table, and returns Unsupported in litert-npu. */
  LiteRtStatus (*get_options_hardware_accelerators)(
      LiteRtOptions options, LiteRtHwAcceleratorSet* hardware_accelerators);

  /* 408: The following slot adds a metric to a metrics object. It has existed since version 1.2 of the table, and
   * returns Unsupported in litert-npu. */
  LiteRtStatus (*append_metric)(LiteRtMetrics metrics, const LiteRtMetric* metric);
} LiteRtRuntimeContext;

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_RUNTIME_CONTEXT_H_ */
