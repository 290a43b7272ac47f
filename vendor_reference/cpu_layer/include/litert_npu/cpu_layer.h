// A CPU layer: the implementation of a custom op by C functions in a shared object.
//
// A library of CPU layers exports one function, `litert_npu_get_cpu_layer_library`, which returns a table of
// functions. The host (compiler or runtime) calls these functions in the following order:
//
//   1. `litert_npu_get_cpu_layer_library`: returns the table, which contains the version of this interface with which
//      the library was built, and the library's own version.
//   2. `set_log_callback`: sets the function to which the library writes log messages.
//   3. `get_num_layer_types`, `get_layer_type`: return the names of the ops for which the library has layers.
//   4. `get_output_shapes`: computes the output shapes of an op from its input shapes.
//   5. `get_num_implementations`, `get_implementation_name`: an op can have several implementations, such as a plain
//      implementation and an implementation for blocked memory.
//   6. `get_num_configurations`, `get_configuration`: return the memory layouts and element types in which an
//      implementation takes its tensors.
//   7. `init`: creates a kernel for an implementation and a configuration that the host has chosen. If the function
//      returns kLiteRtNpuNotImplemented, the host tries another configuration.
//   8. `execute`: runs the kernel on tensors.
//   9. `destroy`: ends the kernel.
//  10. `release`: releases the library, when no model uses it any more.
//
// When a model is compiled, the compiler calls all functions except `execute`, in a separate process with a time
// limit. When the compiled file is loaded, the runtime performs only steps 1 and 2, and then calls `init` with the
// choice of the compiler. Functions must therefore not rely on earlier calls of other functions; only `execute` and
// `destroy` always follow `init`. If a model has dynamic dimensions, the compiler calls `get_output_shapes` with the
// largest input shapes, and each run calls the function again with the actual input shapes; see "Dynamic shapes"
// below. The library is loaded from memory: it cannot find files in its own folder, and should depend only on system
// libraries.
//
// A library is written in C or C++, and built for the machine that compiles the model and runs it:
//
//   cc -std=c11 -O3 -shared -fPIC -I"$(python -m vendor_reference.cpu_layer)" prelu.c -o prelu.so
//   apply_plugin --cmd=apply --model=m.tflite --npu_custom_op_info=PReLU,prelu.so --allow_native_assets ...
//
// In C++, define the functions as `static` or in an anonymous namespace. Functions must not throw exceptions to the
// host. Only the exported function is `extern "C"`, which LITERT_NPU_EXPORT declares:
//
//   static LiteRtNpuStatus Execute(void* kernel, const LiteRtNpuTensor* inputs, const LiteRtNpuTensor* outputs,
//                                  LiteRtNpuMessage* message) try {
//     static_cast<Kernel*>(kernel)->Run(inputs, outputs);
//     return kLiteRtNpuOk;
//   } catch (const std::exception& error) {
//     return LiteRtNpuFail(message, kLiteRtNpuError, error.what());
//   }
//
// Dynamic shapes. A model can have dynamic dimensions (-1), for which the user sets bounds. Before a run with new
// shapes, the host calls `get_output_shapes` with the actual input shapes. The resulting output shapes must not exceed
// the output shapes that the function returned for the largest input shapes. Kernels are created in one of two ways:
//
//   With a configuration that has `dynamic_batch`, only dimension 0 may be dynamic, and it must be the outermost
//   dimension in memory. The host calls `init` once, with the largest shapes. `execute` gets the actual shapes in
//   `type.dims` and `memory_dims`, while strides are the same as in `init`.
//
//   With other configurations, the host calls `init` for each new shape, with an op and tensors of this shape. The
//   host keeps the kernels for the last 16 shapes. If `init` returns kLiteRtNpuNotImplemented for a shape, the host
//   repeats steps 5 and 6 for this shape, and chooses another implementation with the same configuration. Tensors of
//   dynamic shape cannot have a blocked layout.
//
// Threads: only one thread at a time calls the functions of steps 1 to 7. Several threads may call `execute` at once
// for different kernels, but only one thread at a time for the same kernel.
//
// Pointers that the host passes to a function are valid until the function returns. Pointers that the exported
// function, `get_layer_type` and `get_implementation_name` return belong to the library, and must be valid until the
// library is closed. Numbers are in the machine's byte order.

