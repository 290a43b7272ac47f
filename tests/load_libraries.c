/* A program that loads libraries as LiteRT loads a plugin, and calls one function of each, from many threads at once.
 *
 * Arguments: threads for each library, the function, libraries. It prints each status, and ends as programs do: with a
 * destructor that calls once more. With VERSION defined it has a Python of that version, in name. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef VERSION
__attribute__((visibility("default"))) int Py_IsInitialized(void) { return 1; }
__attribute__((visibility("default"))) const char* Py_GetVersion(void) { return VERSION " (of this program)"; }
#endif

#ifdef __SANITIZE_ADDRESS__
#define FLAGS (RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) /* its malloc and a library's must be one */
#else
#define FLAGS (RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND | RTLD_NODELETE)
#endif

typedef int (*called)(void*);

static pthread_barrier_t barrier;
static called last;

static void* call(void* function) {
  char out[256] = {0}; /* a version, or a dispatch table: both are smaller */
  pthread_barrier_wait(&barrier);
  int status = ((called)(size_t)function)(out);
  printf("status %d\n", status);
  return NULL;
}

__attribute__((destructor)) static void end(void) {
  char out[256] = {0};
  if (last) printf("at the end %d\n", last(out));
}

int main(int argc, char** argv) {
  int threads = atoi(argv[1]), count = argc - 3;
  pthread_t ids[256];
  pthread_barrier_init(&barrier, NULL, threads * count);
  for (int i = 0; i < count; i++) {
    void* library = dlopen(argv[3 + i], FLAGS);
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 2;
    last = (called)(size_t)dlsym(library, argv[2]);
    if (!last) return fprintf(stderr, "%s\n", dlerror()), 2;
    for (int thread = 0; thread < threads; thread++)
      pthread_create(&ids[i * threads + thread], NULL, call, (void*)(size_t)last);
  }
  for (int i = 0; i < threads * count; i++) pthread_join(ids[i], NULL);
  return 0;
}
