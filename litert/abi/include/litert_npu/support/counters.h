/* Defines metrics that are numbers with names: the metrics object that `stop_metrics_collection` returns, and the slots
 * that read it. This header is optional.
 *
 * Counters are your own array. The array must live as long as its invocation context, and only one thread at a time may
 * use it. Count at all times, even if the host collects no metrics: `start_metrics_collection` sets the counters to
 * 0. */
#ifndef LITERT_NPU_SUPPORT_COUNTERS_H_
#define LITERT_NPU_SUPPORT_COUNTERS_H_

#include <stdlib.h>
#include <string.h>

#include "litert_npu/dispatch.h"
#include "litert_npu/support/errors.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct LiteRtNpuCounter {
  const char* name; /* lives as long as the library */
  int64_t value;
} LiteRtNpuCounter;

typedef struct LiteRtNpuCounters {
  LiteRtNpuCounter* counters;
  int number;
  bool is_measured; /* between start and stop */
} LiteRtNpuCounters;

/* A copy of the counters for the host, which outlives the invocation context. */
struct LiteRtDispatchMetricsT {
  LiteRtNpuCounter* counters;
  int number;
};

static inline void LiteRtNpuStartCounters(LiteRtNpuCounters* counters) {
  for (int i = 0; i < counters->number; i++) counters->counters[i].value = 0;
  counters->is_measured = true;
}

/* Returns a copy of the counters, in one allocation, or InvalidArgument if the collection was not started. */
static inline LiteRtStatus LiteRtNpuStopCounters(LiteRtNpuCounters* counters, LiteRtDispatchMetrics* metrics) {
  LITERT_NPU_CHECK(counters->is_measured);
  const size_t size = (size_t)counters->number * sizeof(LiteRtNpuCounter);
  LiteRtDispatchMetrics made = (LiteRtDispatchMetrics)malloc(sizeof(*made) + size);
  if (made == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
  made->counters = (LiteRtNpuCounter*)(made + 1);
  made->number = counters->number;
  if (size > 0) memcpy(made->counters, counters->counters, size);
  counters->is_measured = false;
  *metrics = made;
  return kLiteRtStatusOk;
}

static inline LiteRtStatus LiteRtNpuGetNumMetrics(LiteRtDispatchMetrics metrics, int* number) {
  LITERT_NPU_CHECK(metrics != NULL && number != NULL);
  *number = metrics->number;
  return kLiteRtStatusOk;
}

static inline LiteRtStatus LiteRtNpuGetMetric(LiteRtDispatchMetrics metrics, int index, LiteRtMetric* metric) {
  LITERT_NPU_CHECK(metrics != NULL && metric != NULL && index >= 0 && index < metrics->number);
  metric->name = metrics->counters[index].name;
  metric->value.type = kLiteRtAnyTypeInt;
  metric->value.int_value = metrics->counters[index].value;
  return kLiteRtStatusOk;
}

static inline LiteRtStatus LiteRtNpuDestroyMetrics(LiteRtDispatchMetrics metrics) {
  LITERT_NPU_CHECK(metrics != NULL);
  free(metrics);
  return kLiteRtStatusOk;
}

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_SUPPORT_COUNTERS_H_ */
