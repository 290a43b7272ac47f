/* A C program that runs a compiled model in LiteRT's C API, as an application does: no Python in it.
 *
 * Arguments: libLiteRt.so, model, folder of dispatch libraries, number of float32 elements of the one input and of the
 * one output, runs, threads, and `async` for runs that do not wait. Each thread has a model of its own, is given 0, 1, 2, ... and prints its output; the first
 * one prints the nanoseconds of the second half's mean run. $PLUGINS is a folder of plugins, to compile at load with. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "litert_npu/types.h"

typedef struct LiteRtCompiledModelT* LiteRtCompiledModel;

#define FUNCTIONS(X) \
  X(LiteRtStatus, LiteRtCreateEnvironment, (int, const LiteRtEnvOption*, LiteRtEnvironment*)) \
  X(void, LiteRtDestroyEnvironment, (LiteRtEnvironment)) \
  X(LiteRtStatus, LiteRtCreateModelFromFile, (LiteRtEnvironment, const char*, LiteRtModel*)) \
  X(void, LiteRtDestroyModel, (LiteRtModel)) \
  X(LiteRtStatus, LiteRtCreateOptions, (LiteRtOptions*)) \
  X(LiteRtStatus, LiteRtSetOptionsHardwareAccelerators, (LiteRtOptions, LiteRtHwAcceleratorSet)) \
  X(LiteRtStatus, LiteRtCreateCompiledModel, (LiteRtEnvironment, LiteRtModel, LiteRtOptions, LiteRtCompiledModel*)) \
  X(void, LiteRtDestroyCompiledModel, (LiteRtCompiledModel)) \
  X(LiteRtStatus, LiteRtCreateManagedTensorBuffer, \
    (LiteRtEnvironment, LiteRtTensorBufferType, const LiteRtRankedTensorType*, size_t, LiteRtTensorBuffer*)) \
  X(void, LiteRtDestroyTensorBuffer, (LiteRtTensorBuffer)) \
  X(LiteRtStatus, LiteRtLockTensorBuffer, (LiteRtTensorBuffer, void**, LiteRtTensorBufferLockMode)) \
  X(LiteRtStatus, LiteRtUnlockTensorBuffer, (LiteRtTensorBuffer)) \
  X(LiteRtStatus, LiteRtClearTensorBufferEvent, (LiteRtTensorBuffer)) \
  X(LiteRtStatus, LiteRtRunCompiledModel, \
    (LiteRtCompiledModel, size_t, size_t, LiteRtTensorBuffer*, size_t, LiteRtTensorBuffer*)) \
  X(LiteRtStatus, LiteRtRunCompiledModelAsync, \
    (LiteRtCompiledModel, size_t, size_t, LiteRtTensorBuffer*, size_t, LiteRtTensorBuffer*, bool*))

#define POINTER(result, name, arguments) static result(*name) arguments;
FUNCTIONS(POINTER)

static char** arguments;
static int elements, runs, failures;
static bool is_async;
static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;

#define CHECK(call) \
  do { \
    int status = (call); \
    if (status) { \
      printf("%s: status %d\n", #call, status); \
      __atomic_store_n(&failures, 1, __ATOMIC_SEQ_CST); \
      return NULL; \
    } \
  } while (0)

static double now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e9 + time.tv_nsec;
}

static void* run(void* number) {
  LiteRtEnvironment environment;
  LiteRtEnvOption options_given[] = {
      {kLiteRtEnvOptionTagDispatchLibraryDir, {kLiteRtAnyTypeString, {.str_value = arguments[3]}}},
      {kLiteRtEnvOptionTagCompilerPluginLibraryDir, {kLiteRtAnyTypeString, {.str_value = getenv("PLUGINS")}}}};
  CHECK(LiteRtCreateEnvironment(getenv("PLUGINS") ? 2 : 1, options_given, &environment));
  LiteRtModel model;
  CHECK(LiteRtCreateModelFromFile(environment, arguments[2], &model));
  LiteRtOptions options;
  CHECK(LiteRtCreateOptions(&options));
  CHECK(LiteRtSetOptionsHardwareAccelerators(options, kLiteRtHwAcceleratorNpu | kLiteRtHwAcceleratorCpu));
  LiteRtCompiledModel compiled;
  CHECK(LiteRtCreateCompiledModel(environment, model, options, &compiled));
  LiteRtRankedTensorType type = {.element_type = kLiteRtElementTypeFloat32};
  type.layout.rank = 1;
  type.layout.dimensions[0] = elements;
  LiteRtTensorBuffer x, y;
  CHECK(LiteRtCreateManagedTensorBuffer(environment, kLiteRtTensorBufferTypeHostMemory, &type, 4 * elements, &x));
  CHECK(LiteRtCreateManagedTensorBuffer(environment, kLiteRtTensorBufferTypeHostMemory, &type, 4 * elements, &y));
  void* address;
  CHECK(LiteRtLockTensorBuffer(x, &address, kLiteRtTensorBufferLockModeWrite));
  for (int i = 0; i < elements; i++) ((float*)address)[i] = i;
  CHECK(LiteRtUnlockTensorBuffer(x));
  double start = now_ns();
  for (int i = 0; i < runs; i++) {
    if (i == runs / 2) start = now_ns();
    if (!is_async) {
      CHECK(LiteRtRunCompiledModel(compiled, 0, 1, &x, 1, &y));
      continue;
    }
    bool was_async = false;
    CHECK(LiteRtRunCompiledModelAsync(compiled, 0, 1, &x, 1, &y, &was_async));
    if (!i && !number) printf("async %d\n", was_async);
    CHECK(LiteRtLockTensorBuffer(y, &address, kLiteRtTensorBufferLockModeRead)); /* waits for the run */
    CHECK(LiteRtUnlockTensorBuffer(y));
    if (was_async) CHECK(LiteRtClearTensorBufferEvent(y));
  }
  double mean = (now_ns() - start) / (runs - runs / 2);
  CHECK(LiteRtLockTensorBuffer(y, &address, kLiteRtTensorBufferLockModeRead));
  pthread_mutex_lock(&output);
  printf("y");
  for (int i = 0; i < elements; i++) printf(" %g", ((float*)address)[i]);
  printf("\n");
  if (!number) printf("ns %.0f\n", mean);
  pthread_mutex_unlock(&output);
  CHECK(LiteRtUnlockTensorBuffer(y));
  LiteRtDestroyTensorBuffer(x);
  LiteRtDestroyTensorBuffer(y);
  LiteRtDestroyCompiledModel(compiled);
  LiteRtDestroyModel(model);
  LiteRtDestroyEnvironment(environment);
  return NULL;
}

int main(int argc, char** argv) {
  if (argc < 7) return 2;
  arguments = argv;
  elements = atoi(argv[4]);
  runs = atoi(argv[5]);
  is_async = argc > 7;
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) return fprintf(stderr, "%s\n", dlerror()), 2;
#define FIND(result, name, arguments) \
  *(void**)&name = dlsym(library, #name); \
  if (!name) return fprintf(stderr, "no %s\n", #name), 2;
  FUNCTIONS(FIND)
  pthread_t threads[64];
  int count = atoi(argv[6]);
  if (count == 1) {
    run(NULL);
    return failures;
  }
  for (int i = 0; i < count; i++) pthread_create(&threads[i], NULL, run, (void*)(size_t)i);
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
  return failures;
}
