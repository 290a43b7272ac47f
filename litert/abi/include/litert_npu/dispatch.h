/* The table that a dispatch library fills, in a library called `libLiteRtDispatch_<vendor>.so`, which exports
 * `LiteRtDispatchGetApi`, `LiteRtDispatchRegisterAsset` if its ops have assets, and `LiteRtDispatchInvokeTapped` if it shows
 * what is inside a call.
 *
 * Order of calls: GetApi; `initialize` once in the process; `check_runtime_compatibility`; for each model
 * `device_context_create` and its assets; for each NPU call `invocation_context_create`, the requirements of all inputs
 * and then of all outputs; each buffer is registered and attached; each run is `set_scheduling_info`, `set_options`,
 * `invoke`. In the end all is detached, then unregistered, then the contexts are destroyed. Paragraphs that begin with
 * a name in brackets are the contract: `litert-npu vendor check` reports by these names. */
#ifndef LITERT_NPU_DISPATCH_H_
#define LITERT_NPU_DISPATCH_H_

#include "litert_npu/runtime_context.h"
#include "litert_npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The vendor's own; what is behind them only it knows. */
typedef struct LiteRtDispatchDeviceContextT* LiteRtDispatchDeviceContext;
typedef struct LiteRtDispatchInvocationContextT* LiteRtDispatchInvocationContext;
typedef struct LiteRtDispatchMetricsT* LiteRtDispatchMetrics;
typedef struct LiteRtDispatchGraphT* LiteRtDispatchGraph;
typedef uint64_t LiteRtTensorBufferHandle; /* 0 is one, too */
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

