/* Reads the options of a custom op that are a FlexBuffer map. This header is optional.
 *
 * The slot `get_custom_options` of the compiler context returns the bytes of the options. LiteRtNpuFlexFind finds a
 * value in these bytes, and the getters read the value. The functions allocate nothing, and accept any bytes: before
 * they read, they check each offset and each size. The status is InvalidFlatbuffer for damaged bytes, and
 * InvalidArgument for a value of another type. Texts and blobs are not copied: they are valid as long as the bytes.
 *
 * Format: https://flatbuffers.dev/flexbuffers_internals */
#ifndef LITERT_NPU_SUPPORT_FLEXBUFFER_H_
#define LITERT_NPU_SUPPORT_FLEXBUFFER_H_

#include <string.h>

#include "litert_npu/support/errors.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  kLiteRtNpuFlexInt = 1,
  kLiteRtNpuFlexUInt = 2,
  kLiteRtNpuFlexFloat = 3,
  kLiteRtNpuFlexKey = 4,
  kLiteRtNpuFlexString = 5,
  kLiteRtNpuFlexIndirectInt = 6, /* numbers that are not in the slot of a vector, but where its offset leads */
  kLiteRtNpuFlexIndirectFloat = 8,
  kLiteRtNpuFlexMap = 9,
  kLiteRtNpuFlexVector = 10,    /* one byte for the type of each element follows the elements */
  kLiteRtNpuFlexVectorInt = 11, /* vectors of ints, uints, floats and keys */
  kLiteRtNpuFlexVectorKey = 14,
  kLiteRtNpuFlexVectorInt2 = 16, /* 2, 3 or 4 ints, uints and floats */
  kLiteRtNpuFlexVectorFloat4 = 24,
  kLiteRtNpuFlexBlob = 25,
  kLiteRtNpuFlexBool = 26,
  kLiteRtNpuFlexVectorBool = 36
};

/* A value in a FlexBuffer. LiteRtNpuFlexFind and LiteRtNpuFlexGetElement fill it in. */
typedef struct LiteRtNpuFlexValue {
  const uint8_t* bytes; /* the whole FlexBuffer, `size` bytes */
  size_t size;
  size_t position; /* of a number, of the first byte of a text or blob, or of the first element of a vector */
  size_t width;    /* number of bytes of a number, or of a length and of each element */
  uint32_t type;
} LiteRtNpuFlexValue;

static inline bool LiteRtNpuFlexIsWidth(uint64_t width) {
  return width == 1 || width == 2 || width == 4 || width == 8;
}

static inline LiteRtStatus LiteRtNpuFlexReadUnsigned(
    const LiteRtNpuFlexValue* in, size_t position, size_t width, uint64_t* number) {
  if (in->size < width || position > in->size - width) return kLiteRtStatusErrorInvalidFlatbuffer;
  *number = 0;
  for (size_t i = width; i > 0; i--) *number = *number << 8 | in->bytes[position + i - 1];
  return kLiteRtStatusOk;
}

/* Finds where an offset leads: offsets count backwards from their own position. */
static inline LiteRtStatus LiteRtNpuFlexFollow(
    const LiteRtNpuFlexValue* in, size_t position, size_t width, size_t* target) {
  uint64_t offset;
  LITERT_NPU_TRY(LiteRtNpuFlexReadUnsigned(in, position, width, &offset));
  if (offset > position) return kLiteRtStatusErrorInvalidFlatbuffer;
  *target = position - (size_t)offset;
  return kLiteRtStatusOk;
}

/* Reads a slot of a vector or map, which contains a number, a bool, or the offset of another value. */
static inline LiteRtStatus LiteRtNpuFlexReadSlot(
    const LiteRtNpuFlexValue* in, size_t position, size_t width, uint32_t packed_type, LiteRtNpuFlexValue* value) {
  const uint32_t type = packed_type >> 2;
  LiteRtNpuFlexValue found = {in->bytes, in->size, position, width, type};
  if (type > kLiteRtNpuFlexFloat && type != kLiteRtNpuFlexBool) {
    LITERT_NPU_TRY(LiteRtNpuFlexFollow(in, position, width, &found.position));
    found.width = (size_t)1 << (packed_type & 3);
  }
  if (type >= kLiteRtNpuFlexIndirectInt && type <= kLiteRtNpuFlexIndirectFloat)
    found.type = type - kLiteRtNpuFlexIndirectInt + kLiteRtNpuFlexInt;
  *value = found;
  return kLiteRtStatusOk;
}

