/* What the library exports, with what PROBE_FAULT leaves out of it; and its notes. */
#include <stdarg.h>

#include "probe.h"

static pthread_mutex_t note_mutex = PTHREAD_MUTEX_INITIALIZER;
static char notes[1 << 18];

LITERT_CAPI_EXPORT const char* probe_notes(void) { return notes; }
LITERT_CAPI_EXPORT void probe_forget(void) { notes[0] = 0; }

void note(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  pthread_mutex_lock(&note_mutex);
  size_t used = strlen(notes);
  vsnprintf(notes + used, sizeof(notes) - used - 1, format, arguments);
  strcat(notes, "\n");
  pthread_mutex_unlock(&note_mutex);
  va_end(arguments);
}

bool has_word(const char* text, const char* word) {
  static const char kBetween[] = "{}\": ,"; /* byte code may be JSON: {"own": 1} */
  size_t length = strlen(word);
  while (text != NULL && *(text += strspn(text, kBetween)) != 0) {
    size_t size = strcspn(text, kBetween);
    if (size == length && strncmp(text, word, length) == 0) return true;
    text += size;
  }
  return false;
}

bool fault(const char* word) { return has_word(getenv("PROBE_FAULT"), word); }


#define LEAVE_OUT(table, slot) \
  if (fault("null-" #slot)) table.slot = NULL

LiteRtStatus LiteRtDispatchGetApi(LiteRtDispatchApi* api) {
  if (fault("refuse-api")) return kLiteRtStatusErrorTimeoutExpired;
  LEAVE_OUT(interface, initialize);
  LEAVE_OUT(interface, get_vendor_id);
  LEAVE_OUT(interface, get_build_id);
  LEAVE_OUT(interface, get_capabilities);
  LEAVE_OUT(interface, device_context_create);
  LEAVE_OUT(interface, device_context_destroy);
  LEAVE_OUT(interface, get_input_requirements);
  LEAVE_OUT(interface, get_output_requirements);
  LEAVE_OUT(interface, register_tensor_buffer);
  LEAVE_OUT(interface, unregister_tensor_buffer);
  LEAVE_OUT(interface, invocation_context_create);
  LEAVE_OUT(interface, invocation_context_destroy);
  LEAVE_OUT(interface, invocation_context_set_scheduling_info);
  LEAVE_OUT(interface, attach_input);
  LEAVE_OUT(interface, attach_output);
  LEAVE_OUT(interface, detach_input);
  LEAVE_OUT(interface, detach_output);
  LEAVE_OUT(interface, invoke);
  LEAVE_OUT(interface, start_metrics_collection);
  LEAVE_OUT(interface, get_metric);
  LEAVE_OUT(interface, check_runtime_compatibility);
  LEAVE_OUT(interface, invocation_context_set_options);
  LEAVE_OUT(async_interface, invoke_async);
  LEAVE_OUT(graph_interface, add_edge);
  LEAVE_OUT(handlers, lock_func);
  if (fault("handlers-host")) handlers.supported_buffer_types[1] = kLiteRtTensorBufferTypeHostMemory;
  if (fault("handlers-number")) handlers.num_supported_buffer_types = 1000;
  api->version = (LiteRtApiVersion){0, 1, fault("version") ? 5 : 0};
  api->interface = fault("null-interface") ? NULL : &interface;
  api->async_interface = fault("null-async_interface") ? NULL : &async_interface;
  api->graph_interface = &graph_interface;
  api->tensor_buffer_handlers_def = fault("null-handlers") ? NULL : &handlers;
  return kLiteRtStatusOk;
}