#ifndef LITERT_NPU_CPU_LAYER_H_
#define LITERT_NPU_CPU_LAYER_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#define LITERT_NPU_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define LITERT_NPU_EXPORT __attribute__((visibility("default")))
#endif

// The version of this interface. The version changes when libraries with the previous version can no longer be used.
#define LITERT_NPU_CPU_LAYER_VERSION 1

// The maximum number of dimensions of a tensor, and of its memory layout.
#define LITERT_NPU_MAX_RANK 16

// ---- Return values

typedef int32_t LiteRtNpuStatus;

enum {
  kLiteRtNpuOk = 0,
  kLiteRtNpuError = 1,            // the message contains the reason
  kLiteRtNpuInvalidArgument = 2,  // the layer does not support the op's shapes, types or options
  kLiteRtNpuNotImplemented = 3,   // `init` does not support this configuration
  kLiteRtNpuOutOfMemory = 4
};

// Memory for a sentence that describes an error; the host shows the sentence to the user.
typedef struct LiteRtNpuMessage {
  char* text;   // ends with a zero byte
  size_t size;  // size of the memory of `text` in bytes, including the zero byte
} LiteRtNpuMessage;

// Writes a message, and returns the status: `return LiteRtNpuFail(message, kLiteRtNpuError, "no memory");`.
static inline LiteRtNpuStatus LiteRtNpuFail(LiteRtNpuMessage* message, LiteRtNpuStatus status, const char* text) {
  if (message != NULL && message->size > 0) {
    size_t length = strlen(text);
    if (length >= message->size) length = message->size - 1;
    memcpy(message->text, text, length);
    message->text[length] = '\0';
  }
  return status;
}

enum { kLiteRtNpuLogDebug = 0, kLiteRtNpuLogInfo = 1, kLiteRtNpuLogWarning = 2, kLiteRtNpuLogError = 3 };

// Writes a message to the host's log; `message` is one line in UTF-8. May be called from any thread.
typedef void (*LiteRtNpuLogCallback)(void* user_data, int32_t level, const char* message);

// ---- An op of the model

// Element types, with the same numbers as LiteRtElementType. BOOL is a byte with value 0 or 1; FLOAT16 is IEEE half.
enum {
  kLiteRtNpuAnyType = 0,  // in a configuration: the element type that the tensor has in the model
  kLiteRtNpuFloat32 = 1,
  kLiteRtNpuInt32 = 2,
  kLiteRtNpuUInt8 = 3,
  kLiteRtNpuInt64 = 4,
  kLiteRtNpuBool = 6,
  kLiteRtNpuInt16 = 7,
  kLiteRtNpuInt8 = 9,
  kLiteRtNpuFloat16 = 10,
  kLiteRtNpuFloat64 = 11,
  kLiteRtNpuUInt64 = 13,
  kLiteRtNpuUInt32 = 16,
  kLiteRtNpuUInt16 = 17
};

// Element type and shape of a tensor. Dimensions are in the order of the model: N, H, W, C for a tensor of rank 4.
typedef struct LiteRtNpuTensorType {
  int32_t element_type;
  int32_t rank;  // 0 to LITERT_NPU_MAX_RANK
  int64_t dims[LITERT_NPU_MAX_RANK];
} LiteRtNpuTensorType;

// An input or output of the op.
typedef struct LiteRtNpuOperand {
  LiteRtNpuTensorType type;
  int32_t is_present;   // 0 for an omitted optional input, whose other fields are 0
  int32_t is_constant;  // whether the input is a constant of the model
  // value = scales[i] * (stored - zero_points[i]). The index i counts along dimension `quantized_dimension`; with only
  // one scale, i is 0.
  int32_t num_scales;  // 0 if not quantized; 1; or the size of the quantized dimension
  int32_t quantized_dimension;
  const float* scales;
  const int64_t* zero_points;  // as many as scales
} LiteRtNpuOperand;

