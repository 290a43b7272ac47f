/* A program without Python that loads a newly built library, like LiteRT does, and calls it once. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) return fprintf(stderr, "%s\n", dlerror()), 2;
  int (*function)(void*);
  *(void**)&function = dlsym(library, argv[2]);
  if (!function) return fprintf(stderr, "%s\n", dlerror()), 2;
  char out[256] = {0}; /* holds a version or a dispatch table, which are both smaller */
  int status = function(out);
  if (status) fprintf(stderr, "%s returned status %d\n", argv[2], status);
  return status != 0;
}
