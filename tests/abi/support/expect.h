/* What the programs that try litert_npu/support share; in the C that is C++, too. Memory can run out, in what is
 * included behind this file. */
#ifndef EXPECT_H_
#define EXPECT_H_

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So many allocations more succeed, if it is not negative. */
static int allocations_left = -1;

static inline bool may_allocate(void) { return allocations_left < 0 || allocations_left-- > 0; }

#define malloc(size) (may_allocate() ? malloc(size) : NULL)
#define calloc(number, size) (may_allocate() ? calloc(number, size) : NULL)
#define realloc(memory, size) (may_allocate() ? realloc(memory, size) : NULL)

#define EXPECT(condition)                                                 \
  do {                                                                    \
    if (!(condition)) {                                                   \
      fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                            \
    }                                                                     \
  } while (0)
#define OK(call) EXPECT((call) == kLiteRtStatusOk)
#define REFUSED(call) EXPECT((call) == kLiteRtStatusErrorInvalidArgument)

typedef struct {
  const char* name;
  void (*run)(void);
} Part;

/* Runs the part that the argument names; what is not as expected ends the program with 1. */
static inline int run_part(const Part* parts, size_t number, int argc, char** argv) {
  for (size_t i = 0; i < number && argc == 2; i++) {
    if (strcmp(argv[1], parts[i].name) != 0) continue;
    parts[i].run();
    return 0;
  }
  fprintf(stderr, "there is no such part\n");
  return 2;
}

#endif /* EXPECT_H_ */
