/* A dispatch library for tests. It writes each call down, checks the host, and breaks what PROBE_FAULT names. Its NPU
 * gives gain * (sum of the inputs) + 1 for each element. What a module asks for is in its byte code, words of text:
 * own, moving (memory of its own kind, which is elsewhere each time), both, dma, padded, strided, gain, fence, slow. */
#ifndef PROBE_H_
#define PROBE_H_

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "litert_npu/dispatch.h"

enum { kMost = 16 };
#define OWN ((LiteRtTensorBufferType)150)
#define MOVING ((LiteRtTensorBufferType)151)

struct LiteRtDispatchDeviceContextT {
  const LiteRtRuntimeContext* runtime;
  const LiteRtMemBuffer* gain;
  LiteRtTensorBuffer buffers[1024];
};

struct LiteRtDispatchGraphT {
  int nodes, inputs, outputs;
};

struct LiteRtDispatchInvocationContextT {
  LiteRtDispatchDeviceContext device;
  LiteRtDispatchGraph graph;
  char words[256];
  int num_inputs, num_outputs;
  LiteRtTensorBuffer ports[2 * kMost]; /* inputs, then outputs */
  LiteRtEvent waits[kMost];
  int num_waits;
  pthread_t thread;
  bool runs, measures;
  struct Signal* signal;
  int fence;
  int64_t num_runs;
};

typedef struct {
  struct HwMemoryInfo info;
  const void* library; /* that has made it: copies have data of their own */
  bool moves, locked;
  int turn;
  size_t size;
  unsigned char* device;
  unsigned char* shown[2]; /* to the host: a copy, which is poisoned once the device has the memory */
} Memory;

extern LiteRtDispatchInterface interface;
extern LiteRtDispatchAsyncInterface async_interface;
extern LiteRtDispatchGraphInterface graph_interface;
extern LiteRtCustomTensorBufferHandlersDef handlers;
extern LiteRtEnvironment environment;

void check_host(const LiteRtRuntimeContext* host);
void note(const char* format, ...);
bool has_word(const char* text, const char* word);
bool fault(const char* word);

#define ENTER(function, ...)                                                      \
  note(function " " __VA_ARGS__);                                                 \
  if (fault("refuse-" function)) return kLiteRtStatusErrorTimeoutExpired

LiteRtStatus make_context(
    LiteRtDispatchDeviceContext device, int num_inputs, int num_outputs, LiteRtDispatchInvocationContext* context);
LiteRtStatus compute(LiteRtDispatchInvocationContext context);
void finish(LiteRtDispatchInvocationContext context); /* an asynchronous run */

LiteRtStatus start_metrics_collection(LiteRtDispatchInvocationContext context, int detail_level);
LiteRtStatus stop_metrics_collection(LiteRtDispatchInvocationContext context, LiteRtDispatchMetrics* metrics);
LiteRtStatus get_num_metrics(LiteRtDispatchMetrics metrics, int* number);
LiteRtStatus get_metric(LiteRtDispatchMetrics metrics, int index, LiteRtMetric* metric);
LiteRtStatus destroy_metrics(LiteRtDispatchMetrics metrics);

#endif /* PROBE_H_ */
