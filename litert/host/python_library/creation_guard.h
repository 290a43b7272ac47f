/* Python threads that create models in stock LiteRT at once get by each other. */
#ifndef LITERT_NPU_PYTHON_LIBRARY_CREATION_GUARD_H_
#define LITERT_NPU_PYTHON_LIBRARY_CREATION_GUARD_H_

#include <stdbool.h>

/* Puts the guard before stock's functions, unless that was done, by whichever library; without a Python instruction.
 * For a thread that came with the GIL, before it gives it up for the first time. False where stock's Python package is
 * not loaded: then it is to be tried again. */
bool guard_creation(void);

#endif /* LITERT_NPU_PYTHON_LIBRARY_CREATION_GUARD_H_ */