/* All slots are needed but those whose description begins with "Optional". */
typedef struct LiteRtDispatchInterface {
  /* Called once in the process, before all else of the table.
   *
   * [initialize.no_options] `environment` and `options` may be NULL.
   * [initialize.again] A second call, as after a failure of the first, does no harm.
   * [dispatch.statuses] Whatever a function of the table answers is one of LiteRtStatus.
   * [dispatch.null_arguments] Recommended: a function that is given NULL where it writes its answer, or where a context
   * belongs, returns InvalidArgument and does nothing else. No host does that. */
  LiteRtStatus (*initialize)(
      const LiteRtRuntimeContext* runtime_context, LiteRtEnvironment environment,
      LiteRtOptions options);
  /* Says whose library it is, for people.
   *
   * [ids.text] Text, not empty, the same at each call, valid as long as the library. */
  LiteRtStatus (*get_vendor_id)(const char** vendor_id);
  /* Says which build it is, for people.
   *
   * [ids.build] Text, which may be empty, the same at each call, valid as long as the library. */
  LiteRtStatus (*get_build_id)(const char** build_id);
  /* Says what it can do, in bits.
   *
   * [capabilities.basic] Basic is among it.
   * [capabilities.parts] Async is said if and only if `async_interface` is filled, Graph likewise; each slot of a part
   * that is said is filled. */
  LiteRtStatus (*get_capabilities)(int* capabilities);
  /* Opens the device for one loaded model.
   *
   * [device.many] Several may exist at one time, and do not know of each other.
   * [device.failure] After a failure the out argument is unchanged or NULL, and nothing is left open. */
  LiteRtStatus (*device_context_create)(
      const LiteRtRuntimeContext* runtime_context, LiteRtOptions options,
      LiteRtDispatchDeviceContext* device_context);
  /* Closes it; all that was made in it is gone already.
   *
   * [device.closes] Files that were opened for it and its calls are closed then; those of the whole process may stay open.
   * [device.threads] Threads that were started for it and its calls have ended then; those of the whole process may go on.
   * [dispatch.ends] When the process ends after that, it ends: nothing of the library's crashes, hangs or changes the
   * exit status. */
  LiteRtStatus (*device_context_destroy)(LiteRtDispatchDeviceContext device_context);
  /* Says what memory an input must have, by the context's `create_tensor_buffer_requirements`; the host destroys it.
   *
   * [requirements.size] The size does for the tensor; with a dimension of -1, for the largest that may come.
   * [requirements.fresh] Each call makes an object of its own.
   * [requirements.types] At least one type of memory, the best first: stock's runtime allocates the first.
   * [requirements.index] Recommended: an index beyond the last is refused with InvalidArgument or IndexOOB. No host asks
   * for one. */
  LiteRtStatus (*get_input_requirements)(
      LiteRtDispatchInvocationContext invocation_context, int input_index,
      const LiteRtRankedTensorType* tensor_type, LiteRtTensorBufferRequirements* requirements);
  /* Says what memory an output must have; else as for inputs. */
  LiteRtStatus (*get_output_requirements)(
      LiteRtDispatchInvocationContext invocation_context, int output_index,
      const LiteRtRankedTensorType* tensor_type, LiteRtTensorBufferRequirements* requirements);
  /* Makes a buffer known to the device; the host keeps it until it is unregistered.
   *
   * [buffers.handles] Each registration that is alive has a handle of its own; any number will do, 0 too.
   * [buffers.again] A buffer that was unregistered may be registered anew.
   * [buffers.size] One that is smaller than its tensor, or than what was required, is refused here or when it is
   * attached, or the run fails; it is never written or read beyond its end. In memory of the vendor's own making, only
   * the vendor can tell. */
  LiteRtStatus (*register_tensor_buffer)(
      LiteRtDispatchDeviceContext device_context, LiteRtTensorBuffer tensor_buffer,
      LiteRtTensorBufferHandle* handle);
  /* Forgets a buffer; it is attached nowhere.
   *
   * [buffers.unknown] A handle that is not registered is refused, with any status but Ok, and does no harm. */
  LiteRtStatus (*unregister_tensor_buffer)(
      LiteRtDispatchDeviceContext device_context, LiteRtTensorBufferHandle handle);
  /* Loads a function of a byte code module.
   *
   * [invocation.ok] Byte code of the vendor's own compiler is taken.
   * [dispatch.runs] It then runs, by the calls above in their order, each answered with Ok.
   * [invocation.byte_code] The bytes are at base_addr + offset, and valid as long as the device context; fd may be -1,
   * offset any number, and the address, too. Bytes that are no byte code of the vendor's are refused.
   * [invocation.function] A function that the module lacks is refused.
   * [invocation.counts] Other numbers of inputs and outputs than the function's are refused here, or the run fails.
   * [invocation.many] Many may exist in one device context, also of one function.
   * [invocation.failure] After a failure the out argument is unchanged or NULL. */
  LiteRtStatus (*invocation_context_create)(
      const LiteRtRuntimeContext* runtime_context, LiteRtDispatchDeviceContext device_context,
      LiteRtDispatchExecutableType exec_type, const LiteRtMemBuffer* byte_code,
      const char* function_name, int num_inputs, int num_outputs,
      LiteRtDispatchInvocationContext* invocation_context);
  /* Releases it; nothing is attached any more. */
  LiteRtStatus (*invocation_context_destroy)(LiteRtDispatchInvocationContext invocation_context);
  /* Optional: says how the next run stands among others.
   *
   * [scheduling.any] Any mask is taken, 0 too. */
  LiteRtStatus (*invocation_context_set_scheduling_info)(
      LiteRtDispatchInvocationContext invocation_context, const LiteRtSchedulingInfo* scheduling_info);
  /* Gives an input its buffer, for all runs to come.
   *
   * [attach.replaces] Attaching to an index that has a buffer replaces it; no detach comes before.
   * [attach.index] An index beyond the last is refused, with any status but Ok.
   * [attach.unknown] A handle that is not registered is refused, here or by the run. */
  LiteRtStatus (*attach_input)(
      LiteRtDispatchInvocationContext invocation_context, int input_index, LiteRtTensorBufferHandle handle);
  /* Gives an output its buffer; else as for inputs. */
  LiteRtStatus (*attach_output)(
      LiteRtDispatchInvocationContext invocation_context, int output_index,
      LiteRtTensorBufferHandle handle);
  /* Takes a buffer off.
   *
   * [detach.stale] A handle that is not attached (any more) changes nothing, whatever is there now. */
  LiteRtStatus (*detach_input)(
      LiteRtDispatchInvocationContext invocation_context, int input_index, LiteRtTensorBufferHandle handle);
  /* Takes a buffer off; else as for inputs. */
  LiteRtStatus (*detach_output)(
      LiteRtDispatchInvocationContext invocation_context, int output_index,
      LiteRtTensorBufferHandle handle);
  /* Runs the function on what is attached.
   *
   * [invoke.written] When it returns Ok, the outputs are written.
   * [invoke.values] They are those of LiteRT's CPU kernels, as near as the NPU's arithmetic lets them: floats within a
   * hundredth (`--tolerance`) of the magnitudes that an op sums, or of the largest output; integers of 8 and 16 bits
   * within one step for each op; all others the same.
   * [values.input_order] A call has the inputs of its subgraph, in the subgraph's order; an op has its own order.
   * [values.padding] SAME pads as TensorFlow does: of an odd number of rows or columns, more lie behind the image than
   * before it. The padding is the input's zero point in a convolution, and no part of what a pool looks at.
   * [values.strides] Rows have `stride_h`, and columns have `stride_w`.
   * [values.dilation] Rows have `dilation_h_factor`, and columns have `dilation_w_factor`.
   * [values.bias] The bias is added. A quantized bias has the input's scale times that of its channel's weights.
   * [values.per_channel] Weights with a scale for each output channel are taken with their channel's.
   * [values.accumulation] Products of 8 bits are summed in 32 bits: nothing saturates before the end.
   * [values.zero_point] Zero points of inputs are subtracted before an op, and the output's is added behind it.
   * [values.activation] A fused activation, or one that is an op, limits the output: RELU6 to 0 and 6.
   * [values.broadcast] An input of a smaller shape is repeated along its dimensions of size 1.
   * [invoke.repeatable] It gives the same outputs for the same inputs, also after other runs.
   * [invoke.missing] With a buffer missing, never attached or detached, it fails, and can be used again.
   * [invoke.unlocks] What it locks it unlocks before it returns, also when it fails, and has no buffer locked twice at a
   * time, such as one that is attached to two inputs: stock's runtime refuses that.
   * [invoke.memory] It keeps no memory: that of the process does not grow with the number of runs.
   * [invoke.threads] Different contexts may be used at the same time, from any thread; one gets one call at a time. So
   * does a device context, of which attaching and detaching are calls, too. Its buffers may come and go while functions
   * of it run. */
  LiteRtStatus (*invoke)(LiteRtDispatchInvocationContext invocation_context);
  /* Optional, but for all five or none: measures from now on.
   *
   * [metrics.slots] All five are filled, or none.
   * [metrics.pair] After a start, a stop gives an object, which `destroy_metrics` ends; it can be started again.
   * [metrics.order] A stop without a start fails. */
  LiteRtStatus (*start_metrics_collection)(
      LiteRtDispatchInvocationContext invocation_context, int detail_level);
  /* Ends the measurement, and gives what was measured. */
  LiteRtStatus (*stop_metrics_collection)(
      LiteRtDispatchInvocationContext invocation_context, LiteRtDispatchMetrics* metrics);
  /* Says how many metrics were measured.
   *
   * [metrics.each] Each index below the number has a name and a value; the first beyond it is refused. */
  LiteRtStatus (*get_num_metrics)(LiteRtDispatchMetrics metrics, int* num_metrics);
  /* Gives a metric; its name and text are valid until `destroy_metrics`. */
  LiteRtStatus (*get_metric)(LiteRtDispatchMetrics metrics, int metric_index, LiteRtMetric* metric);
  /* Releases what `stop_metrics_collection` gave. */
  LiteRtStatus (*destroy_metrics)(LiteRtDispatchMetrics metrics);
  /* Refuses a host that the driver cannot serve. Release 2.3.0 needs the slot filled.
   *
   * [runtime_compatibility.ours] The version of this header is taken, with NULL options. */
  LiteRtStatus (*check_runtime_compatibility)(
      LiteRtApiVersion api_version, LiteRtEnvironmentOptions env, LiteRtOptions options);
  /* Optional: options of the next run alone; NULL is none.
   *
   * [run_options.none] NULL is taken, or answered by Unsupported. */
  LiteRtStatus (*invocation_context_set_options)(
      LiteRtDispatchInvocationContext invocation_context, LiteRtOptions options);
  /* Optional: leave it NULL. */
  LiteRtStatus (*get_hooks)(
      LiteRtDispatchDeviceContext device_context, LiteRtHook* hook, void** user_data);
} LiteRtDispatchInterface;

