/* Uses what litert_npu/support has for dispatch libraries, as a vendor does, and at its edges. */
#include "expect.h"

#include "litert_npu/support/dispatch_identity.h"
#include "litert_npu/support/host_memory.h"

const LiteRtNpuDispatchIdentity kLiteRtNpuDispatch = {"Tin", "7"};

/* A host. */

struct LiteRtTensorBufferT {
  size_t size;
  int num_locks, num_unlocks;
  LiteRtTensorBufferLockMode mode;
  LiteRtStatus lock_answer, unlock_answer;
};

static LiteRtStatus get_size(LiteRtTensorBuffer buffer, size_t* size) {
  *size = buffer->size;
  return kLiteRtStatusOk;
}

static LiteRtStatus lock(LiteRtTensorBuffer buffer, void** address, LiteRtTensorBufferLockMode mode) {
  if (buffer->lock_answer != kLiteRtStatusOk) return buffer->lock_answer;
  EXPECT(buffer->num_locks == buffer->num_unlocks); /* [invoke.unlocks] */
  buffer->num_locks++;
  buffer->mode = mode;
  *address = buffer;
  return kLiteRtStatusOk;
}

static LiteRtStatus unlock(LiteRtTensorBuffer buffer) {
  buffer->num_unlocks++;
  return buffer->unlock_answer;
}

static LiteRtStatus require(
    int num_types, const LiteRtTensorBufferType* types, size_t size, int num_strides, const uint32_t* strides,
    LiteRtTensorBufferRequirements* requirements) {
  EXPECT(num_types == 1 && types[0] == kLiteRtTensorBufferTypeHostMemory && num_strides == 0 && strides == NULL);
  *requirements = (LiteRtTensorBufferRequirements)size; /* for the test to look at */
  return kLiteRtStatusOk;
}

static LiteRtRuntimeContext runtime; /* filled in by main */

/* The parts. */

static void test_buffer_table(void) {
  static struct LiteRtTensorBufferT buffers[100];
  LiteRtNpuBufferTable table = {NULL, 0};
  LiteRtTensorBufferHandle handle, handles[100];
  REFUSED(LiteRtNpuAddBuffer(&table, NULL, &handle));
  REFUSED(LiteRtNpuRemoveBuffer(&table, 0));
  for (int i = 0; i < 100; i++) OK(LiteRtNpuAddBuffer(&table, &buffers[i], &handles[i]));
  for (int i = 0; i < 100; i++) EXPECT(LiteRtNpuFindBuffer(&table, handles[i]) == &buffers[i]);
  EXPECT(LiteRtNpuFindBuffer(&table, 100) == NULL && LiteRtNpuFindBuffer(&table, UINT64_MAX) == NULL);
  REFUSED(LiteRtNpuRemoveBuffer(&table, UINT64_MAX));
  OK(LiteRtNpuRemoveBuffer(&table, handles[40]));
  REFUSED(LiteRtNpuRemoveBuffer(&table, handles[40]));
  OK(LiteRtNpuAddBuffer(&table, &buffers[40], &handle)); /* again, in the place that is free */
  EXPECT(handle == handles[40] && LiteRtNpuFindBuffer(&table, handles[99]) == &buffers[99]);
  allocations_left = 0;
  LiteRtStatus status = kLiteRtStatusOk;
  for (int i = 0; i < 100 && status == kLiteRtStatusOk; i++) status = LiteRtNpuAddBuffer(&table, &buffers[i], &handle);
  EXPECT(status == kLiteRtStatusErrorMemoryAllocationFailure && LiteRtNpuFindBuffer(&table, handles[7]) == &buffers[7]);
  allocations_left = -1;
  OK(LiteRtNpuAddBuffer(&table, &buffers[0], &handle)); /* with memory it goes on */
  LiteRtNpuFreeBufferTable(&table);
  EXPECT(LiteRtNpuFindBuffer(&table, handles[0]) == NULL);
  LiteRtNpuFreeBufferTable(&table);
}