enum { kLiteRtNpuOptionInt = 0, kLiteRtNpuOptionFloat = 1, kLiteRtNpuOptionText = 2 };

// An entry of the op's options, if the options are a FlexBuffer map.
typedef struct LiteRtNpuOption {
  const char* key;
  int32_t type;        // type of `values`: int64_t (also for a bool), double, or char
  int32_t is_array;    // 0 for a single number or a text
  size_t count;        // number of numbers; for a text its bytes, without the zero byte at the end
  const void* values;  // int64_t*, double* or char*
} LiteRtNpuOption;

// A custom op of the model.
typedef struct LiteRtNpuOp {
  const char* layer_type;  // layer type of the library for this op
  const char* name;        // name of the op's output 0, since ops in models have no names
  size_t num_inputs;
  size_t num_outputs;
  const LiteRtNpuOperand* inputs;
  const LiteRtNpuOperand* outputs;
  size_t options_size;       // in bytes
  const void* options_data;  // bytes of the op's options, often a C struct; aligned to 16 bytes
  size_t num_options;
  const LiteRtNpuOption* options;  // the entries of the options if they are a FlexBuffer map
} LiteRtNpuOp;

// Returns the option with the given key; NULL if the option does not exist.
static inline const LiteRtNpuOption* LiteRtNpuFindOption(const LiteRtNpuOp* op, const char* key) {
  for (size_t i = 0; i < op->num_options; ++i)
    if (strcmp(op->options[i].key, key) == 0) return &op->options[i];
  return NULL;
}

// Returns an option that is a single number; `otherwise` if the option does not exist or is not a single number.
static inline double LiteRtNpuFloatOption(const LiteRtNpuOp* op, const char* key, double otherwise) {
  const LiteRtNpuOption* option = LiteRtNpuFindOption(op, key);
  if (option == NULL || option->is_array || option->type == kLiteRtNpuOptionText) return otherwise;
  return option->type == kLiteRtNpuOptionFloat ? *(const double*)option->values
                                               : (double)*(const int64_t*)option->values;
}

// Returns an option that is a single integer or bool; `otherwise` if the option does not exist or has another type.
static inline int64_t LiteRtNpuIntOption(const LiteRtNpuOp* op, const char* key, int64_t otherwise) {
  const LiteRtNpuOption* option = LiteRtNpuFindOption(op, key);
  if (option == NULL || option->is_array || option->type != kLiteRtNpuOptionInt) return otherwise;
  return *(const int64_t*)option->values;
}

// ---- Configurations

// The memory layout of a tensor: its memory dimensions from the outermost to the innermost.
//
// Memory dimension i counts along tensor dimension order[i]. If block[i] is b > 0, it counts the b elements within a
// block. If block[i] is 0, it counts the blocks of the tensor dimension, or all elements of a tensor dimension without
// blocks. Each tensor dimension occurs once with block 0, and may occur once more later, with a block size.
//
// For a tensor N, H, W, C (dimensions 0 to 3):
//   row-major          rank 4, order 0 1 2 3
//   channels first     rank 4, order 0 3 1 2
//   nChw8c             rank 5, order 0 3 1 2 3, block 0 0 0 0 8
//
// The last block is padded: 20 channels in blocks of 8 take 24 elements. The padding is 0 in an input, and is ignored
// in an output.
typedef struct LiteRtNpuLayout {
  int32_t rank;  // number of memory dimensions; 0 stands for any layout, see LiteRtNpuTensorConfig
  int32_t order[LITERT_NPU_MAX_RANK];
  int64_t block[LITERT_NPU_MAX_RANK];
} LiteRtNpuLayout;

// Returns the row-major layout, in which models store tensors.
static inline LiteRtNpuLayout LiteRtNpuRowOrder(int32_t rank) {
  LiteRtNpuLayout layout;
  memset(&layout, 0, sizeof(layout));
  layout.rank = rank;
  for (int32_t i = 0; i < rank; ++i) layout.order[i] = i;
  return layout;
}

