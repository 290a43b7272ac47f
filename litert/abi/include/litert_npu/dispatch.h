/* This header declares the table of functions that a dispatch library fills. The library is called
 * `libLiteRtDispatch_<vendor>.so` and exports `LiteRtDispatchGetApi`. A library for custom ops with assets, which are
 * the user's files for these ops, also exports `LiteRtDispatchRegisterAsset`. A library that can show the tensors
 * between the ops of an NPU call, for debugging, also exports `LiteRtDispatchInvokeTapped`.
 *
 * The host calls the functions in this order: first `LiteRtDispatchGetApi`, `initialize` (once in the process) and
 * `check_runtime_compatibility`. For each model, the host calls `device_context_create` and registers the model's
 * assets. For each NPU call, the host calls `invocation_context_create`, and then asks for the memory requirements of
 * all inputs and of all outputs. After this, the host registers and attaches each buffer. For each run, the host calls
 * `invocation_context_set_scheduling_info`, `invocation_context_set_options` and `invoke`. At the end, the host
 * detaches all buffers, then unregisters them, then destroys the contexts. Each paragraph that begins with a name, such
 * as invoke.written, is a rule of the contract; `litert-npu vendor check` reports the names of broken rules. */
#ifndef LITERT_NPU_DISPATCH_H_
#define LITERT_NPU_DISPATCH_H_

#include "litert_npu/runtime_context.h"
#include "litert_npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Handles of the vendor. Only the vendor knows the structs behind them. */
typedef struct LiteRtDispatchDeviceContextT* LiteRtDispatchDeviceContext;
typedef struct LiteRtDispatchInvocationContextT* LiteRtDispatchInvocationContext;
typedef struct LiteRtDispatchMetricsT* LiteRtDispatchMetrics;
typedef struct LiteRtDispatchGraphT* LiteRtDispatchGraph;
typedef uint64_t LiteRtTensorBufferHandle; /* 0 is a valid handle, too */
typedef uint64_t LiteRtDispatchNodeId;
typedef uint64_t LiteRtDispatchEdgeId;
typedef uint64_t LiteRtDispatchExecutableHandle;

typedef enum LiteRtDispatchCapabilities {
  kLiteRtDispatchCapabilitiesNone = 0,
  kLiteRtDispatchCapabilitiesBasic = 1,
  kLiteRtDispatchCapabilitiesAsync = 2,
  kLiteRtDispatchCapabilitiesGraph = 4
} LiteRtDispatchCapabilities;

typedef enum LiteRtDispatchExecutableType {
  kLiteRtDispatchExecutableTypeUnknown = 0,
  kLiteRtDispatchExecutableTypeDspLibrary = 1,
  kLiteRtDispatchExecutableTypeMlModel = 2,
  kLiteRtDispatchExecutableTypeJitHandle = 3,
  kLiteRtDispatchExecutableTypeTfliteModel = 4
} LiteRtDispatchExecutableType;

typedef enum LiteRtDispatchNodeType {
  kLiteRtDispatchNodeTypeUnknown = 0,
  kLiteRtDispatchNodeTypeDsp = 1,
  kLiteRtDispatchNodeTypeNpu = 2,
  kLiteRtDispatchNodeTypeCpu = 3
} LiteRtDispatchNodeType;

typedef LiteRtStatus (*LiteRtHook)(void* user_data);