/* Returns the number of elements of a vector. */
static inline LiteRtStatus LiteRtNpuFlexGetLength(const LiteRtNpuFlexValue* vector, size_t* length) {
  const uint32_t type = vector->type;
  const size_t element_size = vector->width + (type == kLiteRtNpuFlexVector ? 1 : 0);
  uint64_t number;
  if (type >= kLiteRtNpuFlexVectorInt2 && type <= kLiteRtNpuFlexVectorFloat4)
    number = (type - kLiteRtNpuFlexVectorInt2) / 3 + 2;
  else if ((type >= kLiteRtNpuFlexVector && type <= kLiteRtNpuFlexVectorKey) || type == kLiteRtNpuFlexVectorBool)
    LITERT_NPU_TRY(LiteRtNpuFlexReadUnsigned(vector, vector->position - vector->width, vector->width, &number));
  else
    return kLiteRtStatusErrorInvalidArgument;
  if (number > (vector->size - vector->position) / element_size) return kLiteRtStatusErrorInvalidFlatbuffer;
  *length = (size_t)number;
  return kLiteRtStatusOk;
}

/* Finds an element of a vector; returns IndexOOB for an index that is too high. */
static inline LiteRtStatus LiteRtNpuFlexGetElement(
    const LiteRtNpuFlexValue* vector, size_t index, LiteRtNpuFlexValue* element) {
  size_t length;
  uint32_t packed_type;
  LITERT_NPU_TRY(LiteRtNpuFlexGetLength(vector, &length));
  if (index >= length) return kLiteRtStatusErrorIndexOOB;
  if (vector->type == kLiteRtNpuFlexVector)
    packed_type = vector->bytes[vector->position + length * vector->width + index];
  else if (vector->type == kLiteRtNpuFlexVectorBool)
    packed_type = kLiteRtNpuFlexBool << 2;
  else if (vector->type >= kLiteRtNpuFlexVectorInt2)
    packed_type = ((vector->type - kLiteRtNpuFlexVectorInt2) % 3 + kLiteRtNpuFlexInt) << 2;
  else
    packed_type = (vector->type - kLiteRtNpuFlexVectorInt + kLiteRtNpuFlexInt) << 2;
  return LiteRtNpuFlexReadSlot(vector, vector->position + index * vector->width, vector->width, packed_type, element);
}

/* Finds an option by its key. Returns NotFound if there is no option with this key, or if the op has no options.
 * Returns InvalidFlatbuffer if the options are not a FlexBuffer map: they may be a C struct. */
static inline LiteRtStatus LiteRtNpuFlexFind(
    const void* options, size_t size, const char* key, LiteRtNpuFlexValue* value) {
  LiteRtNpuFlexValue map = {(const uint8_t*)options, size, 0, 0, 0}, keys, name;
  const size_t key_size = strlen(key) + 1;
  size_t num_keys, num_values;
  uint64_t keys_width;
  if (size == 0) return kLiteRtStatusErrorNotFound;
  const size_t root_width = map.bytes[size - 1];
  if (!LiteRtNpuFlexIsWidth(root_width) || size < root_width + 2) return kLiteRtStatusErrorInvalidFlatbuffer;
  LITERT_NPU_TRY(LiteRtNpuFlexReadSlot(&map, size - 2 - root_width, root_width, map.bytes[size - 2], &map));
  if (map.type != kLiteRtNpuFlexMap) return kLiteRtStatusErrorInvalidFlatbuffer;
  keys = map; /* a map is a vector of values, before which are the offset of the keys, their width, and the length */
  LITERT_NPU_TRY(LiteRtNpuFlexFollow(&map, map.position - 3 * map.width, map.width, &keys.position));
  LITERT_NPU_TRY(LiteRtNpuFlexReadUnsigned(&map, map.position - 2 * map.width, map.width, &keys_width));
  if (!LiteRtNpuFlexIsWidth(keys_width)) return kLiteRtStatusErrorInvalidFlatbuffer;
  keys.width = (size_t)keys_width;
  keys.type = kLiteRtNpuFlexVectorKey;
  map.type = kLiteRtNpuFlexVector;
  LITERT_NPU_TRY(LiteRtNpuFlexGetLength(&keys, &num_keys));
  LITERT_NPU_TRY(LiteRtNpuFlexGetLength(&map, &num_values));
  if (num_keys != num_values) return kLiteRtStatusErrorInvalidFlatbuffer;
  for (size_t i = 0; i < num_keys; i++) {
    LITERT_NPU_TRY(LiteRtNpuFlexGetElement(&keys, i, &name));
    if (size - name.position >= key_size && memcmp(map.bytes + name.position, key, key_size) == 0)
      return LiteRtNpuFlexGetElement(&map, i, value);
  }
  return kLiteRtStatusErrorNotFound;
}

