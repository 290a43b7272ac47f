/* The Python vendor of a shared library. The first call that needs the vendor's functions starts the interpreter and
 * finds the functions. */
#ifndef LITERT_NPU_PYTHON_LIBRARY_START_H_
#define LITERT_NPU_PYTHON_LIBRARY_START_H_

#include <stdbool.h>

/* Functions made by Python, in the order of `symbols`. */
typedef void (*python_function)(void);

/* The functions that the built library exports. */
struct python_library {
  const char* symbols;        /* names of the functions to get, each followed by a newline */
  python_function* functions; /* the functions; NULL for a function that the vendor lacks */
  void (*close)(void);        /* called once when Python ends; afterwards, no function may be called */
};

/* Fills `functions`, unless they are filled already. May be called from any thread, but not after `close`. Returns
 * false and prints the reason to standard error if there is no Python, or Python cannot load the vendor; later calls do
 * not try again. */
bool start_python(const struct python_library* library);

#endif /* LITERT_NPU_PYTHON_LIBRARY_START_H_ */