/* All slots (function pointers) are required, except slots whose description begins with "Optional". */
typedef struct LiteRtDispatchInterface {
  /* Initializes the library. The host calls `initialize` once in the process, before all other slots.
   *
   * [initialize.no_options] `environment` and `options` may be NULL.
   * [initialize.again] A second call of `initialize`, for example after a failed first call, does no harm.
   * [dispatch.statuses] Each status that a function of the table returns is a value of the enum LiteRtStatus.
   * [dispatch.null_arguments] Recommended: if an out argument (a pointer to memory for a result) or a context is NULL,
   * a function returns InvalidArgument and does nothing else. Hosts never pass NULL for these arguments. */
  LiteRtStatus (*initialize)(
      const LiteRtRuntimeContext* runtime_context, LiteRtEnvironment environment,
      LiteRtOptions options);
  /* Returns the vendor's name, which hosts show to users.
   *
   * [ids.text] The vendor's name is a text that is not empty. It is the same at each call, and stays valid while the
   * library is loaded. */
  LiteRtStatus (*get_vendor_id)(const char** vendor_id);
  /* Returns the name of the library's build, which hosts show to users.
   *
   * [ids.build] The name of the build is a text that may be empty. It is the same at each call, and stays valid while
   * the library is loaded. */
  LiteRtStatus (*get_build_id)(const char** build_id);
  /* Returns the capabilities of the library, as a bit mask.
   *
   * [capabilities.basic] The capabilities include kLiteRtDispatchCapabilitiesBasic.
   * [capabilities.parts] The capabilities include Async if and only if the table has an `async_interface`, and Graph if
   * and only if the table has a `graph_interface`. The library fills all slots of each interface that the table has. */
  LiteRtStatus (*get_capabilities)(int* capabilities);
  /* Opens the device for one loaded model.
   *
   * [device.many] Several device contexts may exist at the same time, and do not affect each other.
   * [device.failure] After a failure of `device_context_create`, the out argument is unchanged or NULL, and the library
   * has closed everything that it opened. */
  LiteRtStatus (*device_context_create)(
      const LiteRtRuntimeContext* runtime_context, LiteRtOptions options,
      LiteRtDispatchDeviceContext* device_context);
  /* Closes the device. The host has already destroyed all objects that were made in the device context.
   *
   * [device.closes] When `device_context_destroy` returns, the library has closed the files that it opened for the
   * device context and its invocation contexts. Files that the library opened for the whole process may stay open.
   * [device.threads] When `device_context_destroy` returns, the library has ended the threads that it started for the
   * device context and its invocation contexts. Threads that the library started for the whole process may continue.
   * [dispatch.ends] When the process ends after all device contexts are destroyed, the library does not crash, hang or
   * change the exit status. */
  LiteRtStatus (*device_context_destroy)(LiteRtDispatchDeviceContext device_context);
  /* Returns an object with the memory requirements of an input. The library makes this object with the slot
   * `create_tensor_buffer_requirements` of the runtime context, and the host destroys the object.
   *
   * [requirements.size] The required size is large enough for the tensor. If the tensor type has a dimension of -1, the
   * size is large enough for the largest possible tensor.
   * [requirements.fresh] Each call of `get_input_requirements` and `get_output_requirements` makes a new requirements
   * object.
   * [requirements.types] The requirements object contains at least one type of memory. The best type is the first in
   * the list, because stock LiteRT's runtime allocates memory of the first type.
   * [requirements.index] Recommended: an index beyond the last input or output is refused with InvalidArgument or
   * IndexOOB. Hosts do not pass such an index. */
  LiteRtStatus (*get_input_requirements)(
      LiteRtDispatchInvocationContext invocation_context, int input_index,
      const LiteRtRankedTensorType* tensor_type, LiteRtTensorBufferRequirements* requirements);
  /* Returns the memory requirements of an output, under the same rules as for inputs. */
  LiteRtStatus (*get_output_requirements)(
      LiteRtDispatchInvocationContext invocation_context, int output_index,
      const LiteRtRankedTensorType* tensor_type, LiteRtTensorBufferRequirements* requirements);
  /* Registers a buffer with the device. The host keeps the buffer until it unregisters the buffer.
   *
   * [buffers.handles] Registered buffers have different handles. Any number is a valid handle, including 0.
   * [buffers.again] After a buffer was unregistered, the host may register it again.
   * [buffers.size] If a buffer is smaller than its tensor, or smaller than the required size, one of these steps fails:
   * registering, attaching, or the run. The library never reads or writes beyond the end of a buffer. For memory that
   * the vendor allocated, only the vendor can check accesses beyond the end. */
  LiteRtStatus (*register_tensor_buffer)(
      LiteRtDispatchDeviceContext device_context, LiteRtTensorBuffer tensor_buffer,
      LiteRtTensorBufferHandle* handle);
  /* Unregisters a buffer; the host has already detached the buffer.
   *
   * [buffers.unknown] Unregistering a handle that is not registered fails with any status except Ok, and does no
   * harm. */
  LiteRtStatus (*unregister_tensor_buffer)(
      LiteRtDispatchDeviceContext device_context, LiteRtTensorBufferHandle handle);
  /* Loads a function of a byte code module.
   *
   * [invocation.ok] `invocation_context_create` accepts byte code of the vendor's own compiler.
   * [dispatch.runs] If the host calls the functions of the table in the required order, each call returns Ok, and the
   * loaded function runs.
   * [invocation.byte_code] The bytes of the byte code are at base_addr + offset of `byte_code`, and stay valid until
   * the device context is destroyed. The file descriptor fd may be -1, so the library must not need a file. The offset
   * and the address need not be aligned. The library refuses bytes that are not the vendor's byte code.
   * [invocation.function] `invocation_context_create` refuses a function name that the byte code module does not
   * contain.
   * [invocation.counts] If the given numbers of inputs and outputs differ from the function's numbers,
   * `invocation_context_create` refuses them, or the run fails.
   * [invocation.many] A device context may have many invocation contexts, even of the same function.
   * [invocation.failure] After a failure of `invocation_context_create`, the out argument is unchanged or NULL. */
  LiteRtStatus (*invocation_context_create)(
      const LiteRtRuntimeContext* runtime_context, LiteRtDispatchDeviceContext device_context,
      LiteRtDispatchExecutableType exec_type, const LiteRtMemBuffer* byte_code,
      const char* function_name, int num_inputs, int num_outputs,
      LiteRtDispatchInvocationContext* invocation_context);
  /* Destroys an invocation context; the host has already detached all buffers. */
  LiteRtStatus (*invocation_context_destroy)(LiteRtDispatchInvocationContext invocation_context);
  /* Optional: sets the scheduling information of the next run, such as its priority.
   *
   * [scheduling.any] `invocation_context_set_scheduling_info` accepts any value of `fields_mask` in `scheduling_info`,
   * including 0. */
  LiteRtStatus (*invocation_context_set_scheduling_info)(
      LiteRtDispatchInvocationContext invocation_context, const LiteRtSchedulingInfo* scheduling_info);
  /* Attaches a buffer to an input, for all later runs.
   *
   * [attach.replaces] Attaching a buffer to an input or output replaces the previous buffer, without a call of detach.
   * [attach.index] Attaching a buffer to an index beyond the last input or output fails with any status except Ok.
   * [attach.unknown] If the handle is not registered, attaching it fails, or the run fails. */
  LiteRtStatus (*attach_input)(
      LiteRtDispatchInvocationContext invocation_context, int input_index, LiteRtTensorBufferHandle handle);
  /* Attaches a buffer to an output, under the same rules as for inputs. */
  LiteRtStatus (*attach_output)(
      LiteRtDispatchInvocationContext invocation_context, int output_index,
      LiteRtTensorBufferHandle handle);
  /* Detaches a buffer from an input.
   *
   * [detach.stale] If a handle is not attached to an input, detaching the handle from this input changes nothing.
   * Another handle that is attached to the input stays attached. */
  LiteRtStatus (*detach_input)(
      LiteRtDispatchInvocationContext invocation_context, int input_index, LiteRtTensorBufferHandle handle);
  /* Detaches a buffer from an output, under the same rules as for inputs. */
  LiteRtStatus (*detach_output)(
      LiteRtDispatchInvocationContext invocation_context, int output_index,
      LiteRtTensorBufferHandle handle);
  /* Runs the loaded function on the attached buffers.
   *
   * [invoke.written] When `invoke` returns Ok, it has written all outputs.
   * [invoke.values] The values of the outputs are as close to the values of LiteRT's CPU kernels as the NPU's
   * arithmetic allows. The error of a float value is at most one hundredth of the sum of the absolute values of the
   * terms that the op adds up, such as the products of a convolution. If `litert-npu vendor check` cannot compute this
   * sum, for example for a call with several ops, the error is at most one hundredth of the largest output. The flag
   * `--tolerance` of this command changes the limit. The error of an 8-bit or 16-bit integer value is at most one
   * quantization step for each op of the call. All other values are equal to LiteRT's values.
   * [values.input_order] The inputs of a call are in the order of its subgraph's inputs; an op of the subgraph may read
   * them in another order.
   * [values.padding] SAME padding is the same as in TensorFlow: if the number of added rows or columns is odd, one more
   * row or column is added after the image than before the image. A convolution pads with the input's zero point; a
   * pool ignores the padding.
   * [values.strides] `stride_h` is the stride between rows, and `stride_w` is the stride between columns.
   * [values.dilation] `dilation_h_factor` is the dilation of rows, and `dilation_w_factor` is the dilation of columns.
   * [values.bias] An op adds its bias to the sum of its products. The scale of a quantized bias is the scale of the
   * input times the scale of the weights of the same channel.
   * [values.per_channel] If weights have a scale for each output channel, an op computes each channel with the scale of
   * this channel.
   * [values.accumulation] An op sums products of 8-bit values in 32 bits, and saturates only the final result.
   * [values.zero_point] An op subtracts the zero points of its inputs first, and adds the zero point of its output
   * last.
   * [values.activation] A fused activation, or an activation op, limits the output: for example, RELU6 limits the
   * output to values from 0 to 6.
   * [values.broadcast] An op broadcasts an input of a smaller shape along the input's dimensions of size 1.
   * [invoke.repeatable] `invoke` gives the same outputs for the same inputs, even after other runs.
   * [invoke.missing] If a buffer was never attached, or was detached, `invoke` fails, and the context can be used
   * again.
   * [invoke.unlocks] Before `invoke` returns, it unlocks each buffer that it has locked, even if it fails. `invoke`
   * never locks a buffer that is already locked, because stock LiteRT's runtime refuses this. Even if a buffer is
   * attached to two inputs, `invoke` does not lock the buffer twice at the same time.
   * [invoke.memory] `invoke` does not leak memory: the memory of the process does not grow with the number of runs.
   * [invoke.threads] The host may use different contexts at the same time, from any thread. The host makes only one
   * call at a time on an invocation context, and only one call at a time on a device context. Attaching or detaching a
   * buffer counts as a call on the invocation context and on the device context. While `invoke` runs on an invocation
   * context, the host may register and unregister buffers of the device context. */
  LiteRtStatus (*invoke)(LiteRtDispatchInvocationContext invocation_context);
  /* Optional: starts the collection of metrics. The next four slots are optional, too.
   *
   * [metrics.slots] The library fills either all five slots for metrics, or none of these slots.
   * [metrics.pair] After a start, `stop_metrics_collection` returns a metrics object, which `destroy_metrics` destroys.
   * The host can then start the collection of metrics again.
   * [metrics.order] `stop_metrics_collection` fails if the collection was not started. */
  LiteRtStatus (*start_metrics_collection)(
      LiteRtDispatchInvocationContext invocation_context, int detail_level);
  /* Stops the collection of metrics, and returns the metrics. */
  LiteRtStatus (*stop_metrics_collection)(
      LiteRtDispatchInvocationContext invocation_context, LiteRtDispatchMetrics* metrics);
  /* Returns the number of metrics.
   *
   * [metrics.each] For each index below the number of metrics, `get_metric` returns a metric with a name and a value;
   * `get_metric` refuses the next index. */
  LiteRtStatus (*get_num_metrics)(LiteRtDispatchMetrics metrics, int* num_metrics);
  /* Returns a metric. The name and the text value of the metric stay valid until `destroy_metrics`. */
  LiteRtStatus (*get_metric)(LiteRtDispatchMetrics metrics, int metric_index, LiteRtMetric* metric);
  /* Destroys the metrics object that `stop_metrics_collection` returned. */
  LiteRtStatus (*destroy_metrics)(LiteRtDispatchMetrics metrics);
  /* Refuses a host that the dispatch library does not support. Release 2.3.0 of LiteRT requires the slot
   * `check_runtime_compatibility`.
   *
   * [runtime_compatibility.ours] `check_runtime_compatibility` accepts version 0.1.0 of the table, even if `env` and
   * `options` are NULL. */
  LiteRtStatus (*check_runtime_compatibility)(
      LiteRtApiVersion api_version, LiteRtEnvironmentOptions env, LiteRtOptions options);
  /* Optional: sets options of the next run only; NULL means no options.
   *
   * [run_options.none] `invocation_context_set_options` accepts NULL, or returns Unsupported for NULL. */
  LiteRtStatus (*invocation_context_set_options)(
      LiteRtDispatchInvocationContext invocation_context, LiteRtOptions options);
  /* Optional: leave the slot `get_hooks` NULL, because litert-npu never calls it. */
  LiteRtStatus (*get_hooks)(
      LiteRtDispatchDeviceContext device_context, LiteRtHook* hook, void** user_data);
} LiteRtDispatchInterface;