// Returns the layout in which the last dimension (channels) follows the first: N, C, H, W for a tensor of rank 4.
static inline LiteRtNpuLayout LiteRtNpuChannelsFirst(int32_t rank) {
  LiteRtNpuLayout layout = LiteRtNpuRowOrder(rank);
  for (int32_t i = 1; i < rank; ++i) layout.order[i] = i == 1 ? rank - 1 : i - 1;
  return layout;
}

// Returns channels first in blocks: LiteRtNpuBlockedChannels(4, 8) is nChw8c. `rank` is 2 to LITERT_NPU_MAX_RANK - 1.
static inline LiteRtNpuLayout LiteRtNpuBlockedChannels(int32_t rank, int64_t block) {
  LiteRtNpuLayout layout = LiteRtNpuChannelsFirst(rank);
  layout.rank = rank + 1;
  layout.order[rank] = rank - 1;
  layout.block[rank] = block;
  return layout;
}

// Returns the layout that stands for any layout; see LiteRtNpuTensorConfig.
static inline LiteRtNpuLayout LiteRtNpuAnyLayout(void) { return LiteRtNpuRowOrder(0); }

// The form in which a kernel takes one tensor.
typedef struct LiteRtNpuTensorConfig {
  // Element type that the kernel needs; the host converts floats of different width. kLiteRtNpuAnyType: the type in
  // the model.
  int32_t element_type;
  // For an output: index of the input whose memory the output may share, so that `execute` can get the same pointer
  // for both; -1 for none. The host decides whether the memory is shared. For an input: -1.
  int32_t in_place;
  // For an input: whether the input must be a constant.
  int32_t needs_constant;
  // Whether the tensor may be a view of a larger tensor, with strides and an offset that differ from those of dense
  // memory.
  int32_t takes_view;
  // Memory layout. With "any layout", all tensors with this setting have the same layout in `init` and `execute`,
  // which may be blocked, if they have the same shape; otherwise their layout is row-major. An elementwise kernel can
  // thus process the elements in memory order, over all `memory_dims`.
  LiteRtNpuLayout layout;
} LiteRtNpuTensorConfig;

// The form in which an implementation takes all tensors of an op.
typedef struct LiteRtNpuConfig {
  LiteRtNpuTensorConfig* inputs;   // one for each input of the op
  LiteRtNpuTensorConfig* outputs;  // one for each output
  // Whether a kernel accepts tensors in `execute` whose dimension 0 is smaller than in `init`. If the model has
  // dynamic dimensions, the value in `init` says whether this will happen. A library that does not support it sets the
  // field to 0, and returns kLiteRtNpuNotImplemented.
  int32_t dynamic_batch;
} LiteRtNpuConfig;

// ---- Tensors in memory

// A tensor that a kernel reads or writes.
typedef struct LiteRtNpuTensor {
  void* data;  // memory, aligned at least to an element; NULL for an empty tensor or an omitted input
  LiteRtNpuTensorType type;  // the element type is that of the configuration
  // Positions of the elements: memory dimension i of the layout has `memory_dims[i]` indices, which are `strides[i]`
  // elements apart. The element with index 0 in all dimensions is `offset` elements after `data`. If the configuration
  // does not allow views, `offset` is 0, and the memory is dense.
  int32_t memory_rank;
  int64_t memory_dims[LITERT_NPU_MAX_RANK];
  int64_t strides[LITERT_NPU_MAX_RANK];
  int64_t offset;
} LiteRtNpuTensor;

// ---- The library

