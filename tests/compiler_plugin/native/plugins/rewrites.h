/* The transformations that SCRIBE_REWRITES names, separated by commas; the last has the highest benefit. */
#include "litert_npu/compiler_plugin.h"

/* Returns how many there are. */
LiteRtParamIndex choose_rewrites(const char* names, LiteRtTransformation** transformations);
