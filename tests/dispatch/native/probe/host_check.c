/* Calls the functions of the host that runs do not need, and notes each answer that is wrong. */
#include "probe.h"

#define EXPECT(condition) \
  if (!(condition)) note("BROKEN " #condition)
#define OK(call) EXPECT((call) == kLiteRtStatusOk)

static void free_memory(void* address) {
  note("freed");
  free(address);
}

static void check_buffers(const LiteRtRuntimeContext* host) {
  LiteRtRankedTensorType type = {kLiteRtElementTypeFloat32, {2, 0, {2, 3}, {0}}}, found;
  LiteRtTensorBuffer buffer = NULL, wrapped = NULL;
  LiteRtTensorBufferType kind;
  size_t size = 0;
  void *first = NULL, *second = NULL, *own = malloc(24);
  OK(host->create_managed_tensor_buffer(environment, kLiteRtTensorBufferTypeHostMemory, &type, 40, &buffer));
  OK(host->get_tensor_buffer_size(buffer, &size));
  EXPECT(size == 40);
  OK(host->get_tensor_buffer_packed_size(buffer, &size));
  EXPECT(size == 24);
  OK(host->get_tensor_buffer_tensor_type(buffer, &found));
  EXPECT(found.element_type == type.element_type && found.layout.rank == 2 && !found.layout.has_strides);
  EXPECT(found.layout.dimensions[0] == 2 && found.layout.dimensions[1] == 3);
  OK(host->lock_tensor_buffer(buffer, &first, kLiteRtTensorBufferLockModeWrite));
  OK(host->get_tensor_buffer_host_memory(buffer, &second));
  EXPECT(first != NULL && first == second && (uintptr_t)first % 64 == 0);
  OK(host->unlock_tensor_buffer(buffer));
  EXPECT(host->create_managed_tensor_buffer(environment, kLiteRtTensorBufferTypeAhwb, &type, 40, &wrapped) != 0);
  EXPECT(host->create_managed_tensor_buffer(environment, kLiteRtTensorBufferTypeHostMemory, &type, 23, &wrapped) != 0);
  EXPECT(host->create_tensor_buffer_from_host_memory(&type, NULL, 24, NULL, &wrapped) != 0);
  OK(host->create_tensor_buffer_from_host_memory(&type, own, 24, free_memory, &wrapped));
  OK(host->get_tensor_buffer_type(wrapped, &kind));
  EXPECT(kind == kLiteRtTensorBufferTypeHostMemory);
  OK(host->get_tensor_buffer_host_memory(wrapped, &first));
  EXPECT(first == own);
  host->destroy_tensor_buffer(wrapped);
  EXPECT(host->get_tensor_buffer_type(wrapped, &kind) != kLiteRtStatusOk);
  host->destroy_tensor_buffer(buffer);
}

static void check_events(const LiteRtRuntimeContext* host) {
  static struct LiteRtCustomEventT nothing;
  LiteRtRankedTensorType type = {kLiteRtElementTypeInt8, {0}};
  LiteRtTensorBuffer buffer = NULL;
  LiteRtEvent event = NULL, fence = NULL, found = NULL;
  LiteRtCustomEvent custom = NULL;
  LiteRtEventType kind;
  bool has = true;
  int fd = -1, ends[2];
  OK(host->create_managed_tensor_buffer(environment, kLiteRtTensorBufferTypeHostMemory, &type, 1, &buffer));
  OK(host->has_tensor_buffer_event(buffer, &has));
  EXPECT(!has);
  EXPECT(host->get_tensor_buffer_event(buffer, &found) != kLiteRtStatusOk);
  OK(host->create_managed_event(environment, LiteRtEventTypeCustom, &event));
  EXPECT(host->wait_event(event, 0) != kLiteRtStatusOk); /* nothing is set */
  OK(host->set_custom_event(event, &nothing));
  OK(host->get_custom_event(event, &custom));
  EXPECT(custom == &nothing);
  OK(host->get_event_event_type(event, &kind));
  EXPECT(kind == LiteRtEventTypeCustom);
  EXPECT(host->get_event_sync_fence_fd(event, &fd) != kLiteRtStatusOk);
  OK(host->set_tensor_buffer_event(buffer, event));
  OK(host->has_tensor_buffer_event(buffer, &has));
  OK(host->get_tensor_buffer_event(buffer, &found));
  OK(host->get_custom_event(found, &custom));
  EXPECT(has && custom == &nothing);
  if (pipe(ends) != 0) return;
  OK(host->create_event_from_sync_fence_fd(environment, ends[0], true, &fence));
  OK(host->get_event_sync_fence_fd(fence, &fd));
  EXPECT(fd == ends[0]);
  EXPECT(host->get_custom_event(fence, &custom) != kLiteRtStatusOk);
  EXPECT(host->wait_event(fence, 1) == kLiteRtStatusErrorTimeoutExpired);
  EXPECT(write(ends[1], "x", 1) == 1);
  OK(host->wait_event(fence, -1));
  close(ends[1]);
  EXPECT(host->create_managed_event(environment, LiteRtEventTypeOpenCl, &event) == kLiteRtStatusErrorUnsupported);
  EXPECT(host->create_event_from_sync_fence_fd(environment, -1, true, &event) != kLiteRtStatusOk);
  host->destroy_tensor_buffer(buffer);
}

void check_host(const LiteRtRuntimeContext* host) {
  bool has = true;
  void* memory;
  LiteRtTensorBufferRequirements requirements;
  check_buffers(host);
  check_events(host);
  host->environment_has_gpu_environment(environment, &has);
  EXPECT(!has);
  EXPECT(host->get_tensor_buffer_opencl_memory(NULL, &memory) == kLiteRtStatusErrorUnsupported);
  EXPECT(host->create_tensor_buffer_requirements(-1, NULL, 4, 0, NULL, &requirements) != kLiteRtStatusOk);
  EXPECT(host->create_tensor_buffer_requirements(1, NULL, 4, 0, NULL, &requirements) != kLiteRtStatusOk);
  EXPECT(host->create_tensor_buffer_requirements(0, NULL, 4, 0, NULL, NULL) != kLiteRtStatusOk);
  EXPECT(host->get_tensor_buffer_size(NULL, NULL) != kLiteRtStatusOk);
}
