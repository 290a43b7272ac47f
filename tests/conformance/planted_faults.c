/* The C example's dispatch library with one fault, which -DFAULT names; it runs asynchronously, too. Built with the
 * example's folder in the include path. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LiteRtDispatchGetApi GetExampleApi
#include "dispatch.c"
#undef LiteRtDispatchGetApi

enum { NONE, IGNORED_INPUT_EVENT, NO_EVENT, LOST_EVENT, EARLY_EVENT, FAILING_RUN, MISSING_BUFFER, LEAK, THREAD, THREAD_OF_RUN, HANG_AT_EXIT };

typedef struct Run {
  LiteRtDispatchInvocationContext context;
  LiteRtEvent waits[2];
  int fence;
} Run;

static Run next; /* one call at a time has events, in these tests */

static LiteRtStatus attach_input_event(LiteRtDispatchInvocationContext context, int index, LiteRtEvent event) {
  LITERT_NPU_CHECK(LiteRtNpuFindInput(context, index) != NULL && event != NULL);
  if (FAULT != IGNORED_INPUT_EVENT) next.waits[index] = event;
  return kLiteRtStatusOk;
}

static void signal_end(const Run* begun) {
  static int number;
  const uint64_t one = 1;
  if (FAULT == NO_EVENT || (FAULT == LOST_EVENT && ++number % 7 == 0)) return;
  if (write(begun->fence, &one, sizeof(one)) != sizeof(one)) abort();
}

static void* run(void* argument) {
  Run* begun = argument;
  for (int i = 0; i < 2; i++)
    if (begun->waits[i] != NULL) begun->context->base.device->runtime->wait_event(begun->waits[i], -1);
  if (FAULT == EARLY_EVENT) signal_end(begun);
  if (FAULT == EARLY_EVENT || FAULT == MISSING_BUFFER) usleep(20000);
  invoke(begun->context);
  if (FAULT != EARLY_EVENT) signal_end(begun);
  close(begun->fence);
  free(begun);
  return NULL;
}

static LiteRtStatus invoke_async(LiteRtDispatchInvocationContext context, int num_events, LiteRtEvent* events) {
  LITERT_NPU_CHECK(context != NULL && num_events == 1 && events != NULL);
  for (int i = 0; i <= context->base.num_inputs; i++)
    LITERT_NPU_CHECK(context->ports[i].buffer != NULL || FAULT == MISSING_BUFFER);
  if (FAULT == FAILING_RUN) return kLiteRtStatusErrorRuntimeFailure;
  Run* begun = malloc(sizeof(*begun));
  if (begun == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
  *begun = next;
  memset(&next, 0, sizeof(next));
  begun->context = context;
  begun->fence = eventfd(0, 0);
  const int kept = dup(begun->fence);
  LITERT_NPU_TRY(context->base.device->runtime->create_event_from_sync_fence_fd(NULL, kept, true, events));
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, begun) != 0) return kLiteRtStatusErrorRuntimeFailure;
  pthread_detach(thread);
  return kLiteRtStatusOk;
}

static void* sleep_for_ever(void* nothing) {
  for (;;) pause();
  return nothing;
}

static LiteRtStatus start_a_thread(void) {
  pthread_t thread;
  return pthread_create(&thread, NULL, sleep_for_ever, NULL) == 0 ? kLiteRtStatusOk : kLiteRtStatusErrorRuntimeFailure;
}

static LiteRtStatus leave_a_thread(LiteRtDispatchDeviceContext device) {
  LITERT_NPU_TRY(start_a_thread());
  return device_context_destroy(device);
}

static LiteRtStatus leave_a_thread_of_each_run(LiteRtDispatchInvocationContext context) {
  LITERT_NPU_TRY(start_a_thread());
  return invoke(context);
}

static LiteRtStatus leak(LiteRtDispatchInvocationContext context) {
  return malloc(1 << 20) == NULL ? kLiteRtStatusErrorMemoryAllocationFailure : invoke(context);
}

__attribute__((destructor)) static void end(void) {
  if (FAULT == HANG_AT_EXIT) sleep_for_ever(NULL);
}

static LiteRtStatus get_capabilities(int* capabilities) {
  LITERT_NPU_CHECK(capabilities != NULL);
  *capabilities = kLiteRtDispatchCapabilitiesBasic | kLiteRtDispatchCapabilitiesAsync;
  return kLiteRtStatusOk;
}

LITERT_CAPI_EXPORT LiteRtStatus LiteRtDispatchGetApi(LiteRtDispatchApi* api) {
  static LiteRtDispatchAsyncInterface async_interface = {attach_input_event, invoke_async};
  LITERT_NPU_TRY(GetExampleApi(api));
  table.get_capabilities = get_capabilities;
  if (FAULT == LEAK) table.invoke = leak;
  if (FAULT == THREAD_OF_RUN) table.invoke = leave_a_thread_of_each_run;
  if (FAULT == THREAD) table.device_context_destroy = leave_a_thread;
  api->async_interface = &async_interface;
  return kLiteRtStatusOk;
}