typedef struct LiteRtNpuCpuLayerLibrary {
  uint32_t interface_version;  // LITERT_NPU_CPU_LAYER_VERSION
  uint32_t size;               // sizeof(LiteRtNpuCpuLayerLibrary); a table of an older header ends before `release`
  const char* name;            // name of the library
  const char* version;         // version of the library

  // Sets the callback for log messages; NULL turns logging off. This table entry may be NULL.
  void (*set_log_callback)(LiteRtNpuLogCallback callback, void* user_data);

  // Returns the number of layer types, which is at least 1.
  size_t (*get_num_layer_types)(void);

  // Returns the name of a layer type, which is the custom code of the ops that the layer implements. A library with
  // only one layer type can be used for an op of any name; of several layer types, the type with the op's name is
  // used.
  const char* (*get_layer_type)(size_t index);

  // Sets the dimensions of each output, whose rank and element type are already set. On entry, shapes[i] has the
  // dimensions in the model, with -1 for unknown dimensions, and op->outputs has the same dimensions. All dimensions
  // of the inputs are known. Larger inputs must not have smaller outputs. This table entry may be NULL: the host then
  // uses the shapes in the model. It replaces unknown dimensions by the dimensions of the first input that has the
  // same unknown dimensions.
  LiteRtNpuStatus (*get_output_shapes)(const LiteRtNpuOp* op, LiteRtNpuTensorType* shapes, LiteRtNpuMessage* message);

  // Returns the number of implementations for an op; 0, with a message, if the layer does not support the op.
  size_t (*get_num_implementations)(const LiteRtNpuOp* op, LiteRtNpuMessage* message);

  // Returns a short name of an implementation, for reports.
  const char* (*get_implementation_name)(const LiteRtNpuOp* op, size_t implementation);

  // Returns the number of configurations that an implementation has for an op, which is at least 1.
  size_t (*get_num_configurations)(const LiteRtNpuOp* op, size_t implementation);

  // Sets the fields of a configuration. On entry, `config` is the simplest configuration: row-major layouts, the
  // tensors' own element types, no shared memory, no views, no dynamic batch. Only fields with other values must be
  // set.
  LiteRtNpuStatus (*get_configuration)(const LiteRtNpuOp* op, size_t implementation, size_t index,
                                       LiteRtNpuConfig* config, LiteRtNpuMessage* message);

  // Creates a kernel.
  //
  // `config` is a configuration that `get_configuration` returned, in which the host has chosen all types and layouts.
  // If the function does not support it, it returns kLiteRtNpuNotImplemented. The host then tries the configuration to
  // which the function has changed `config`, if it has changed it, and after that the other configurations.
  //
  // `inputs` and `outputs` have shapes and strides. `data` is NULL, except for constant inputs when a compiled file is
  // loaded: the kernel can then reorder its weights. The function sets `*kernel`, which the host passes to `execute`
  // and `destroy`; `*kernel` may stay NULL.
  LiteRtNpuStatus (*init)(const LiteRtNpuOp* op, size_t implementation, LiteRtNpuConfig* config,
                          const LiteRtNpuTensor* inputs, const LiteRtNpuTensor* outputs, void** kernel,
                          LiteRtNpuMessage* message);

  // Runs a kernel: reads `inputs`, and writes all elements of `outputs`. The function must not write inputs, except
  // for an output that shares an input's memory. Shapes and strides are the same as in `init`, except for a dynamic
  // batch.
  LiteRtNpuStatus (*execute)(void* kernel, const LiteRtNpuTensor* inputs, const LiteRtNpuTensor* outputs,
                             LiteRtNpuMessage* message);

  // Ends a kernel. This table entry may be NULL.
  void (*destroy)(void* kernel);

  // Releases all resources of the library. All kernels have ended, and no thread of the library may continue to run,
  // since the library is closed afterwards. The function is called when the last model of a process that uses the
  // library is closed, and when the compiler has finished its calls. If the library is used again, the host starts
  // with the exported function. If this table entry is NULL, the library stays loaded until the process ends.
  void (*release)(void);
} LiteRtNpuCpuLayerLibrary;

#ifdef __cplusplus
}
#endif

// The only function that a library exports.
//
// `host_version` is the host's LITERT_NPU_CPU_LAYER_VERSION. The function returns a table of this version, which must
// be valid until the library is closed; or NULL, if the library has no such table.
LITERT_NPU_EXPORT const LiteRtNpuCpuLayerLibrary* litert_npu_get_cpu_layer_library(uint32_t host_version);

#endif  // LITERT_NPU_CPU_LAYER_H_
