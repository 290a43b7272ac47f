// The transposed convolution with bias of MediaPipe's networks, as a CPU layer. Input and output are N, H, W, C;
// weights O, H, W, I. The op's options are the C struct TfLiteTransposeConvParams: padding (1: SAME, 2: VALID),
// stride_width, stride_height.
//
// When the model is loaded, the layer transposes the weights to the order H, W, O, I, so that the innermost loops run
// over adjacent input channels. With -fopenmp, several threads compute the output rows.
//
//   include=$(python -m vendor_reference.cpu_layer)
//   cc -std=c11 -O3 -march=native -shared -fPIC -I"$include" Convolution2DTransposeBias.c -o transpose_conv.so

#include <litert_npu/cpu_layer.h>
#include <stdlib.h>

typedef struct {
  int32_t padding, stride_w, stride_h;
} Options;

typedef struct {
  int64_t batches, in_h, in_w, in_c, filter_h, filter_w, out_h, out_w, out_c;
  int64_t stride_h, stride_w, pad_top, pad_left;
  float* weights;  // H, W, O, I; NULL if `init` got no weights
} Convolution;

static size_t GetNumLayerTypes(void) { return 1; }

static const char* GetLayerType(size_t index) {
  (void)index;
  return "Convolution2DTransposeBias";
}

static size_t GetNumImplementations(const LiteRtNpuOp* op, LiteRtNpuMessage* message) {
  if (op->num_inputs == 3 && op->num_outputs == 1 && op->inputs[0].type.rank == 4 && op->inputs[1].type.rank == 4 &&
      op->options_size >= sizeof(Options))
    return 1;
  LiteRtNpuFail(message, kLiteRtNpuInvalidArgument, "expected an input and weights of rank 4, a bias, and options");
  return 0;
}

static const char* GetImplementationName(const LiteRtNpuOp* op, size_t implementation) {
  (void)op, (void)implementation;
  return "direct";
}

static size_t GetNumConfigurations(const LiteRtNpuOp* op, size_t implementation) {
  (void)op, (void)implementation;
  return 1;
}

static LiteRtNpuStatus GetConfiguration(const LiteRtNpuOp* op, size_t implementation, size_t index,
                                        LiteRtNpuConfig* config, LiteRtNpuMessage* message) {
  (void)op, (void)implementation, (void)index, (void)message;
  for (int i = 0; i < 3; ++i) config->inputs[i].element_type = kLiteRtNpuFloat32;
  config->outputs[0].element_type = kLiteRtNpuFloat32;
  config->inputs[1].needs_constant = 1;
  return kLiteRtNpuOk;
}

static int64_t PadBefore(int32_t padding, int64_t in, int64_t filter, int64_t stride) {
  const int64_t all = filter - (in - 1) % stride - 1;
  return padding == 1 && all > 0 ? all / 2 : 0;
}

// Transposes weights O, H, W, I to the order H, W, O, I.
static void Transpose(const Convolution* c, const float* from, float* to) {
  const int64_t taps = c->filter_h * c->filter_w;
  for (int64_t o = 0; o < c->out_c; ++o)
    for (int64_t t = 0; t < taps; ++t)
      memcpy(to + (t * c->out_c + o) * c->in_c, from + (o * taps + t) * c->in_c, (size_t)c->in_c * sizeof(float));
}

static void Destroy(void* kernel) {
  Convolution* c = kernel;
  free(c->weights);
  free(c);
}