/* Functions for asynchronous runs.
 *
 * [async.events] `invoke_async` returns an event for each output, and signals the event when the output is written. The
 * host waits for the event and releases the event. If an event is not signaled within half of the time limit
 * `--timeout`, `litert-npu vendor check` reports that the event is never signaled. */
typedef struct LiteRtDispatchAsyncInterface {
  /* Attaches an event to an input: the next run waits for the event before it reads the input. The event belongs to the
   * host.
   *
   * [async.input_event] The next run waits until the events of all inputs are signaled. The events may be signaled in
   * any order. Later runs do not wait for these events. */
  LiteRtStatus (*attach_input_event)(
      LiteRtDispatchInvocationContext invocation_context, int input_index, LiteRtEvent input_event);
  /* Starts an asynchronous run. The array `output_events` has an element for each output; the host owns the events that
   * `invoke_async` writes into the array.
   *
   * [async.missing] If an input or output has no buffer, `invoke_async` fails and returns no event, and the context can
   * be used again. */
  LiteRtStatus (*invoke_async)(
      LiteRtDispatchInvocationContext invocation_context, int num_output_events,
      LiteRtEvent* output_events);
} LiteRtDispatchAsyncInterface;

/* Functions for graphs; a graph runs several byte code functions together. No release of LiteRT calls these
 * functions. */