static void test_ports(void) {
  struct LiteRtTensorBufferT a, b, small;
  LiteRtNpuPort ports[3];
  LiteRtNpuBufferTable table = {NULL, 0};
  LiteRtTensorBufferHandle to_a, to_b, to_small;
  memset(&a, 0, sizeof(a));
  memset(ports, 0, sizeof(ports));
  ports[2].mode = kLiteRtTensorBufferLockModeWrite;
  for (int i = 0; i < 3; i++) ports[i].size = 8;
  a.size = 8;
  small = b = a;
  small.size = 7;
  OK(LiteRtNpuAddBuffer(&table, &a, &to_a));
  OK(LiteRtNpuAddBuffer(&table, &b, &to_b));
  OK(LiteRtNpuAddBuffer(&table, &small, &to_small));
  OK(LiteRtNpuAttach(&ports[0], &runtime, &table, to_a));
  REFUSED(LiteRtNpuAttach(&ports[0], &runtime, &table, to_small));
  REFUSED(LiteRtNpuAttach(&ports[0], &runtime, &table, 1000));
  EXPECT(ports[0].buffer == &a);
  OK(LiteRtNpuAttach(&ports[1], &runtime, &table, to_a));
  REFUSED(LiteRtNpuLockPorts(&runtime, ports, 3)); /* the output is missing */
  EXPECT(a.num_locks == 0);
  OK(LiteRtNpuAttach(&ports[2], &runtime, &table, to_b));

  OK(LiteRtNpuLockPorts(&runtime, ports, 3)); /* a buffer twice, for reading */
  EXPECT(a.num_locks == 1 && a.mode == kLiteRtTensorBufferLockModeRead);
  EXPECT(b.num_locks == 1 && b.mode == kLiteRtTensorBufferLockModeWrite);
  EXPECT(ports[0].memory == &a && ports[1].memory == &a && ports[2].memory == &b);
  OK(LiteRtNpuUnlockPorts(&runtime, ports, 3));
  EXPECT(a.num_unlocks == 1 && b.num_unlocks == 1 && ports[1].memory == NULL);

  b.lock_answer = kLiteRtStatusErrorTimeoutExpired; /* the second does not lock: nor is the first */
  EXPECT(LiteRtNpuLockPorts(&runtime, ports, 3) == kLiteRtStatusErrorTimeoutExpired);
  EXPECT(a.num_locks == 2 && a.num_unlocks == 2 && b.num_unlocks == 1 && ports[0].memory == NULL);
  b.lock_answer = kLiteRtStatusOk;

  a.unlock_answer = kLiteRtStatusErrorRuntimeFailure; /* the first does not unlock: the second does */
  OK(LiteRtNpuLockPorts(&runtime, ports, 3));
  EXPECT(LiteRtNpuUnlockPorts(&runtime, ports, 3) == kLiteRtStatusErrorRuntimeFailure);
  EXPECT(b.num_unlocks == 2);
  a.unlock_answer = kLiteRtStatusOk;

  OK(LiteRtNpuAttach(&ports[2], &runtime, &table, to_a)); /* a buffer for all, to read and write */
  OK(LiteRtNpuLockPorts(&runtime, ports, 3));
  EXPECT(a.num_locks == 4 && a.mode == kLiteRtTensorBufferLockModeReadWrite && ports[2].memory == &a);
  OK(LiteRtNpuUnlockPorts(&runtime, ports, 3));

  LiteRtNpuDetach(&ports[2], to_b); /* too late: another is there */
  EXPECT(ports[2].buffer == &a);
  LiteRtNpuDetach(&ports[2], to_a);
  EXPECT(ports[2].buffer == NULL);
  LiteRtNpuFreeBufferTable(&table);
}

