/* The Python vendor behind a shared library: its interpreter is started, and its functions are found, at the first
 * call that needs them. */
#ifndef LITERT_NPU_PYTHON_LIBRARY_START_H_
#define LITERT_NPU_PYTHON_LIBRARY_START_H_

#include <stdbool.h>

/* Functions that Python has made, in the order of `symbols`. */
typedef void (*python_function)(void);

/* What the library that is being built exports. */
struct python_library {
  const char* symbols;        /* names of the functions to get, each followed by a newline */
  python_function* functions; /* where they go; NULL for one that the vendor lacks */
  void (*close)(void);        /* called once when Python ends: from then on none of the functions may be called */
};

/* Fills `functions`, unless that was done; from any thread. False, with the reason on standard error, where there is no
 * Python, or no vendor in it; it is not tried again. Not to be called after `close`. */
bool start_python(const struct python_library* library);

#endif /* LITERT_NPU_PYTHON_LIBRARY_START_H_ */