typedef struct LiteRtDispatchGraphInterface {
  /* Creates an empty graph. */
  LiteRtStatus (*graph_create)(LiteRtDispatchDeviceContext device_context, LiteRtDispatchGraph* graph);
  /* Destroys a graph; the host has already destroyed all invocation contexts that were made from the graph. */
  LiteRtStatus (*graph_destroy)(LiteRtDispatchGraph graph);
  /* Adds a node to a graph; a node is one function on one kind of processor. Each node of a graph has a different
   * id. */
  LiteRtStatus (*add_node)(
      LiteRtDispatchGraph graph, LiteRtDispatchNodeId node_id, LiteRtDispatchNodeType node_type);
  /* Adds an edge to a graph; an edge is a tensor. Each edge of a graph has a different id. */
  LiteRtStatus (*add_edge)(LiteRtDispatchGraph graph, LiteRtDispatchEdgeId edge_id);
  /* Connects an input of a node to the edge that the node reads. */
  LiteRtStatus (*connect_node_input)(
      LiteRtDispatchGraph graph, LiteRtDispatchNodeId node_id, int input_index,
      LiteRtDispatchEdgeId edge_id);
  /* Connects an output of a node to the edge that the node writes. */
  LiteRtStatus (*connect_node_output)(
      LiteRtDispatchGraph graph, LiteRtDispatchNodeId node_id, int output_index,
      LiteRtDispatchEdgeId edge_id);
  /* Makes an edge an input of the whole graph. */
  LiteRtStatus (*connect_graph_input)(
      LiteRtDispatchGraph graph, int input_index, LiteRtDispatchEdgeId edge_id);
  /* Makes an edge an output of the whole graph. */
  LiteRtStatus (*connect_graph_output)(
      LiteRtDispatchGraph graph, int output_index, LiteRtDispatchEdgeId edge_id);
  /* Loads a byte code module for the nodes of graphs. */
  LiteRtStatus (*load_executable)(
      LiteRtDispatchDeviceContext device_context, LiteRtDispatchExecutableType type,
      const LiteRtMemBuffer* byte_code, LiteRtDispatchExecutableHandle* exec_handle);
  /* Unloads a byte code module; when the host calls this function, no node uses a function of the module any more. */
  LiteRtStatus (*unload_executable)(
      LiteRtDispatchDeviceContext device_context, LiteRtDispatchExecutableHandle exec_handle);
  /* Sets the function that a node runs. The function name may be NULL if the byte code has only one function. */
  LiteRtStatus (*assign_node_function)(
      LiteRtDispatchGraph graph, LiteRtDispatchNodeId node_id,
      LiteRtDispatchExecutableHandle exec_handle, const char* function_name);
  /* Adds an annotation to the whole graph, under a key that the vendor defines. */
  LiteRtStatus (*annotate_graph)(LiteRtDispatchGraph graph, const char* key, const char* value);
  /* Adds an annotation to a node, under a key that the vendor defines. */
  LiteRtStatus (*annotate_node)(
      LiteRtDispatchGraph graph, LiteRtDispatchNodeId node_id, const char* key, const char* value);
  /* Adds an annotation to an edge, under a key that the vendor defines. */
  LiteRtStatus (*annotate_edge)(
      LiteRtDispatchGraph graph, LiteRtDispatchEdgeId edge_id, const char* key, const char* value);
  /* Creates an invocation context from a graph, instead of from byte code. */
  LiteRtStatus (*invocation_context_create_from_graph)(
      LiteRtDispatchDeviceContext device_context, LiteRtDispatchGraph graph,
      LiteRtDispatchInvocationContext* invocation_context);
  /* Returns the graph that an invocation context was made from, or NULL for a context made from byte code. The graph
   * still belongs to the invocation context. */
  LiteRtStatus (*invocation_context_get_graph)(
      LiteRtDispatchInvocationContext invocation_context, LiteRtDispatchGraph* graph);
} LiteRtDispatchGraphInterface;