/* Runs that do not wait.
 *
 * [async.events] `invoke_async` gives an event for each output, which is signalled when that output is written; the host
 * waits for it and releases it. An event that does not come within half of `--timeout` counts as one that never does. */
typedef struct LiteRtDispatchAsyncInterface {
  /* Gives an event that the next run waits for before it reads the input; the event stays the host's.
   *
   * [async.input_event] The run waits for it, whichever input's event comes first; later runs do not. */
  LiteRtStatus (*attach_input_event)(
      LiteRtDispatchInvocationContext invocation_context, int input_index, LiteRtEvent input_event);
  /* Begins a run; the array has a place for each output, and its events become the host's.
   *
   * [async.missing] With a buffer missing it fails, gives no event, and can be used again. */
  LiteRtStatus (*invoke_async)(
      LiteRtDispatchInvocationContext invocation_context, int num_output_events,
      LiteRtEvent* output_events);
} LiteRtDispatchAsyncInterface;

/* Graphs of several functions that run as one. No release of LiteRT calls them. */
typedef struct LiteRtDispatchGraphInterface {
  /* Makes an empty graph. */
  LiteRtStatus (*graph_create)(LiteRtDispatchDeviceContext device_context, LiteRtDispatchGraph* graph);
  /* Releases it; no invocation context has been made of it, or all are destroyed. */
  LiteRtStatus (*graph_destroy)(LiteRtDispatchGraph graph);
  /* Adds a node: one function, on one kind of processor. Its number is another in each. */
  LiteRtStatus (*add_node)(
      LiteRtDispatchGraph graph, LiteRtDispatchNodeId node_id, LiteRtDispatchNodeType node_type);
  /* Adds an edge: a tensor. Its number is another in each. */
  LiteRtStatus (*add_edge)(LiteRtDispatchGraph graph, LiteRtDispatchEdgeId edge_id);
  /* Says which tensor a node reads. */
  LiteRtStatus (*connect_node_input)(
      LiteRtDispatchGraph graph, LiteRtDispatchNodeId node_id, int input_index,
      LiteRtDispatchEdgeId edge_id);
  /* Says which tensor a node writes. */
  LiteRtStatus (*connect_node_output)(
      LiteRtDispatchGraph graph, LiteRtDispatchNodeId node_id, int output_index,
      LiteRtDispatchEdgeId edge_id);
  /* Says which tensor is an input of the whole graph. */
  LiteRtStatus (*connect_graph_input)(
      LiteRtDispatchGraph graph, int input_index, LiteRtDispatchEdgeId edge_id);
  /* Says which tensor is an output of the whole graph. */
  LiteRtStatus (*connect_graph_output)(
      LiteRtDispatchGraph graph, int output_index, LiteRtDispatchEdgeId edge_id);
  /* Loads byte code for nodes. */
  LiteRtStatus (*load_executable)(
      LiteRtDispatchDeviceContext device_context, LiteRtDispatchExecutableType type,
      const LiteRtMemBuffer* byte_code, LiteRtDispatchExecutableHandle* exec_handle);
  /* Releases it; no node has one of its functions any more. */
  LiteRtStatus (*unload_executable)(
      LiteRtDispatchDeviceContext device_context, LiteRtDispatchExecutableHandle exec_handle);
  /* Says what a node runs; the name may be NULL where the byte code has one function. */
  LiteRtStatus (*assign_node_function)(
      LiteRtDispatchGraph graph, LiteRtDispatchNodeId node_id,
      LiteRtDispatchExecutableHandle exec_handle, const char* function_name);
  /* Tells something of the whole graph, by a key that the vendor knows. */
  LiteRtStatus (*annotate_graph)(LiteRtDispatchGraph graph, const char* key, const char* value);
  /* Tells something of a node. */
  LiteRtStatus (*annotate_node)(
      LiteRtDispatchGraph graph, LiteRtDispatchNodeId node_id, const char* key, const char* value);
  /* Tells something of a tensor. */
  LiteRtStatus (*annotate_edge)(
      LiteRtDispatchGraph graph, LiteRtDispatchEdgeId edge_id, const char* key, const char* value);
  /* Makes a graph ready to run: in place of `invocation_context_create`. */
  LiteRtStatus (*invocation_context_create_from_graph)(
      LiteRtDispatchDeviceContext device_context, LiteRtDispatchGraph graph,
      LiteRtDispatchInvocationContext* invocation_context);
  /* Gives the graph that a context was made from, which stays the context's; NULL for one of byte code. */
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

/* The table with one more slot, which LiteRT's guide for custom op assets prints. The host says in `struct_size` how much
 * of it there is room for, and has set all of it to zeros: this host says 64, release 2.3.0 of LiteRT 56. A library that
 * fills the slot leaves 64 in `struct_size`, and writes no byte behind 56 where there is no room for it, as
 * litert_npu/support/guide_dispatch.h does. One that knows 56 bytes alone writes no more, so that the slot stays NULL. */
typedef struct LiteRtDispatchApiWithAssets {
  LiteRtAbiHeader abi_header;
  LiteRtApiVersion version;
  LiteRtDispatchInterface* interface;
  LiteRtDispatchAsyncInterface* async_interface;
  LiteRtDispatchGraphInterface* graph_interface;
  LiteRtCustomTensorBufferHandlersDef* tensor_buffer_handlers_def;
  /* Optional: as LiteRtDispatchRegisterAsset below, for a library that does not export that. */
  LiteRtStatus (*register_asset)(
      LiteRtDispatchDeviceContext device_context, const char* asset_name, const LiteRtMemBuffer* asset_buffer);
} LiteRtDispatchApiWithAssets;

/* Fills in the table.
 *
 * [api.loads] The library loads by dlopen with RTLD_NOW | RTLD_LOCAL, and answers Ok.
 * [api.version] The version is 0.1.0.
 * [api.room] It writes no byte behind the first `abi_header.struct_size`: stock has room for 56.
 * [api.interface] `interface` is filled, and lives as long as the library. `abi_header` may be left as it is.
 * [api.null] Recommended: NULL is refused with InvalidArgument. No host does that.
 * [memory.handlers] `tensor_buffer_handlers_def` is NULL, or has create, destroy, lock and unlock, for 1 to 16 types of
 * memory, none of them the host's. Clear and import may be NULL.
 * [memory.lock] `lock_func` gives an address where the host reads and writes all bytes until `unlock_func`, the same one
 * each time or not. What it has written, the next lock shows; no other memory does.
 * [memory.ends] Memory may be destroyed when the device context is gone. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtDispatchGetApi(LiteRtDispatchApi* api);

/* Optional: takes one of the model's assets, an op's or a companion file as `<op>/<relative path>`. This host calls it
 * after `device_context_create`, companions first; release 2.3.0 of LiteRT never does.
 *
 * [register_asset.lifetime] The bytes are mapped, and valid as long as the device context: keep the buffer, not a copy.
 * The name is valid during the call.
 * [register_asset.bytes] They are at base_addr + offset; fd may be -1, offset any number, and the address, too: copy what
 * is to be aligned.
 * [register_asset.unknown] An asset that no op needs is taken.
 * [register_asset.again] One that comes again under its name replaces the first.
 * [register_asset.many] Device contexts do not see each other's assets. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtDispatchRegisterAsset(
    LiteRtDispatchDeviceContext device_context, const char* asset_name,
    const LiteRtMemBuffer* asset_buffer);

/* Takes a tensor inside an NPU call, from `LiteRtDispatchInvokeTapped`; all is valid during the call. The shape is the
 * model's. The element type is what the bytes are: another float than the model's where the NPU computes in it. Bytes are
 * in row order. Any answer but Ok is to end the run. */
typedef LiteRtStatus (*LiteRtDispatchReceiveTensor)(
    void* user_data, const char* name, const LiteRtRankedTensorType* tensor_type, const void* data,
    size_t size_bytes);

/* Optional: runs as `invoke`, and shows tensors between the ops inside the function, so that a debugger finds the op that
 * computes another result than a CPU. Names are those of the partition's tensors. The compiler keeps them in the byte code
 * where the plugin's opaque options `litert_npu` have the line `taps=true`; such byte code may be larger and slower, and
 * gives the same results. A vendor shows the tensors that it has, and leaves out those that its compiler has fused away.
 * Unsupported is the answer of a library that has no taps after all.
 *
 * [taps.names] A tensor is shown once in a run, by a name that is not empty.
 * [taps.types] The shape is known, the size is that of the type, and both are those of the model's tensor of that name;
 * for a float, the element type may be another float.
 * [taps.outputs] The outputs are those of `invoke`, and so are those of an `invoke` after it.
 * [taps.receiver] A status of the receiver's other than Ok ends the run: the function answers with it, shows no more, and
 * the context can be used again. */
LITERT_CAPI_EXPORT LiteRtStatus LiteRtDispatchInvokeTapped(
    LiteRtDispatchInvocationContext invocation_context, LiteRtDispatchReceiveTensor receive, void* user_data);

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_DISPATCH_H_ */
