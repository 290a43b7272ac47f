#include "rewrites.h"

LiteRtParamIndex choose_rewrites(const char* names, LiteRtTransformation** transformations) {
  *transformations = 0;
  return 0;
}
