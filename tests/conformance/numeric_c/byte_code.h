/* A vendor in C that takes SUB of floats, and CONV_2D and FULLY_CONNECTED of int8. FAULT, a macro, is what it does
 * wrong: one of the numbers below. */
#ifndef BYTE_CODE_H_
#define BYTE_CODE_H_

#include <stdint.h>

enum { kNothing, kPadding, kPerChannel, kBias, kZeroPoint, kSwapped };

#ifndef FAULT
#define FAULT kNothing
#endif

enum { kMaxChannels = 8, kMaxWeights = 512 };
enum { kSub = 1, kConv = 2 };

static const uint32_t kMagic = 0x4d554e31;

typedef struct {
  int32_t image, filter, result, stride, dilation, before; /* `before`: padding in front of the image */
} Axis;

/* FULLY_CONNECTED is a convolution of an image that is one column, with a filter of one pixel. */
typedef struct {
  uint32_t magic, op, num_inputs, num_elements;
  uint32_t operands[2];
  Axis axes[2]; /* rows, and columns */
  int32_t num_in, num_out;
  int32_t input_zero, output_zero, least, most;
  float input_scale, output_scale, scales[kMaxChannels];
  int32_t bias[kMaxChannels];
  int8_t weights[kMaxWeights]; /* [out, row, column, in] */
} Function;

#endif /* BYTE_CODE_H_ */
