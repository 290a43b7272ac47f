/* Runs that do not wait: a thread for each, with events of the library's own, or a file descriptor. */
#define _GNU_SOURCE
#include <sys/eventfd.h>
#include <time.h>

#include "probe.h"

typedef struct Signal {
  struct LiteRtCustomEventT functions;
  int references;
  bool is_done;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
} Signal;

static void signal_retain(LiteRtCustomEvent event) { __atomic_add_fetch(&((Signal*)event)->references, 1, 5); }

static void signal_release(LiteRtCustomEvent event) {
  if (__atomic_sub_fetch(&((Signal*)event)->references, 1, 5) == 0) {
    note("released");
    free(event);
  }
}

static void signal_wait(LiteRtCustomEvent event, int64_t timeout_ms) {
  Signal* signal = (Signal*)event;
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += timeout_ms / 1000;
  end.tv_nsec += timeout_ms % 1000 * 1000000;
  if (end.tv_nsec >= 1000000000) end.tv_sec++, end.tv_nsec -= 1000000000;
  pthread_mutex_lock(&signal->mutex);
  while (!signal->is_done)
    if (timeout_ms < 0) pthread_cond_wait(&signal->changed, &signal->mutex);
    else if (pthread_cond_timedwait(&signal->changed, &signal->mutex, &end) != 0) break;
  pthread_mutex_unlock(&signal->mutex);
}

static int signal_is_done(LiteRtCustomEvent event) {
  Signal* signal = (Signal*)event;
  pthread_mutex_lock(&signal->mutex);
  int is_done = signal->is_done;
  pthread_mutex_unlock(&signal->mutex);
  return is_done;
}

static void* run(void* argument) {
  LiteRtDispatchInvocationContext context = argument;
  for (int i = 0; i < context->num_waits; i++)
    if (context->device->runtime->wait_event(context->waits[i], -1) != kLiteRtStatusOk) note("BROKEN wait_event");
  context->num_waits = 0;
  if (has_word(context->words, "slow")) usleep(100000);
  if (compute(context) != kLiteRtStatusOk) note("BROKEN an asynchronous run");
  Signal* signal = context->signal;
  pthread_mutex_lock(&signal->mutex);
  signal->is_done = true;
  pthread_cond_broadcast(&signal->changed);
  pthread_mutex_unlock(&signal->mutex);
  uint64_t one = 1;
  if (context->fence >= 0 && write(context->fence, &one, sizeof(one)) != sizeof(one)) note("BROKEN fence");
  signal_release(&signal->functions);
  return NULL;
}

void finish(LiteRtDispatchInvocationContext context) {
  if (context->runs) pthread_join(context->thread, NULL);
  context->runs = false;
}

static LiteRtStatus attach_input_event(LiteRtDispatchInvocationContext context, int index, LiteRtEvent event) {
  LiteRtEventType type;
  if (context->device->runtime->get_event_event_type(event, &type) != kLiteRtStatusOk) note("BROKEN event");
  ENTER("attach_input_event", "%d type %d", index, type);
  finish(context);
  context->waits[context->num_waits++] = event;
  return kLiteRtStatusOk;
}

static LiteRtStatus invoke_async(LiteRtDispatchInvocationContext context, int number, LiteRtEvent* events) {
  const LiteRtRuntimeContext* runtime = context->device->runtime;
  ENTER("invoke_async", "%d", number);
  finish(context);
  Signal* signal = context->signal = calloc(1, sizeof(*signal));
  signal->functions = (struct LiteRtCustomEventT){signal_retain, signal_release, signal_wait, signal_is_done, NULL};
  signal->references = 1;
  pthread_mutex_init(&signal->mutex, NULL);
  pthread_cond_init(&signal->changed, NULL);
  context->fence = has_word(context->words, "fence") ? eventfd(0, 0) : -1;
  for (int i = 0; i < number && !fault("nonsense-events"); i++) {
    LiteRtStatus status;
    if (context->fence >= 0) {
      status = runtime->create_event_from_sync_fence_fd(environment, context->fence, i == 0, &events[i]);
    } else {
      status = runtime->create_managed_event(environment, LiteRtEventTypeCustom, &events[i]);
      signal_retain(&signal->functions);
      if (status == kLiteRtStatusOk) status = runtime->set_custom_event(events[i], &signal->functions);
    }
    if (status != kLiteRtStatusOk) note("BROKEN events");
  }
  context->runs = pthread_create(&context->thread, NULL, run, context) == 0;
  return kLiteRtStatusOk;
}

LiteRtDispatchAsyncInterface async_interface = {attach_input_event, invoke_async};
