/* Finds options by their keys. Each request on stdin is the size and the bytes of the options, and the size and the
 * bytes of a key. The answer is a line of JSON: a status, or the value. All memory has its exact size, so that
 * sanitizers see each read beyond the options. */
#include "expect.h"

#include "litert_npu/support/flexbuffer.h"

enum { kMostLevels = 8 };
static int elements_left; /* of an answer: a damaged vector may contain itself */

static void print_bytes(const char* type, const void* data, size_t size) {
  printf("{\"%s\": \"", type);
  for (size_t i = 0; i < size; i++) printf("%02x", ((const uint8_t*)data)[i]);
  printf("\"}");
}

/* Prints a value with the one getter that accepts its type; prints a status if none does. */
static void print_value(const LiteRtNpuFlexValue* value, int level) {
  LiteRtNpuFlexValue element;
  int64_t integer;
  double number;
  bool is_true;
  const char* text;
  const void* data;
  size_t size;
  LiteRtStatus status;
  if (LiteRtNpuFlexGetInt(value, &integer) == kLiteRtStatusOk) {
    OK(LiteRtNpuFlexGetFloat(value, &number));
    OK(LiteRtNpuFlexGetBool(value, &is_true));
    EXPECT(number == (double)integer && is_true == (integer != 0));
    printf("{\"%s\": %lld}", value->type == kLiteRtNpuFlexBool ? "bool" : "int", (long long)integer);
  } else if ((status = LiteRtNpuFlexGetFloat(value, &number)) == kLiteRtStatusOk) {
    printf("{\"float\": \"%.17g\"}", number);
  } else if (status == kLiteRtStatusErrorInvalidArgument &&
             (status = LiteRtNpuFlexGetString(value, &text, &size)) == kLiteRtStatusOk) {
    EXPECT(text[size] == 0);
    print_bytes("text", text, size);
  } else if (status == kLiteRtStatusErrorInvalidArgument &&
             (status = LiteRtNpuFlexGetBlob(value, &data, &size)) == kLiteRtStatusOk) {
    print_bytes("blob", data, size);
  } else if (status == kLiteRtStatusErrorInvalidArgument &&
             (status = LiteRtNpuFlexGetLength(value, &size)) == kLiteRtStatusOk) {
    EXPECT(LiteRtNpuFlexGetElement(value, size, &element) == kLiteRtStatusErrorIndexOOB);
    printf("[");
    for (size_t i = 0; i < size && level < kMostLevels && elements_left-- > 0; i++) {
      if (i > 0) printf(", ");
      status = LiteRtNpuFlexGetElement(value, i, &element);
      if (status == kLiteRtStatusOk)
        print_value(&element, level + 1);
      else
        printf("%d", status);
    }
    printf("]");
  } else {
    printf("%d", status);
  }
}

/* Reads a size, and bytes of this size, behind which `room` zeros lie. */
static bool read_bytes(uint8_t** bytes, uint32_t* size, size_t room) {
  if (fread(size, sizeof(*size), 1, stdin) != 1) return false;
  *bytes = (uint8_t*)calloc(1, *size + room);
  EXPECT(*size + room == 0 || *bytes != NULL);
  EXPECT(*size == 0 || fread(*bytes, *size, 1, stdin) == 1);
  return true;
}

int main(void) {
  uint8_t *options, *key;
  uint32_t options_size, key_size;
  while (read_bytes(&options, &options_size, 0) && read_bytes(&key, &key_size, 1)) {
    LiteRtNpuFlexValue value;
    const LiteRtStatus status = LiteRtNpuFlexFind(options, options_size, (const char*)key, &value);
    elements_left = 1000;
    if (status == kLiteRtStatusOk)
      print_value(&value, 0);
    else
      printf("%d", status);
    printf("\n");
    fflush(stdout);
    free(options);
    free(key);
  }
  return 0;
}
