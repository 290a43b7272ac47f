// PReLU as a CPU layer: y = x where x > 0, otherwise slope[c] * x, with one slope for each channel (the last dimension).
// The inputs are a tensor and constant slopes. There are two implementations: for memory in row order, and for memory in
// blocks of 8 channels (nChw8c), if a neighbouring layer also uses blocks. Both implementations can work in place.
//
//   cc -std=c11 -O3 -shared -fPIC -I"$(python -m vendor_reference.cpu_layer)" prelu.c -o prelu.so

#include <litert_npu/cpu_layer.h>
#include <stdlib.h>

enum { kPlain = 0, kBlocked = 1, kBlock = 8 };

typedef struct {
  int implementation;
  int64_t channels;
} PReLU;

static size_t GetNumLayerTypes(void) { return 1; }

static const char* GetLayerType(size_t index) {
  (void)index;
  return "PReLU";
}

static LiteRtNpuStatus GetOutputShapes(const LiteRtNpuOp* op, LiteRtNpuTensorType* shapes, LiteRtNpuMessage* message) {
  (void)message;
  shapes[0] = op->inputs[0].type;
  return kLiteRtNpuOk;
}

static size_t GetNumImplementations(const LiteRtNpuOp* op, LiteRtNpuMessage* message) {
  if (op->num_inputs != 2 || op->num_outputs != 1 || op->inputs[0].type.rank < 2) {
    LiteRtNpuFail(message, kLiteRtNpuInvalidArgument, "PReLU needs one output and two inputs: a tensor of rank 2 or more, and the slopes");
    return 0;
  }
  return 2;
}

static const char* GetImplementationName(const LiteRtNpuOp* op, size_t implementation) {
  (void)op;
  return implementation == kPlain ? "plain" : "in blocks of 8";
}

static size_t GetNumConfigurations(const LiteRtNpuOp* op, size_t implementation) {
  (void)op, (void)implementation;
  return 1;
}

static LiteRtNpuStatus GetConfiguration(const LiteRtNpuOp* op, size_t implementation, size_t index,
                                        LiteRtNpuConfig* config, LiteRtNpuMessage* message) {
  (void)index, (void)message;
  config->inputs[0].element_type = kLiteRtNpuFloat32;
  config->inputs[1].element_type = kLiteRtNpuFloat32;
  config->outputs[0].element_type = kLiteRtNpuFloat32;
  config->outputs[0].in_place = 0;
  if (implementation == kBlocked) {
    const int32_t rank = op->inputs[0].type.rank;
    config->inputs[0].layout = config->outputs[0].layout = LiteRtNpuBlockedChannels(rank, kBlock);
  }
  return kLiteRtNpuOk;
}

static LiteRtNpuStatus Init(const LiteRtNpuOp* op, size_t implementation, LiteRtNpuConfig* config,
                            const LiteRtNpuTensor* inputs, const LiteRtNpuTensor* outputs, void** kernel,
                            LiteRtNpuMessage* message) {
  (void)config, (void)inputs, (void)outputs;
  const LiteRtNpuTensorType* type = &op->inputs[0].type;
  const LiteRtNpuTensorType* slopes = &op->inputs[1].type;
  int64_t num_slopes = 1;
  for (int32_t i = 0; i < slopes->rank; ++i) num_slopes *= slopes->dims[i];
  if (num_slopes != type->dims[type->rank - 1])
    return LiteRtNpuFail(message, kLiteRtNpuInvalidArgument, "there must be one slope for each channel");
  PReLU* prelu = malloc(sizeof(PReLU));
  if (prelu == NULL) return LiteRtNpuFail(message, kLiteRtNpuOutOfMemory, "no memory");
  prelu->implementation = (int)implementation;
  prelu->channels = num_slopes;
  *kernel = prelu;
  return kLiteRtNpuOk;
}

static void ExecutePlain(int64_t channels, int64_t size, const float* x, const float* slopes, float* y) {
  for (int64_t i = 0; i < size; i += channels)
    for (int64_t c = 0; c < channels; ++c) y[i + c] = x[i + c] > 0 ? x[i + c] : slopes[c] * x[i + c];
}

// The memory has the order [batch][block of channels][pixel][channel in the block].
static void ExecuteBlocked(int64_t channels, int64_t batches, int64_t blocks, int64_t pixels, const float* x,
                           const float* slopes, float* y) {
  for (int64_t b = 0; b < batches * blocks; ++b) {
    const int64_t first = b % blocks * kBlock;
    float slope[kBlock] = {0};
    for (int64_t c = 0; c < kBlock && first + c < channels; ++c) slope[c] = slopes[first + c];
    for (int64_t i = b * pixels * kBlock; i < (b + 1) * pixels * kBlock; i += kBlock)
      for (int c = 0; c < kBlock; ++c) y[i + c] = x[i + c] > 0 ? x[i + c] : slope[c] * x[i + c];
  }
}

static LiteRtNpuStatus Execute(void* kernel, const LiteRtNpuTensor* inputs, const LiteRtNpuTensor* outputs,
                               LiteRtNpuMessage* message) {
  (void)message;
  const PReLU* prelu = kernel;
  const int64_t* dims = inputs[0].memory_dims;
  int64_t size = 1;
  for (int32_t i = 0; i < inputs[0].memory_rank; ++i) size *= dims[i];
  if (size == 0) return kLiteRtNpuOk;
  if (prelu->implementation == kPlain)
    ExecutePlain(prelu->channels, size, inputs[0].data, inputs[1].data, outputs[0].data);
  else
    ExecuteBlocked(prelu->channels, dims[0], dims[1], size / dims[0] / dims[1] / kBlock, inputs[0].data,
                   inputs[1].data, outputs[0].data);
  return kLiteRtNpuOk;
}

static const LiteRtNpuCpuLayerLibrary kLibrary = {
    .interface_version = LITERT_NPU_CPU_LAYER_VERSION,
    .size = sizeof(LiteRtNpuCpuLayerLibrary),
    .name = "example layers",
    .version = "1.0",
    .get_num_layer_types = GetNumLayerTypes,
    .get_layer_type = GetLayerType,
    .get_output_shapes = GetOutputShapes,
    .get_num_implementations = GetNumImplementations,
    .get_implementation_name = GetImplementationName,
    .get_num_configurations = GetNumConfigurations,
    .get_configuration = GetConfiguration,
    .init = Init,
    .execute = Execute,
    .destroy = free,
};

const LiteRtNpuCpuLayerLibrary* litert_npu_get_cpu_layer_library(uint32_t host_version) {
  return host_version == LITERT_NPU_CPU_LAYER_VERSION ? &kLibrary : NULL;
}
