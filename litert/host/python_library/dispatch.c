/* Exported functions of a dispatch library with a dispatch table written in Python. The host calls the functions that
 * Python has made directly, except functions for memory. The tables themselves are in C, since they must outlive Python
 * in a Python program. */
#include "litert_npu/dispatch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "start.h"

enum { GET_API, REGISTER_ASSET, INVOKE_TAPPED, NUM_FUNCTIONS };
static const char SYMBOLS[] = "LiteRtDispatchGetApi\nLiteRtDispatchRegisterAsset\nLiteRtDispatchInvokeTapped\n";
static python_function functions[NUM_FUNCTIONS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* a thread that holds this lock never waits for Python */
static bool is_filled;
static _Atomic bool is_closed;
static LiteRtDispatchInterface interface;
static LiteRtDispatchAsyncInterface async_interface;
static LiteRtDispatchGraphInterface graph_interface;
static LiteRtCustomTensorBufferHandlersDef buffer_handlers;
static LiteRtCustomTensorBufferHandlersDef python_handlers;

/* Replaces functions that no longer exist. In all ABIs of Linux, the caller removes the arguments. */
static LiteRtStatus refuse(void) { return kLiteRtStatusErrorRuntimeFailure; }
static LiteRtStatus let_go(void) { return kLiteRtStatusOk; }

/* Hosts copy these handlers, and memory may outlive Python, so the host always calls these instead of Python's own. */
static LiteRtStatus create_memory(
    void* device, void* queue, const LiteRtRankedTensorType* tensor_type, LiteRtTensorBufferType buffer_type,
    size_t bytes, size_t packed_bytes, HwMemoryInfoPtr* info) {
  if (is_closed) return kLiteRtStatusErrorRuntimeFailure;
  return python_handlers.create_func(device, queue, tensor_type, buffer_type, bytes, packed_bytes, info);
}

static LiteRtStatus lock_memory(HwMemoryInfoPtr info, LiteRtTensorBufferLockMode mode, void** address) {
  return is_closed ? kLiteRtStatusErrorRuntimeFailure : python_handlers.lock_func(info, mode, address);
}

static LiteRtStatus unlock_memory(HwMemoryInfoPtr info) {
  return is_closed ? kLiteRtStatusOk : python_handlers.unlock_func(info);
}

static LiteRtStatus destroy_memory(HwMemoryInfoPtr info) {
  return is_closed ? kLiteRtStatusOk : python_handlers.destroy_func(info);
}

static void fill_handlers(const LiteRtCustomTensorBufferHandlersDef* given) {
  buffer_handlers = python_handlers = *given;
  buffer_handlers.create_func = create_memory;
  buffer_handlers.lock_func = lock_memory;
  buffer_handlers.unlock_func = unlock_memory;
  buffer_handlers.destroy_func = destroy_memory;
}

static void refuse_all(void* table, size_t size) {
  python_function* slots = table;
  for (size_t i = 0; i < size / sizeof *slots; i++)
    if (slots[i]) slots[i] = (python_function)refuse;
}

#define LET_GO(table, slot) \
  if (table.slot) table.slot = (__typeof__(table.slot))(python_function)let_go

static void close_tables(void) {
  pthread_mutex_lock(&lock);
  is_closed = true;
  refuse_all(&interface, sizeof interface);
  refuse_all(&async_interface, sizeof async_interface);
  refuse_all(&graph_interface, sizeof graph_interface);
  LET_GO(interface, device_context_destroy);
  LET_GO(interface, unregister_tensor_buffer);
  LET_GO(interface, invocation_context_destroy);
  LET_GO(interface, detach_input);
  LET_GO(interface, detach_output);
  LET_GO(interface, destroy_metrics);
  LET_GO(graph_interface, graph_destroy);
  LET_GO(graph_interface, unload_executable);
  pthread_mutex_unlock(&lock);
}

static const struct python_library library = {SYMBOLS, functions, close_tables};

LITERT_CAPI_EXPORT LiteRtStatus LiteRtDispatchGetApi(LiteRtDispatchApi* api) {
  if (!api) return kLiteRtStatusErrorInvalidArgument;
  if (is_closed) return kLiteRtStatusErrorRuntimeFailure;
  if (!start_python(&library)) return kLiteRtStatusErrorDynamicLoading;
  LiteRtDispatchApi found = *api;
  LiteRtStatus status = ((__typeof__(&LiteRtDispatchGetApi))functions[GET_API])(&found);
  if (status != kLiteRtStatusOk) return status;
  pthread_mutex_lock(&lock);
  if (!is_filled) {
    interface = *found.interface;
    if (found.async_interface) async_interface = *found.async_interface;
    if (found.graph_interface) graph_interface = *found.graph_interface;
    if (found.tensor_buffer_handlers_def) fill_handlers(found.tensor_buffer_handlers_def);
    is_filled = true;
  }
  pthread_mutex_unlock(&lock);
  found.interface = &interface;
  if (found.async_interface) found.async_interface = &async_interface;
  if (found.graph_interface) found.graph_interface = &graph_interface;
  if (found.tensor_buffer_handlers_def) found.tensor_buffer_handlers_def = &buffer_handlers;
  *api = found;
  return kLiteRtStatusOk;
}

LITERT_CAPI_EXPORT LiteRtStatus LiteRtDispatchRegisterAsset(
    LiteRtDispatchDeviceContext device_context, const char* asset_name, const LiteRtMemBuffer* asset_buffer) {
  if (is_closed) return kLiteRtStatusErrorRuntimeFailure;
  if (!start_python(&library)) return kLiteRtStatusErrorDynamicLoading;
  return ((__typeof__(&LiteRtDispatchRegisterAsset))functions[REGISTER_ASSET])(
      device_context, asset_name, asset_buffer);
}

LITERT_CAPI_EXPORT LiteRtStatus LiteRtDispatchInvokeTapped(
    LiteRtDispatchInvocationContext invocation_context, LiteRtDispatchReceiveTensor receive, void* user_data) {
  if (is_closed) return kLiteRtStatusErrorRuntimeFailure;
  if (!start_python(&library)) return kLiteRtStatusErrorDynamicLoading;
  if (!functions[INVOKE_TAPPED]) return kLiteRtStatusErrorUnsupported;
  return ((__typeof__(&LiteRtDispatchInvokeTapped))functions[INVOKE_TAPPED])(invocation_context, receive, user_data);
}