/* Reads an integer; a bool is 0 or 1. Returns InvalidArgument for a uint that is greater than INT64_MAX. */
static inline LiteRtStatus LiteRtNpuFlexGetInt(const LiteRtNpuFlexValue* value, int64_t* number) {
  const uint32_t type = value->type;
  uint64_t read;
  if (type != kLiteRtNpuFlexInt && type != kLiteRtNpuFlexUInt && type != kLiteRtNpuFlexBool)
    return kLiteRtStatusErrorInvalidArgument;
  LITERT_NPU_TRY(LiteRtNpuFlexReadUnsigned(value, value->position, value->width, &read));
  const uint64_t sign = (uint64_t)1 << (8 * value->width - 1);
  if (type == kLiteRtNpuFlexInt)
    read = (read ^ sign) - sign; /* sets the bits above a negative number of fewer bytes */
  else if (read > INT64_MAX)
    return kLiteRtStatusErrorInvalidArgument;
  *number = (int64_t)read;
  return kLiteRtStatusOk;
}

/* Reads a number: a float, or an integer that LiteRtNpuFlexGetInt reads. */
static inline LiteRtStatus LiteRtNpuFlexGetFloat(const LiteRtNpuFlexValue* value, double* number) {
  uint64_t bits;
  int64_t integer;
  if (value->type != kLiteRtNpuFlexFloat) {
    LITERT_NPU_TRY(LiteRtNpuFlexGetInt(value, &integer));
    *number = (double)integer;
    return kLiteRtStatusOk;
  }
  if (value->width < sizeof(float)) return kLiteRtStatusErrorInvalidFlatbuffer;
  LITERT_NPU_TRY(LiteRtNpuFlexReadUnsigned(value, value->position, value->width, &bits));
  if (value->width == sizeof(float)) {
    const uint32_t float_bits = (uint32_t)bits;
    float read;
    memcpy(&read, &float_bits, sizeof(read));
    *number = (double)read;
  } else {
    memcpy(number, &bits, sizeof(*number));
  }
  return kLiteRtStatusOk;
}

/* Reads a bool; an integer other than 0 is true. */
static inline LiteRtStatus LiteRtNpuFlexGetBool(const LiteRtNpuFlexValue* value, bool* is_true) {
  int64_t number;
  LITERT_NPU_TRY(LiteRtNpuFlexGetInt(value, &number));
  *is_true = number != 0;
  return kLiteRtStatusOk;
}

/* Finds the bytes of a blob. */
static inline LiteRtStatus LiteRtNpuFlexGetBlob(const LiteRtNpuFlexValue* value, const void** data, size_t* size) {
  uint64_t number;
  if (value->type != kLiteRtNpuFlexBlob) return kLiteRtStatusErrorInvalidArgument;
  LITERT_NPU_TRY(LiteRtNpuFlexReadUnsigned(value, value->position - value->width, value->width, &number));
  if (number > value->size - value->position) return kLiteRtStatusErrorInvalidFlatbuffer;
  *data = value->bytes + value->position;
  *size = (size_t)number;
  return kLiteRtStatusOk;
}

/* Finds a string or key. The text ends with a zero, which the size does not include. A string may contain other
 * zeros. */
static inline LiteRtStatus LiteRtNpuFlexGetString(const LiteRtNpuFlexValue* value, const char** text, size_t* size) {
  const uint8_t* start = value->bytes + value->position;
  const size_t left = value->size - value->position;
  uint64_t number = left;
  if (value->type == kLiteRtNpuFlexString) {
    LITERT_NPU_TRY(LiteRtNpuFlexReadUnsigned(value, value->position - value->width, value->width, &number));
  } else if (value->type == kLiteRtNpuFlexKey) {
    const void* end = memchr(start, 0, left);
    if (end != NULL) number = (uint64_t)((const uint8_t*)end - start);
  } else {
    return kLiteRtStatusErrorInvalidArgument;
  }
  if (number >= left || start[number] != 0) return kLiteRtStatusErrorInvalidFlatbuffer;
  *text = (const char*)start;
  *size = (size_t)number;
  return kLiteRtStatusOk;
}

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_SUPPORT_FLEXBUFFER_H_ */
