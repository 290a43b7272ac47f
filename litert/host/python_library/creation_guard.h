/* Prevents deadlocks of Python threads that create models in stock LiteRT at the same time. */
#ifndef LITERT_NPU_PYTHON_LIBRARY_CREATION_GUARD_H_
#define LITERT_NPU_PYTHON_LIBRARY_CREATION_GUARD_H_

#include <stdbool.h>

/* Installs the guard in stock's functions, unless any library has installed it already. Runs no Python instruction.
 * Called by a thread that holds the GIL, before it releases the GIL for the first time. Returns false if stock's Python
 * package is not loaded; the caller must then try again. */
bool guard_creation(void);

#endif /* LITERT_NPU_PYTHON_LIBRARY_CREATION_GUARD_H_ */