static void test_counters(void) {
  LiteRtNpuCounter list[] = {{"runs", 5}, {"stalls", 6}};
  LiteRtNpuCounters counters = {list, 2, false}, none = {NULL, 0, false};
  LiteRtDispatchMetrics metrics = NULL;
  LiteRtMetric metric;
  int number;
  REFUSED(LiteRtNpuStopCounters(&counters, &metrics));
  LiteRtNpuStartCounters(&counters);
  list[1].value += 3;
  allocations_left = 0;
  EXPECT(LiteRtNpuStopCounters(&counters, &metrics) == kLiteRtStatusErrorMemoryAllocationFailure && metrics == NULL);
  allocations_left = -1;
  OK(LiteRtNpuStopCounters(&counters, &metrics)); /* it is measured still */
  REFUSED(LiteRtNpuStopCounters(&counters, &metrics));
  list[1].value = 100; /* the metrics are a copy */
  OK(LiteRtNpuGetNumMetrics(metrics, &number));
  EXPECT(number == 2);
  OK(LiteRtNpuGetMetric(metrics, 0, &metric));
  EXPECT(strcmp(metric.name, "runs") == 0 && metric.value.type == kLiteRtAnyTypeInt && metric.value.int_value == 0);
  OK(LiteRtNpuGetMetric(metrics, 1, &metric));
  EXPECT(strcmp(metric.name, "stalls") == 0 && metric.value.int_value == 3);
  REFUSED(LiteRtNpuGetMetric(metrics, 2, &metric));
  REFUSED(LiteRtNpuGetMetric(metrics, -1, &metric));
  REFUSED(LiteRtNpuGetMetric(NULL, 0, &metric));
  REFUSED(LiteRtNpuGetMetric(metrics, 0, NULL));
  REFUSED(LiteRtNpuGetNumMetrics(NULL, &number));
  REFUSED(LiteRtNpuDestroyMetrics(NULL));
  OK(LiteRtNpuDestroyMetrics(metrics));
  LiteRtNpuStartCounters(&none);
  OK(LiteRtNpuStopCounters(&none, &metrics));
  OK(LiteRtNpuDestroyMetrics(metrics));
}

static void test_identity(void) {
  LiteRtApiVersion other = {0, 2, 0};
  LiteRtDispatchApi api;
  LiteRtDispatchInterface table;
  const char* text;
  int capabilities;
  OK(LiteRtNpuInitialize(&runtime, NULL, NULL));
  REFUSED(LiteRtNpuInitialize(NULL, NULL, NULL));
  EXPECT(LiteRtNpuCheckRuntimeCompatibility(other, NULL, NULL) == kLiteRtStatusErrorUnsupportedRuntimeVersion);
  OK(LiteRtNpuGetVendorId(&text));
  EXPECT(strcmp(text, "Tin") == 0);
  OK(LiteRtNpuGetBuildId(&text));
  OK(LiteRtNpuGetBasicCapabilities(&capabilities));
  EXPECT(capabilities == kLiteRtDispatchCapabilitiesBasic);
  REFUSED(LiteRtNpuGetVendorId(NULL));
  REFUSED(LiteRtNpuGetBuildId(NULL));
  REFUSED(LiteRtNpuGetBasicCapabilities(NULL));
  memset(&api, 0xFF, sizeof(api));
  OK(LiteRtNpuGetBasicApi(&api, &table));
  EXPECT(api.interface == &table && api.async_interface == NULL && api.tensor_buffer_handlers_def == NULL);
  OK(LiteRtNpuCheckRuntimeCompatibility(api.version, NULL, NULL));
  REFUSED(LiteRtNpuGetBasicApi(NULL, &table));
}

struct LiteRtDispatchDeviceContextT {
  LiteRtNpuDevice base;
};
struct LiteRtDispatchInvocationContextT {
  LiteRtNpuCall base;
  LiteRtNpuPort ports[3];
  LiteRtNpuCounter runs;
};

