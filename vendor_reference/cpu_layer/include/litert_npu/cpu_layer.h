// A CPU layer: the implementation of a custom op as a function in a shared object.
//
// A library exports one function, `litert_npu_get_cpu_layer_library`, which gives a table of functions. In their order:
//
//   1. The entry tells the version of this interface that the library was built with, and the library's own.
//   2. `set_log_callback`: where the library says what it does.
//   3. `get_num_layer_types`, `get_layer_type`: which ops it has layers for.
//   4. `get_output_shapes`: of an op, from the shapes of its inputs.
//   5. `get_num_implementations`, `get_implementation_name`: an op can have several, such as a plain one and one for
//      blocked memory.
//   6. `get_num_configurations`, `get_configuration`: in what order of memory, and of what precision, an
//      implementation takes its tensors.
//   7. `init`: makes a kernel of an implementation, with the configuration that the host has chosen. It may answer
//      kLiteRtNpuNotImplemented, to be asked with another one.
//   8. `execute`: runs the kernel on tensors.
//   9. `destroy`: ends the kernel.
//  10. `release`: ends the library, where no model uses it any more.
//
// When a model is compiled, all but `execute` is called, in a process of its own with a time limit. Where the compiled
// file is loaded, it is steps 1 and 2, and then `init` with what was chosen: no function counts on another having been
// called, but `execute` and `destroy` on `init`. Where a model leaves dimensions open, the compiler asks with the
// largest inputs, and runs ask again with the actual ones; see "Dynamic shapes" below. The library is loaded from memory: it
// finds no files beside itself, and should need no other libraries than the system's.
//
// A library is C or C++, for the machine that compiles the model and runs it:
//
//   cc -std=c11 -O3 -shared -fPIC -I"$(python -m vendor_reference.cpu_layer)" prelu.c -o prelu.so
//   apply_plugin --cmd=apply --model=m.tflite --npu_custom_op_info=PReLU,prelu.so --allow_native_assets ...
//
// In C++ the functions are `static` or in an anonymous namespace, may throw nothing to the host, and only the entry
// is `extern "C"`, as LITERT_NPU_EXPORT makes it:
//
//   static LiteRtNpuStatus Execute(void* kernel, const LiteRtNpuTensor* inputs, const LiteRtNpuTensor* outputs,
//                                  LiteRtNpuMessage* message) try {
//     static_cast<Kernel*>(kernel)->Run(inputs, outputs);
//     return kLiteRtNpuOk;
//   } catch (const std::exception& error) {
//     return LiteRtNpuFail(message, kLiteRtNpuError, error.what());
//   }
//
// Dynamic shapes. A model can leave dimensions open (-1), for which its user gives bounds. Each shape that a run comes
// with goes through step 4 before anything runs: with the actual inputs, it gives the actual outputs, which must be
// within what it gave for the largest inputs. Then there are two ways:
//
//   A configuration with `dynamic_batch`, where dimension 0 alone is open, and the slowest in memory: `init` is called
//   once, with the largest shapes. `execute` gets tensors with the actual ones, in `type.dims` and `memory_dims`;
//   strides are those of `init`.
//
//   Else `init` is called for each new shape, with tensors and an op of just that shape. The kernels of the last 16
//   shapes are kept. If one is answered with kLiteRtNpuNotImplemented, step 5 and 6 follow for that shape: another
//   implementation is taken whose configuration is the same. A layout in blocks cannot be for such a tensor.
//
// Threads: the functions of steps 1 to 7 are called by one thread at a time. `execute` may be called for several
// kernels at once, by several threads, and by one thread at a time for one kernel.
//
// All pointers that a function gets are the host's, and valid until it returns; those that the entry, `get_layer_type`
// and `get_implementation_name` give are the library's, and valid until it is closed. Numbers are in the machine's byte
// order.

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

// The version of this interface. It changes where a library of the version before could not be used.
#define LITERT_NPU_CPU_LAYER_VERSION 1

// The most dimensions of a tensor, and of its memory.
#define LITERT_NPU_MAX_RANK 16

// ---- What functions answer

typedef int32_t LiteRtNpuStatus;

enum {
  kLiteRtNpuOk = 0,
  kLiteRtNpuError = 1,            // the message says why
  kLiteRtNpuInvalidArgument = 2,  // the op is not what the layer is for: its shapes, types or options
  kLiteRtNpuNotImplemented = 3,   // from `init`: not with this configuration
  kLiteRtNpuOutOfMemory = 4
};

