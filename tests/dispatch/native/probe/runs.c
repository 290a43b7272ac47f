/* What a run does, and what is measured. */
#include "probe.h"

static float* look(LiteRtDispatchInvocationContext context, LiteRtTensorBuffer buffer) {
  const LiteRtRuntimeContext* runtime = context->device->runtime;
  void* memory = NULL;
  if (runtime->get_tensor_buffer_custom_tensor_buffer_handle(buffer, &memory) == kLiteRtStatusOk) {
    if (((Memory*)memory)->library != &handlers) note("BROKEN a run on another library's memory");
    if (((Memory*)memory)->locked) note("BROKEN a run on locked memory");
    return (float*)((Memory*)memory)->device;
  }
  if (runtime->lock_tensor_buffer(buffer, &memory, kLiteRtTensorBufferLockModeReadWrite) != kLiteRtStatusOk)
    note("BROKEN lock_tensor_buffer");
  runtime->unlock_tensor_buffer(buffer);
  return memory;
}

LiteRtStatus compute(LiteRtDispatchInvocationContext context) {
  float gain = 1, *in[kMost];
  if (has_word(context->words, "gain")) {
    const LiteRtMemBuffer* asset = context->device->gain;
    if (asset == NULL) return kLiteRtStatusErrorNotFound;
    gain = strtof((const char*)asset->base_addr + asset->offset, NULL);
  }
  for (int i = 0; i < context->num_inputs; i++) {
    if (context->ports[i] == NULL) return kLiteRtStatusErrorMissingInputTensor;
    in[i] = look(context, context->ports[i]);
  }
  for (int o = 0; o < context->num_outputs; o++) {
    size_t size;
    if (context->ports[kMost + o] == NULL) return kLiteRtStatusErrorMissingInputTensor;
    float* out = look(context, context->ports[kMost + o]);
    context->device->runtime->get_tensor_buffer_packed_size(context->ports[kMost + o], &size);
    for (size_t e = 0; e < size / sizeof(float); e++) {
      float sum = 0;
      for (int i = 0; i < context->num_inputs; i++) sum += in[i][e];
      out[e] = gain * sum + (context->graph != NULL ? context->graph->nodes : 1);
    }
  }
  context->num_runs++;
  return kLiteRtStatusOk;
}

LiteRtStatus start_metrics_collection(LiteRtDispatchInvocationContext context, int detail_level) {
  ENTER("start_metrics_collection", "%d", detail_level);
  context->measures = true;
  context->num_runs = 0;
  return kLiteRtStatusOk;
}

LiteRtStatus stop_metrics_collection(LiteRtDispatchInvocationContext context, LiteRtDispatchMetrics* metrics) {
  ENTER("stop_metrics_collection", "");
  if (!context->measures) return kLiteRtStatusErrorRuntimeFailure;
  context->measures = false;
  *metrics = (LiteRtDispatchMetrics)context;
  return kLiteRtStatusOk;
}

LiteRtStatus get_num_metrics(LiteRtDispatchMetrics metrics, int* number) {
  (void)metrics;
  ENTER("get_num_metrics", "");
  *number = fault("nonsense-metrics") ? -3 : 4;
  return kLiteRtStatusOk;
}

LiteRtStatus get_metric(LiteRtDispatchMetrics metrics, int index, LiteRtMetric* metric) {
  ENTER("get_metric", "%d", index);
  static const char* kNames[] = {"runs", "power", "note", "cold"};
  metric->name = fault("null-metric") ? NULL : kNames[index];
  metric->value.type = (LiteRtAnyType[]){
      kLiteRtAnyTypeInt, kLiteRtAnyTypeReal, kLiteRtAnyTypeString, kLiteRtAnyTypeBool}[index];
  if (index == 0) metric->value.int_value = ((LiteRtDispatchInvocationContext)metrics)->num_runs;
  if (index == 1) metric->value.real_value = 0.5;
  if (index == 2) metric->value.str_value = "well";
  if (index == 3) metric->value.bool_value = true;
  return kLiteRtStatusOk;
}

LiteRtStatus destroy_metrics(LiteRtDispatchMetrics metrics) {
  (void)metrics;
  ENTER("destroy_metrics", "");
  return kLiteRtStatusOk;
}