typedef struct LiteRtDispatchApi {
  LiteRtAbiHeader abi_header;
  LiteRtApiVersion version;
  LiteRtDispatchInterface* interface;
  LiteRtDispatchAsyncInterface* async_interface;
  LiteRtDispatchGraphInterface* graph_interface;
  LiteRtCustomTensorBufferHandlersDef* tensor_buffer_handlers_def;
} LiteRtDispatchApi;

/* This table is LiteRtDispatchApi with one more slot, `register_asset`, as in LiteRT's guide for custom op assets. The
 * host writes the size of its table in bytes into `struct_size`: 64 in litert-npu, and 56 in release 2.3.0 of LiteRT.
 * The host fills all other bytes with zeros. If the library fills the slot `register_asset`, `struct_size` must be 64
 * when LiteRtDispatchGetApi returns. If the host's table has only 56 bytes, the library must write only these 56 bytes;
 * litert_npu/support/guide_dispatch.h shows how. A library that fills only the 56 bytes of LiteRtDispatchApi does not
 * write the slot `register_asset`, so the slot stays NULL. */
typedef struct LiteRtDispatchApiWithAssets {
  LiteRtAbiHeader abi_header;
  LiteRtApiVersion version;
  LiteRtDispatchInterface* interface;
  LiteRtDispatchAsyncInterface* async_interface;
  LiteRtDispatchGraphInterface* graph_interface;
  LiteRtCustomTensorBufferHandlersDef* tensor_buffer_handlers_def;
  /* Optional: does the same as LiteRtDispatchRegisterAsset, for a library that does not export
   * LiteRtDispatchRegisterAsset. */
  LiteRtStatus (*register_asset)(
      LiteRtDispatchDeviceContext device_context, const char* asset_name, const LiteRtMemBuffer* asset_buffer);
} LiteRtDispatchApiWithAssets;

