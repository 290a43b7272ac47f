/* Graphs: each node adds 1. */
#include "probe.h"

static LiteRtStatus graph_create(LiteRtDispatchDeviceContext device, LiteRtDispatchGraph* graph) {
  (void)device;
  ENTER("graph_create", "");
  *graph = calloc(1, sizeof(**graph));
  return kLiteRtStatusOk;
}

static LiteRtStatus graph_destroy(LiteRtDispatchGraph graph) {
  ENTER("graph_destroy", "%d nodes", graph->nodes);
  free(graph);
  return kLiteRtStatusOk;
}

static LiteRtStatus add_node(LiteRtDispatchGraph graph, LiteRtDispatchNodeId node, LiteRtDispatchNodeType type) {
  ENTER("add_node", "%d %d", (int)node, type);
  graph->nodes++;
  return kLiteRtStatusOk;
}

static LiteRtStatus add_edge(LiteRtDispatchGraph graph, LiteRtDispatchEdgeId edge) {
  (void)graph;
  ENTER("add_edge", "%d", (int)edge);
  return kLiteRtStatusOk;
}

#define CONNECT_NODE(function)                                                                              \
  static LiteRtStatus function(                                                                             \
      LiteRtDispatchGraph graph, LiteRtDispatchNodeId node, int index, LiteRtDispatchEdgeId edge) {         \
    (void)graph;                                                                                            \
    ENTER(#function, "%d %d %d", (int)node, index, (int)edge);                                              \
    return kLiteRtStatusOk;                                                                                 \
  }
CONNECT_NODE(connect_node_input)
CONNECT_NODE(connect_node_output)

static LiteRtStatus connect_graph_input(LiteRtDispatchGraph graph, int index, LiteRtDispatchEdgeId edge) {
  ENTER("connect_graph_input", "%d %d", index, (int)edge);
  graph->inputs++;
  return kLiteRtStatusOk;
}

static LiteRtStatus connect_graph_output(LiteRtDispatchGraph graph, int index, LiteRtDispatchEdgeId edge) {
  ENTER("connect_graph_output", "%d %d", index, (int)edge);
  graph->outputs++;
  return kLiteRtStatusOk;
}

static LiteRtStatus load_executable(
    LiteRtDispatchDeviceContext device, LiteRtDispatchExecutableType type, const LiteRtMemBuffer* byte_code,
    LiteRtDispatchExecutableHandle* executable) {
  (void)device;
  ENTER("load_executable", "%d %d", type, (int)byte_code->size);
  *executable = 77;
  return kLiteRtStatusOk;
}

static LiteRtStatus unload_executable(LiteRtDispatchDeviceContext device, LiteRtDispatchExecutableHandle executable) {
  (void)device;
  ENTER("unload_executable", "%d", (int)executable);
  return kLiteRtStatusOk;
}

static LiteRtStatus assign_node_function(
    LiteRtDispatchGraph graph, LiteRtDispatchNodeId node, LiteRtDispatchExecutableHandle executable, const char* name) {
  (void)graph;
  ENTER("assign_node_function", "%d %d %s", (int)node, (int)executable, name);
  return kLiteRtStatusOk;
}

static LiteRtStatus annotate_graph(LiteRtDispatchGraph graph, const char* key, const char* value) {
  (void)graph;
  ENTER("annotate_graph", "%s %s", key, value);
  return kLiteRtStatusOk;
}

static LiteRtStatus annotate_node(
    LiteRtDispatchGraph graph, LiteRtDispatchNodeId node, const char* key, const char* value) {
  (void)graph;
  ENTER("annotate_node", "%d %s %s", (int)node, key, value);
  return kLiteRtStatusOk;
}

static LiteRtStatus annotate_edge(
    LiteRtDispatchGraph graph, LiteRtDispatchEdgeId edge, const char* key, const char* value) {
  (void)graph;
  ENTER("annotate_edge", "%d %s %s", (int)edge, key, value);
  return kLiteRtStatusOk;
}

static LiteRtStatus create_from_graph(
    LiteRtDispatchDeviceContext device, LiteRtDispatchGraph graph, LiteRtDispatchInvocationContext* context) {
  ENTER("invocation_context_create_from_graph", "");
  LiteRtStatus status = make_context(device, graph->inputs, graph->outputs, context);
  if (*context != NULL) (*context)->graph = graph;
  return status;
}

static LiteRtStatus get_graph(LiteRtDispatchInvocationContext context, LiteRtDispatchGraph* graph) {
  ENTER("invocation_context_get_graph", "");
  *graph = context->graph;
  return kLiteRtStatusOk;
}

LiteRtDispatchGraphInterface graph_interface = {
    graph_create, graph_destroy, add_node, add_edge, connect_node_input, connect_node_output, connect_graph_input,
    connect_graph_output, load_executable, unload_executable, assign_node_function, annotate_graph, annotate_node,
    annotate_edge, create_from_graph, get_graph,
};