static void test_host_memory(void) {
  struct LiteRtDispatchDeviceContextT device;
  struct LiteRtDispatchInvocationContextT call;
  struct LiteRtTensorBufferT buffer;
  LiteRtRankedTensorType type;
  LiteRtTensorBufferRequirements requirements;
  LiteRtTensorBufferHandle handle;
  LiteRtDispatchMetrics metrics;
  memset(&device, 0, sizeof(device));
  memset(&call, 0, sizeof(call));
  memset(&buffer, 0, sizeof(buffer));
  memset(&type, 0, sizeof(type));
  device.base.runtime = &runtime;
  LiteRtNpuInitCall(&call.base, &device.base, call.ports, 2, 1, &call.runs, 1);
  call.ports[1].size = buffer.size = 8;
  call.ports[2].size = 4;
  REFUSED(LiteRtNpuRegisterTensorBuffer(NULL, &buffer, &handle));
  REFUSED(LiteRtNpuRegisterTensorBuffer(&device, &buffer, NULL));
  REFUSED(LiteRtNpuRegisterTensorBuffer(&device, NULL, &handle));
  OK(LiteRtNpuRegisterTensorBuffer(&device, &buffer, &handle));
  OK(LiteRtNpuGetInputRequirements(&call, 1, &type, &requirements));
  EXPECT((size_t)requirements == 8);
  OK(LiteRtNpuGetOutputRequirements(&call, 0, &type, &requirements));
  EXPECT((size_t)requirements == 4);
  REFUSED(LiteRtNpuGetInputRequirements(&call, 2, &type, &requirements)); /* an output is no input */
  REFUSED(LiteRtNpuGetInputRequirements(&call, -1, &type, &requirements));
  REFUSED(LiteRtNpuGetOutputRequirements(&call, 1, &type, &requirements));
  REFUSED(LiteRtNpuGetOutputRequirements(&call, -1, &type, &requirements));
  REFUSED(LiteRtNpuGetOutputRequirements(NULL, 0, &type, &requirements));
  REFUSED(LiteRtNpuGetInputRequirements(&call, 0, NULL, &requirements));
  REFUSED(LiteRtNpuGetInputRequirements(&call, 0, &type, NULL));
  OK(LiteRtNpuAttachInput(&call, 0, handle));
  OK(LiteRtNpuAttachInput(&call, 1, handle));
  REFUSED(LiteRtNpuAttachInput(&call, 2, handle));
  REFUSED(LiteRtNpuAttachInput(NULL, 0, handle));
  REFUSED(LiteRtNpuBeginRun(&call.base));
  OK(LiteRtNpuAttachOutput(&call, 0, handle));
  REFUSED(LiteRtNpuAttachOutput(&call, 1, handle));
  OK(LiteRtNpuBeginRun(&call.base));
  EXPECT(buffer.num_locks == 1 && buffer.mode == kLiteRtTensorBufferLockModeReadWrite);
  EXPECT(call.ports[0].memory == &buffer && call.ports[2].memory == &buffer);
  OK(LiteRtNpuEndRun(&call.base));
  OK(LiteRtNpuDetachInput(&call, 1, handle));
  REFUSED(LiteRtNpuBeginRun(&call.base));
  REFUSED(LiteRtNpuDetachInput(&call, 2, handle));
  OK(LiteRtNpuDetachOutput(&call, 0, handle));
  REFUSED(LiteRtNpuDetachOutput(&call, -1, handle));
  REFUSED(LiteRtNpuDetachOutput(NULL, 0, handle));
  REFUSED(LiteRtNpuUnregisterTensorBuffer(NULL, handle));
  OK(LiteRtNpuUnregisterTensorBuffer(&device, handle));
  REFUSED(LiteRtNpuUnregisterTensorBuffer(&device, handle));
  REFUSED(LiteRtNpuStopMetricsCollection(&call, &metrics));
  REFUSED(LiteRtNpuStartMetricsCollection(NULL, 1));
  OK(LiteRtNpuStartMetricsCollection(&call, 1));
  REFUSED(LiteRtNpuStopMetricsCollection(&call, NULL));
  OK(LiteRtNpuStopMetricsCollection(&call, &metrics));
  OK(LiteRtNpuDestroyMetrics(metrics));
  LiteRtNpuFreeBufferTable(&device.base.buffers);
}

static void test_errors(void) {
  char text[600];
  memset(text, 'x', sizeof(text));
  text[599] = 0;
  LiteRtNpuSay("Tin", "%d%%", 50);
  LiteRtNpuSay("Tin", "%s", text);
}

int main(int argc, char** argv) {
  static const Part kParts[] = {
      {"buffer_table", test_buffer_table},
      {"counters", test_counters},
      {"errors", test_errors},
      {"host_memory", test_host_memory},
      {"identity", test_identity},
      {"ports", test_ports},
  };
  runtime.create_tensor_buffer_requirements = require;
  runtime.get_tensor_buffer_size = get_size;
  runtime.lock_tensor_buffer = lock;
  runtime.unlock_tensor_buffer = unlock;
  return run_part(kParts, sizeof(kParts) / sizeof(kParts[0]), argc, argv);
}