/* Fills in the table of the library's functions.
 *
 * [api.loads] dlopen can load the library with the flags RTLD_NOW | RTLD_LOCAL, and LiteRtDispatchGetApi returns Ok.
 * [api.version] The version of the table LiteRtDispatchApi is 0.1.0.
 * [api.room] LiteRtDispatchGetApi writes no byte after the first `abi_header.struct_size` bytes of the table, because
 * stock LiteRT's table has only 56 bytes.
 * [api.interface] LiteRtDispatchGetApi fills the field `interface` with a pointer to a LiteRtDispatchInterface, which
 * stays valid while the library is loaded. LiteRtDispatchGetApi may leave `abi_header` unchanged.
 * [api.null] Recommended: a NULL table is refused with InvalidArgument. Hosts do not pass NULL.
 * [memory.handlers] `tensor_buffer_handlers_def` is NULL, or contains the functions create, destroy, lock and unlock
 * for 1 to 16 types of memory. The host's own types of memory are not among these types. The functions clear and import
 * may be NULL.
 * [memory.lock] `lock_func` returns an address at which the host reads and writes all bytes until it calls
 * `unlock_func`. The address may differ at each call. After the next lock, the memory still contains the bytes that the
 * host wrote, even if the host has locked and written other buffers since then.
 * [memory.ends] The host may destroy the vendor's memory after it has destroyed the device context. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtDispatchGetApi(LiteRtDispatchApi* api);

/* Optional: registers an asset of the model. The asset has the name of its op. If an asset refers to other files,
 * called companion files, these files are registered, too, under the names `<op>/<relative path>`. After
 * `device_context_create`, litert-npu first registers all companion files, then the assets of the ops. Release 2.3.0 of
 * LiteRT never calls LiteRtDispatchRegisterAsset.
 *
 * [register_asset.lifetime] The asset's bytes are mapped, and stay valid until the device context is destroyed. The
 * library can therefore store the LiteRtMemBuffer in place of a copy of the bytes. The asset's name is valid only
 * during the call.
 * [register_asset.bytes] The asset's bytes are at base_addr + offset of `asset_buffer`. The file descriptor fd may be
 * -1, so the library must not need a file. The offset and the address need not be aligned, so copy data that must be
 * aligned.
 * [register_asset.unknown] The library accepts an asset that no op needs.
 * [register_asset.again] A second asset of the same name replaces the first asset.
 * [register_asset.many] An asset is known only in the device context in which the host registered it. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtDispatchRegisterAsset(
    LiteRtDispatchDeviceContext device_context, const char* asset_name,
    const LiteRtMemBuffer* asset_buffer);

/* Receives a tensor inside an NPU call from `LiteRtDispatchInvokeTapped`; all arguments are valid only during the call.
 * The shape is the shape in the model. The element type is the type of the bytes, which may differ from the model's
 * type if the NPU computes in another float type. The bytes are in row-major order. Any status but Ok ends the run. */
