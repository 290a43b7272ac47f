/* Memory of its own kinds. */
#include "probe.h"

static int memories; /* that are alive */

LITERT_CAPI_EXPORT int probe_memories(void) { return memories; }

static LiteRtStatus create_memory(
    void* device, void* queue, const LiteRtRankedTensorType* type, LiteRtTensorBufferType kind, size_t bytes,
    size_t packed, HwMemoryInfoPtr* info) {
  ENTER("create_memory", "%d %zu %zu rank %d", kind, bytes, packed, type->layout.rank);
  if (device != NULL || queue != NULL) note("BROKEN create_memory got a device");
  if (fault("null-memory")) return kLiteRtStatusOk;
  Memory* made = calloc(1, sizeof(*made));
  made->info.memory_handle = made;
  made->library = &handlers;
  made->moves = kind == MOVING;
  made->size = bytes;
  made->device = malloc(bytes);
  for (int i = 0; i < 2; i++) made->shown[i] = aligned_alloc(64, (bytes + 127) / 64 * 64);
  memories++;
  *info = &made->info;
  return kLiteRtStatusOk;
}

static LiteRtStatus destroy_memory(HwMemoryInfoPtr info) {
  ENTER("destroy_memory", "");
  Memory* memory = (Memory*)info;
  if (memory->locked) note("BROKEN destroy_memory of locked memory");
  free(memory->device);
  for (int i = 0; i < 2; i++) free(memory->shown[i]);
  free(memory);
  memories--;
  return kLiteRtStatusOk;
}

static LiteRtStatus lock_memory(HwMemoryInfoPtr info, LiteRtTensorBufferLockMode mode, void** address) {
  ENTER("lock_memory", "%d", mode);
  Memory* memory = (Memory*)info;
  if (memory->locked) note("BROKEN lock_memory twice");
  if (fault("null-address")) return kLiteRtStatusOk;
  memory->turn = memory->moves || fault("moves") ? !memory->turn : 0;
  memory->locked = true;
  memcpy(memory->shown[memory->turn], memory->device, memory->size);
  *address = memory->shown[memory->turn];
  return kLiteRtStatusOk;
}

static LiteRtStatus unlock_memory(HwMemoryInfoPtr info) {
  ENTER("unlock_memory", "");
  Memory* memory = (Memory*)info;
  if (!memory->locked) note("BROKEN unlock_memory that is not locked");
  memory->locked = false;
  memcpy(memory->device, memory->shown[memory->turn], memory->size);
  memset(memory->shown[memory->turn], 0xEE, memory->size);
  return kLiteRtStatusOk;
}

LiteRtCustomTensorBufferHandlersDef handlers = {
    .abi_header = {sizeof(LiteRtCustomTensorBufferHandlersDef), 1, 0, 0},
    .create_func = create_memory,
    .destroy_func = destroy_memory,
    .lock_func = lock_memory,
    .unlock_func = unlock_memory,
    .device_tag = kLiteRtEnvOptionTagNull,
    .queue_tag = kLiteRtEnvOptionTagNull,
    .num_supported_buffer_types = 2,
    .supported_buffer_types = {OWN, MOVING},
};
