/* The driver; see byte_code.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "byte_code.h"
#include "litert_npu/support/dispatch_identity.h"
#include "litert_npu/support/errors.h"
#include "litert_npu/support/host_memory.h"

const LiteRtNpuDispatchIdentity kLiteRtNpuDispatch = {.vendor_id = "NumericC", .build_id = "1"};

struct LiteRtDispatchDeviceContextT {
  LiteRtNpuDevice base;
};

struct LiteRtDispatchInvocationContextT {
  LiteRtNpuCall base;
  LiteRtNpuPort ports[3];
  LiteRtNpuCounter runs;
  Function function;
};

static LiteRtStatus device_context_create(
    const LiteRtRuntimeContext* runtime, LiteRtOptions options, LiteRtDispatchDeviceContext* device) {
  (void)options;
  LITERT_NPU_CHECK(runtime != NULL && device != NULL);
  *device = calloc(1, sizeof(**device));
  if (*device == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
  (*device)->base.runtime = runtime;
  return kLiteRtStatusOk;
}

static LiteRtStatus device_context_destroy(LiteRtDispatchDeviceContext device) {
  LITERT_NPU_CHECK(device != NULL);
  LiteRtNpuFreeBufferTable(&device->base.buffers);
  free(device);
  return kLiteRtStatusOk;
}

static int32_t num_pixels(int32_t rows, int32_t columns) { return rows * columns; }

static LiteRtStatus invocation_context_create(
    const LiteRtRuntimeContext* runtime, LiteRtDispatchDeviceContext device, LiteRtDispatchExecutableType type,
    const LiteRtMemBuffer* byte_code, const char* name, int num_inputs, int num_outputs,
    LiteRtDispatchInvocationContext* context) {
  LITERT_NPU_CHECK(runtime != NULL && device != NULL && name != NULL && context != NULL);
  LITERT_NPU_CHECK(byte_code != NULL && byte_code->base_addr != NULL && type == kLiteRtDispatchExecutableTypeMlModel);
  char* end;
  const size_t index = strtoul(name + (name[0] != '\0'), &end, 10);
  LITERT_NPU_CHECK(name[0] == 'f' && *end == '\0' && index < byte_code->size / sizeof(Function));
  LiteRtDispatchInvocationContext made = calloc(1, sizeof(*made));
  if (made == NULL) return kLiteRtStatusErrorMemoryAllocationFailure;
  Function* function = &made->function;
  const char* bytes = (const char*)byte_code->base_addr + byte_code->offset;
  memcpy(function, bytes + index * sizeof(Function), sizeof(Function));
  if (function->magic != kMagic || num_inputs != (int)function->num_inputs || num_outputs != 1) {
    free(made);
    return kLiteRtStatusErrorInvalidArgument;
  }
  LiteRtNpuInitCall(&made->base, &device->base, made->ports, num_inputs, 1, &made->runs, 1);
  const Axis *rows = &function->axes[0], *columns = &function->axes[1];
  for (int i = 0; i <= num_inputs; i++) made->ports[i].size = function->num_elements * sizeof(float);
  if (function->op == kConv) {
    made->ports[0].size = (size_t)(num_pixels(rows->image, columns->image) * function->num_in);
    made->ports[1].size = (size_t)(num_pixels(rows->result, columns->result) * function->num_out);
  }
  made->runs.name = "runs";
  *context = made;
  return kLiteRtStatusOk;
}

static LiteRtStatus invocation_context_destroy(LiteRtDispatchInvocationContext context) {
  LITERT_NPU_CHECK(context != NULL);
  free(context);
  return kLiteRtStatusOk;
}

/* The sum for one element of the result. */
static int32_t sum(const Function* function, const int8_t* image, int32_t row, int32_t column, int32_t channel) {
  const Axis *rows = &function->axes[0], *columns = &function->axes[1];
  const int8_t* weights = function->weights + channel * rows->filter * columns->filter * function->num_in;
  int32_t total = function->bias[channel];
  for (int32_t y = 0; y < rows->filter; y++) {
    for (int32_t x = 0; x < columns->filter; x++, weights += function->num_in) {
      const int32_t from_row = row * rows->stride + y * rows->dilation - rows->before;
      const int32_t from_column = column * columns->stride + x * columns->dilation - columns->before;
      if (from_row < 0 || from_row >= rows->image || from_column < 0 || from_column >= columns->image) continue;
      const int8_t* pixel = image + (from_row * columns->image + from_column) * function->num_in;
      for (int32_t i = 0; i < function->num_in; i++) total += (pixel[i] - function->input_zero) * weights[i];
    }
  }
  return total;
}

static void convolve(const Function* function, const int8_t* image, int8_t* result) {
  for (int32_t row = 0; row < function->axes[0].result; row++) {
    for (int32_t column = 0; column < function->axes[1].result; column++) {
      for (int32_t channel = 0; channel < function->num_out; channel++) {
        const float scale = function->input_scale * function->scales[channel] / function->output_scale;
        const float value = roundf((float)sum(function, image, row, column, channel) * scale);
        const float limited = fminf(fmaxf(value + (float)function->output_zero, (float)function->least),
                                    (float)function->most);
        *result++ = (int8_t)limited;
      }
    }
  }
}

static LiteRtStatus invoke(LiteRtDispatchInvocationContext context) {
  LITERT_NPU_CHECK(context != NULL);
  LITERT_NPU_TRY(LiteRtNpuBeginRun(&context->base));
  const Function* function = &context->function;
  void* output = context->ports[function->num_inputs].memory;
  if (function->op == kConv) {
    convolve(function, context->ports[0].memory, output);
  } else {
    const float* left = context->ports[function->operands[0]].memory;
    const float* right = context->ports[function->operands[1]].memory;
    for (uint32_t i = 0; i < function->num_elements; i++) ((float*)output)[i] = left[i] - right[i];
  }
  LITERT_NPU_TRY(LiteRtNpuEndRun(&context->base));
  context->runs.value++;
  return kLiteRtStatusOk;
}

static LiteRtDispatchInterface table = {
    LITERT_NPU_IDENTITY_SLOTS,
    LITERT_NPU_HOST_MEMORY_SLOTS,
    LITERT_NPU_METRICS_SLOTS,
    .device_context_create = device_context_create,
    .device_context_destroy = device_context_destroy,
    .invocation_context_create = invocation_context_create,
    .invocation_context_destroy = invocation_context_destroy,
    .invoke = invoke,
};

LiteRtStatus LiteRtDispatchGetApi(LiteRtDispatchApi* api) { return LiteRtNpuGetBasicApi(api, &table); }