typedef LiteRtStatus (*LiteRtDispatchReceiveTensor)(
    void* user_data, const char* name, const LiteRtRankedTensorType* tensor_type, const void* data,
    size_t size_bytes);

/* Optional: runs like `invoke`, and also calls `receive` with each tensor between the ops of the function. With these
 * tensors, a debugger can find the op whose result differs from the CPU's result. The tensors have the names of the
 * partition's tensors. The vendor's compiler stores these names in the byte code only if the user asks for names. The
 * plugin's opaque options then contain the line `taps=true` under the identifier `litert_npu`. Byte code with names may
 * be larger and slower, but gives the same results. A vendor shows only tensors that exist at run time, and omits
 * tensors that its compiler removed by fusion. A library that exports LiteRtDispatchInvokeTapped but cannot show
 * tensors returns Unsupported.
 *
 * [taps.names] The library shows a tensor only once in a run, under a name that is not empty.
 * [taps.types] A shown tensor has no unknown dimensions, and has as many bytes as its type needs. The tensor has the
 * same shape as the model's tensor with this name. The element type is also the same, except that a float tensor may
 * have another float type.
 * [taps.outputs] LiteRtDispatchInvokeTapped gives the same outputs as `invoke`, and a later `invoke` also gives the
 * same outputs.
 * [taps.receiver] If `receive` returns a status other than Ok, the run ends: LiteRtDispatchInvokeTapped shows no more
 * tensors, and returns this status. The invocation context can be used again. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtDispatchInvokeTapped(
    LiteRtDispatchInvocationContext invocation_context, LiteRtDispatchReceiveTensor receive, void* user_data);

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_DISPATCH_H_ */