static LiteRtNpuStatus Init(const LiteRtNpuOp* op, size_t implementation, LiteRtNpuConfig* config,
                            const LiteRtNpuTensor* inputs, const LiteRtNpuTensor* outputs, void** kernel,
                            LiteRtNpuMessage* message) {
  (void)implementation, (void)config;
  const int64_t* x = inputs[0].type.dims;
  const int64_t* w = inputs[1].type.dims;
  const int64_t* y = outputs[0].type.dims;
  Options options;
  memcpy(&options, op->options_data, sizeof(options));
  if (options.stride_h < 1 || options.stride_w < 1 || (options.padding != 1 && options.padding != 2) || w[0] != y[3] ||
      w[3] != x[3] || x[0] != y[0] || inputs[2].type.rank != 1 || inputs[2].type.dims[0] != y[3])
    return LiteRtNpuFail(message, kLiteRtNpuInvalidArgument, "shapes and options do not fit each other");
  Convolution* c = calloc(1, sizeof(Convolution));
  if (c == NULL) return LiteRtNpuFail(message, kLiteRtNpuOutOfMemory, "no memory");
  c->batches = x[0], c->in_h = x[1], c->in_w = x[2], c->in_c = x[3];
  c->filter_h = w[1], c->filter_w = w[2], c->out_h = y[1], c->out_w = y[2], c->out_c = y[3];
  c->stride_h = options.stride_h, c->stride_w = options.stride_w;
  c->pad_top = PadBefore(options.padding, c->in_h, c->filter_h, c->stride_h);
  c->pad_left = PadBefore(options.padding, c->in_w, c->filter_w, c->stride_w);
  if (inputs[1].data != NULL) {
    c->weights = malloc((size_t)(c->out_c * c->filter_h * c->filter_w * c->in_c) * sizeof(float));
    if (c->weights == NULL) {
      Destroy(c);
      return LiteRtNpuFail(message, kLiteRtNpuOutOfMemory, "no memory for the weights");
    }
    Transpose(c, inputs[1].data, c->weights);
  }
  *kernel = c;
  return kLiteRtNpuOk;
}

// Dot product, as eight partial sums, which compilers can vectorize without reordering any floating-point sum.
static float Dot(const float* a, const float* b, int64_t count) {
  float sums[8] = {0};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int k = 0; k < 8; ++k) sums[k] += a[i + k] * b[i + k];
  float sum = ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

static void ComputeRow(const Convolution* c, const float* input, const float* bias, int64_t row, float* output) {
  const int64_t n = row / c->out_h, y = row % c->out_h;
  float* out_row = output + row * c->out_w * c->out_c;
  for (int64_t x = 0; x < c->out_w; ++x) memcpy(out_row + x * c->out_c, bias, (size_t)c->out_c * sizeof(float));
  for (int64_t ky = 0; ky < c->filter_h; ++ky) {
    const int64_t from = y + c->pad_top - ky;
    if (from < 0 || from % c->stride_h != 0 || from / c->stride_h >= c->in_h) continue;
    const float* in_row = input + (n * c->in_h + from / c->stride_h) * c->in_w * c->in_c;
    for (int64_t in_x = 0; in_x < c->in_w; ++in_x)
      for (int64_t kx = 0; kx < c->filter_w; ++kx) {
        const int64_t x = in_x * c->stride_w + kx - c->pad_left;
        if (x < 0 || x >= c->out_w) continue;
        const float* weights = c->weights + (ky * c->filter_w + kx) * c->out_c * c->in_c;
        for (int64_t o = 0; o < c->out_c; ++o)
          out_row[x * c->out_c + o] += Dot(in_row + in_x * c->in_c, weights + o * c->in_c, c->in_c);
      }
  }
}

static LiteRtNpuStatus Execute(void* kernel, const LiteRtNpuTensor* inputs, const LiteRtNpuTensor* outputs,
                               LiteRtNpuMessage* message) {
  const Convolution* c = kernel;
  if (c->weights == NULL) return LiteRtNpuFail(message, kLiteRtNpuError, "the weights were not constant in init");
  const float* input = inputs[0].data;
  const float* bias = inputs[2].data;
  float* output = outputs[0].data;
#pragma omp parallel for
  for (int64_t row = 0; row < c->batches * c->out_h; ++row) ComputeRow(c, input, bias, row, output);
  return kLiteRtNpuOk;
}

static const LiteRtNpuCpuLayerLibrary kLibrary = {
    .interface_version = LITERT_NPU_CPU_LAYER_VERSION,
    .size = sizeof(LiteRtNpuCpuLayerLibrary),
    .name = "transposed convolution",
    .version = "1.0",
    .get_num_layer_types = GetNumLayerTypes,
    .get_layer_type = GetLayerType,
    .get_num_implementations = GetNumImplementations,
    .get_implementation_name = GetImplementationName,
    .get_num_configurations = GetNumConfigurations,
    .get_configuration = GetConfiguration,
    .init = Init,
    .execute = Execute,
    .destroy = Destroy,
};

const LiteRtNpuCpuLayerLibrary* litert_npu_get_cpu_layer_library(uint32_t host_version) {
  return host_version == LITERT_NPU_CPU_LAYER_VERSION ? &kLibrary : NULL;
}