// Room for a sentence that says what is wrong; the host shows it to the user.
typedef struct LiteRtNpuMessage {
  char* text;   // ends with a zero byte
  size_t size;  // bytes that `text` has room for, with the zero byte
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

// Says something to the host's log; `message` is UTF-8, one line. May be called from any thread.
typedef void (*LiteRtNpuLogCallback)(void* user_data, int32_t level, const char* message);

// ---- An op of the model

// Element types, numbered as LiteRtElementType. BOOL is a byte, 0 or 1; FLOAT16 is IEEE's.
enum {
  kLiteRtNpuAnyType = 0,  // in a configuration: the tensor's own
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

// Element type and shape. Dimensions are the model's own, in its order: N, H, W, C for a tensor of rank 4.
typedef struct LiteRtNpuTensorType {
  int32_t element_type;
  int32_t rank;  // 0 to LITERT_NPU_MAX_RANK
  int64_t dims[LITERT_NPU_MAX_RANK];
} LiteRtNpuTensorType;

// An input or output of the op.
typedef struct LiteRtNpuOperand {
  LiteRtNpuTensorType type;
  int32_t is_present;   // 0 for an optional input that is left out; all else of it is 0
  int32_t is_constant;  // an input whose values the model holds
  // value = scales[i] * (stored - zero_points[i]), i the index in dimension `quantized_dimension`; 0 of one.
  int32_t num_scales;  // 0: not quantized; 1; or one for each index of the dimension
  int32_t quantized_dimension;
  const float* scales;
  const int64_t* zero_points;  // as many as scales
} LiteRtNpuOperand;

enum { kLiteRtNpuOptionInt = 0, kLiteRtNpuOptionFloat = 1, kLiteRtNpuOptionText = 2 };

// An entry of options that are a FlexBuffer map.
typedef struct LiteRtNpuOption {
  const char* key;
  int32_t type;        // of `values`: int64_t (also for a bool), double, or char
  int32_t is_array;    // 0: a single number, or a text
  size_t count;        // numbers; of a text its bytes, without the zero byte behind them
  const void* values;  // int64_t*, double* or char*
} LiteRtNpuOption;

// A custom op, as the model has it.
typedef struct LiteRtNpuOp {
  const char* layer_type;  // which of the library's layers is asked
  const char* name;        // of the tensor that is its output 0: models do not name ops
  size_t num_inputs;
  size_t num_outputs;
  const LiteRtNpuOperand* inputs;
  const LiteRtNpuOperand* outputs;
  size_t options_size;       // in bytes
  const void* options_data;  // the op's options, byte for byte: often a C struct; aligned to 16
  size_t num_options;
  const LiteRtNpuOption* options;  // the same, where they are a FlexBuffer map; else none
} LiteRtNpuOp;

// The option of that key; NULL where there is none.
static inline const LiteRtNpuOption* LiteRtNpuFindOption(const LiteRtNpuOp* op, const char* key) {
  for (size_t i = 0; i < op->num_options; ++i)
    if (strcmp(op->options[i].key, key) == 0) return &op->options[i];
  return NULL;
}

// A single number among the options; `otherwise` where there is none.
static inline double LiteRtNpuFloatOption(const LiteRtNpuOp* op, const char* key, double otherwise) {
  const LiteRtNpuOption* option = LiteRtNpuFindOption(op, key);
  if (option == NULL || option->is_array || option->type == kLiteRtNpuOptionText) return otherwise;
  return option->type == kLiteRtNpuOptionFloat ? *(const double*)option->values
                                               : (double)*(const int64_t*)option->values;
}

// A single whole number (or bool) among the options; `otherwise` where there is none.
static inline int64_t LiteRtNpuIntOption(const LiteRtNpuOp* op, const char* key, int64_t otherwise) {
  const LiteRtNpuOption* option = LiteRtNpuFindOption(op, key);
  if (option == NULL || option->is_array || option->type != kLiteRtNpuOptionInt) return otherwise;
  return *(const int64_t*)option->values;
}

// ---- Configurations

// The order of a tensor's memory, from the slowest dimension to the fastest.
//
// Memory dimension i counts along tensor dimension order[i]. Where block[i] is 0, it counts the whole dimension, or
// the blocks of it, if the same dimension comes again further on; where block[i] is b > 0, it counts the b elements of
// a block. Each tensor dimension occurs once with 0, and at most once more, behind that, with a block.
//
// For a tensor N, H, W, C (dimensions 0 to 3):
//   row order          rank 4, order 0 1 2 3
//   channels first     rank 4, order 0 3 1 2
//   nChw8c             rank 5, order 0 3 1 2 3, block 0 0 0 0 8
//
// The last block is filled up: 20 channels in blocks of 8 take 24. What fills it up is 0 in an input, and does not
// matter in an output.
typedef struct LiteRtNpuLayout {
  int32_t rank;  // of the memory; 0 is "any", see LiteRtNpuTensorConfig
  int32_t order[LITERT_NPU_MAX_RANK];
  int64_t block[LITERT_NPU_MAX_RANK];
} LiteRtNpuLayout;

// Row order: the model's own.
static inline LiteRtNpuLayout LiteRtNpuRowOrder(int32_t rank) {
  LiteRtNpuLayout layout;
  memset(&layout, 0, sizeof(layout));
  layout.rank = rank;
  for (int32_t i = 0; i < rank; ++i) layout.order[i] = i;
  return layout;
}

// The last dimension, the channels, behind the first: N, C, H, W for a tensor of rank 4.
static inline LiteRtNpuLayout LiteRtNpuChannelsFirst(int32_t rank) {
  LiteRtNpuLayout layout = LiteRtNpuRowOrder(rank);
  for (int32_t i = 1; i < rank; ++i) layout.order[i] = i == 1 ? rank - 1 : i - 1;
  return layout;
}

// Channels first, in blocks: LiteRtNpuBlockedChannels(4, 8) is nChw8c. The rank is 2 to LITERT_NPU_MAX_RANK - 1.
static inline LiteRtNpuLayout LiteRtNpuBlockedChannels(int32_t rank, int64_t block) {
  LiteRtNpuLayout layout = LiteRtNpuChannelsFirst(rank);
  layout.rank = rank + 1;
  layout.order[rank] = rank - 1;
  layout.block[rank] = block;
  return layout;
}

// Any: see LiteRtNpuTensorConfig.
static inline LiteRtNpuLayout LiteRtNpuAnyLayout(void) { return LiteRtNpuRowOrder(0); }

// How a kernel takes one tensor.
typedef struct LiteRtNpuTensorConfig {
  // What its elements are to be; the host converts floats of another width. kLiteRtNpuAnyType: as they are.
  int32_t element_type;
  // For an output: the input whose memory it may share, so that `execute` can get one pointer for both; -1 for none.
  // Whether it does is the host's choice. For an input: -1.
  int32_t in_place;
  // Of an input: whether the configuration is for a constant only.
  int32_t needs_constant;
  // Whether it may lie in a larger tensor: strides and an offset that are not those of the tensor alone.
  int32_t takes_view;
  // Any layout: in `init` and `execute` all tensors of "any" have one and the same, be it with blocks, if they have one
  // shape; else row order. So an elementwise kernel can go through memory as it lies: over all `memory_dims`.
  LiteRtNpuLayout layout;
} LiteRtNpuTensorConfig;

// How an implementation takes all tensors of an op.
typedef struct LiteRtNpuConfig {
  LiteRtNpuTensorConfig* inputs;   // one for each input of the op
  LiteRtNpuTensorConfig* outputs;  // one for each output
  // Whether a kernel takes, in `execute`, tensors whose dimension 0 is less than it was in `init`. In `init`, where the
  // model has open dimensions: whether that will happen. A library that can not is to set it to 0, and answer
  // kLiteRtNpuNotImplemented.
  int32_t dynamic_batch;
} LiteRtNpuConfig;

// ---- Tensors in memory

// A tensor that a kernel reads or writes.
typedef struct LiteRtNpuTensor {
  void* data;  // the memory; aligned to an element at least. NULL for a tensor without elements or an input left out
  LiteRtNpuTensorType type;  // its element type is the configuration's
  // Where its elements lie: memory dimension i of the layout has `memory_dims[i]` indices, `strides[i]` elements apart;
  // index 0 of all is `offset` elements behind `data`. Where the configuration takes no view, `offset` is 0 and nothing
  // lies between the elements.
  int32_t memory_rank;
  int64_t memory_dims[LITERT_NPU_MAX_RANK];
  int64_t strides[LITERT_NPU_MAX_RANK];
  int64_t offset;
} LiteRtNpuTensor;

// ---- The library

typedef struct LiteRtNpuCpuLayerLibrary {
  uint32_t interface_version;  // LITERT_NPU_CPU_LAYER_VERSION
  uint32_t size;               // sizeof(LiteRtNpuCpuLayerLibrary); a table of an older header ends before `release`
  const char* name;            // of the library
  const char* version;         // of the library

  // Sets what the library says things to; NULL for nothing. The function itself may be NULL.
  void (*set_log_callback)(LiteRtNpuLogCallback callback, void* user_data);

  // How many layer types there are: at least one.
  size_t (*get_num_layer_types)(void);

  // The name of a layer type: the custom code of the ops that it is for. A library with one type can be given for an
  // op of any name; of several, the type named like the op is taken.
  const char* (*get_layer_type)(size_t index);

  // Fills in the dimensions of each output, whose rank and element type are set: shapes[i] has them as the model says,
  // with -1 for those that it does not know, and so have op->outputs. Dimensions of the inputs are known; larger inputs
  // may not have smaller outputs. May be NULL: the model's are taken, and for open ones those of the first input with
  // the same ones open.
  LiteRtNpuStatus (*get_output_shapes)(const LiteRtNpuOp* op, LiteRtNpuTensorType* shapes, LiteRtNpuMessage* message);

  // How many implementations there are for an op; 0, with a message, for an op that the layer cannot do.
  size_t (*get_num_implementations)(const LiteRtNpuOp* op, LiteRtNpuMessage* message);

  // A word or two that tell an implementation from others, for reports.
  const char* (*get_implementation_name)(const LiteRtNpuOp* op, size_t implementation);

  // How many configurations an implementation has for an op; at least one.
  size_t (*get_num_configurations)(const LiteRtNpuOp* op, size_t implementation);

  // Fills in a configuration. It comes filled in with what is simplest: row order, the tensors' own types, nothing in
  // place, no view, no dynamic batch; what is so need not be set.
  LiteRtNpuStatus (*get_configuration)(const LiteRtNpuOp* op, size_t implementation, size_t index,
                                       LiteRtNpuConfig* config, LiteRtNpuMessage* message);

  // Makes a kernel.
  //
  // `config` is one that `get_configuration` gave, with every type and layout settled. kLiteRtNpuNotImplemented says
  // that it cannot be: the host tries what the function has made of `config`, if it has changed it, and then the other
  // configurations.
  //
  // `inputs` and `outputs` have shapes and strides. `data` is NULL, but for constant inputs where a compiled file is
  // loaded: there a kernel can bring its weights into the order that it likes. `kernel` is set, and given back to
  // `execute` and `destroy`; it may stay NULL.
  LiteRtNpuStatus (*init)(const LiteRtNpuOp* op, size_t implementation, LiteRtNpuConfig* config,
                          const LiteRtNpuTensor* inputs, const LiteRtNpuTensor* outputs, void** kernel,
                          LiteRtNpuMessage* message);

  // Runs a kernel: reads `inputs`, writes all of `outputs`. Inputs are not written, but where an output lies in place.
  // Shapes and strides are those of `init`, but for a dynamic batch.
  LiteRtNpuStatus (*execute)(void* kernel, const LiteRtNpuTensor* inputs, const LiteRtNpuTensor* outputs,
                             LiteRtNpuMessage* message);

  // Ends a kernel. May be NULL.
  void (*destroy)(void* kernel);

  // Ends what the library holds; all its kernels have ended, and none of its threads may run on. Then the library is
  // closed. Called where the last model of a process that uses it is closed, and where the compiler has asked it all. If
  // the library is used again, it starts with the entry. NULL: the library stays loaded as long as the process lives.
  void (*release)(void);
} LiteRtNpuCpuLayerLibrary;

#ifdef __cplusplus
}
#endif

// The one function that a library exports.
//
// `host_version` is the host's LITERT_NPU_CPU_LAYER_VERSION. The answer is a table of that version, which is valid until
// the library is closed; or NULL, if the library has none.
LITERT_NPU_EXPORT const LiteRtNpuCpuLayerLibrary* litert_npu_get_cpu_layer_library(uint32_t host_version);

#endif  // LITERT_NPU_CPU_LAYER_H_
