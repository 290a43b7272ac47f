/* The types in LiteRT's tables for vendors: status codes, handles, structs and numbers, as in release 2.3.0. A vendor's
 * sources include this header through `compiler_plugin.h` or `dispatch.h`, in C11 or C++17. */
#ifndef LITERT_NPU_TYPES_H_
#define LITERT_NPU_TYPES_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Put this before each function that a vendor's library exports. */
#define LITERT_CAPI_EXPORT __attribute__((visibility("default")))

typedef enum {
  kLiteRtStatusOk = 0,
  kLiteRtStatusErrorInvalidArgument = 1,
  kLiteRtStatusErrorMemoryAllocationFailure = 2,
  kLiteRtStatusErrorRuntimeFailure = 3,
  kLiteRtStatusErrorMissingInputTensor = 4,
  kLiteRtStatusErrorUnsupported = 5,
  kLiteRtStatusErrorNotFound = 6,
  kLiteRtStatusErrorTimeoutExpired = 7,
  kLiteRtStatusErrorWrongVersion = 8,
  kLiteRtStatusErrorUnknown = 9,
  kLiteRtStatusErrorAlreadyExists = 10,
  kLiteRtStatusCancelled = 100,
  kLiteRtStatusErrorFileIO = 500,
  kLiteRtStatusErrorInvalidFlatbuffer = 501,
  kLiteRtStatusErrorDynamicLoading = 502,
  kLiteRtStatusErrorSerialization = 503,
  kLiteRtStatusErrorCompilation = 504,
  kLiteRtStatusErrorIndexOOB = 1000,
  kLiteRtStatusErrorInvalidIrType = 1001,
  kLiteRtStatusErrorInvalidGraphInvariant = 1002,
  kLiteRtStatusErrorGraphModification = 1003,
  kLiteRtStatusErrorInvalidToolConfig = 1500,
  kLiteRtStatusLegalizeNoMatch = 2000,
  kLiteRtStatusErrorInvalidLegalization = 2001,
  kLiteRtStatusPatternNoMatch = 3000,
  kLiteRtStatusInvalidTransformation = 3001,
  kLiteRtStatusErrorUnsupportedRuntimeVersion = 4000,
  kLiteRtStatusErrorUnsupportedCompilerVersion = 4001,
  kLiteRtStatusErrorIncompatibleByteCodeVersion = 4002,
  kLiteRtStatusErrorUnsupportedOpShapeInferer = 5000,
  kLiteRtStatusErrorShapeInferenceFailed = 5001
} LiteRtStatus;

typedef struct LiteRtApiVersion {
  int major;
  int minor;
  int patch;
} LiteRtApiVersion;

/* The first member of each table that may grow. A table has a slot if the slot ends within `struct_size`. */
typedef struct LiteRtAbiHeader {
  uint16_t struct_size;
  uint16_t major_version;
  uint16_t minor_version;
  uint16_t reserved;
} LiteRtAbiHeader;

/* Handles of the host. Only the host knows the structs that handles point to: pass handles to host functions, and never
 * dereference them. */
typedef struct LiteRtBuilderT* LiteRtBuilder;
typedef struct LiteRtDelegateWrapperT* LiteRtDelegateWrapper;
typedef struct LiteRtEnvironmentT* LiteRtEnvironment;
typedef struct LiteRtEnvironmentOptionsT* LiteRtEnvironmentOptions;
typedef struct LiteRtEventT* LiteRtEvent;
typedef struct LiteRtExternalLiteRtBufferContextT* LiteRtExternalLiteRtBufferContext;
typedef struct LiteRtJitExecutableT* LiteRtJitExecutable;
typedef struct LiteRtMetricsT* LiteRtMetrics;
typedef struct LiteRtModelT* LiteRtModel;
typedef struct LiteRtOpT* LiteRtOp;
typedef struct LiteRtOpListT* LiteRtOpList;
typedef struct LiteRtOpaqueOptionsT* LiteRtOpaqueOptions;
typedef struct LiteRtOptionsT* LiteRtOptions;
typedef struct LiteRtSubgraphT* LiteRtSubgraph;
typedef struct LiteRtTensorT* LiteRtTensor;
typedef struct LiteRtTensorBufferT* LiteRtTensorBuffer;
typedef struct LiteRtTensorBufferRequirementsT* LiteRtTensorBufferRequirements;
typedef struct LiteRtWeightsT* LiteRtWeights;
typedef struct TfLiteOpaqueDelegate TfLiteOpaqueDelegate;
typedef struct TfLiteTensor TfLiteTensor;
typedef struct AHardwareBuffer AHardwareBuffer;

typedef size_t LiteRtParamIndex;
typedef int32_t LiteRtOpCode; /* kLiteRtOpCodeTfl..., kLiteRtOpCodeShlo... of op_codes.h */

/* The numbers of TfLiteType, which differ from the numbers of TensorType in a file. */
typedef enum {
  kLiteRtElementTypeNone = 0,
  kLiteRtElementTypeFloat32 = 1,
  kLiteRtElementTypeInt32 = 2,
  kLiteRtElementTypeUInt8 = 3,
  kLiteRtElementTypeInt64 = 4,
  kLiteRtElementTypeTfString = 5,
  kLiteRtElementTypeBool = 6,
  kLiteRtElementTypeInt16 = 7,
  kLiteRtElementTypeComplex64 = 8,
  kLiteRtElementTypeInt8 = 9,
  kLiteRtElementTypeFloat16 = 10,
  kLiteRtElementTypeFloat64 = 11,
  kLiteRtElementTypeComplex128 = 12,
  kLiteRtElementTypeUInt64 = 13,
  kLiteRtElementTypeTfResource = 14,
  kLiteRtElementTypeTfVariant = 15,
  kLiteRtElementTypeUInt32 = 16,
  kLiteRtElementTypeUInt16 = 17,
  kLiteRtElementTypeInt4 = 18,
  kLiteRtElementTypeBFloat16 = 19,
  kLiteRtElementTypeInt2 = 20,
  kLiteRtElementTypeUInt4 = 21,
  kLiteRtElementTypeFloat8E4M3FN = 22,
  kLiteRtElementTypeFloat8E5M2 = 23
} LiteRtElementType;

/* -1 stands for a dimension that is not known. Dimensions beyond `rank` are undefined. */
typedef struct {
  uint32_t rank : 7;
  uint32_t has_strides : 1;
  int32_t dimensions[8];
  uint32_t strides[8];
} LiteRtLayout;

typedef struct {
  LiteRtElementType element_type;
  LiteRtLayout layout;
} LiteRtRankedTensorType;

typedef struct {
  LiteRtElementType element_type;
} LiteRtUnrankedTensorType;

typedef enum {
  kLiteRtRankedTensorType = 0,
  kLiteRtUnrankedTensorType = 1
} LiteRtTensorTypeId;

typedef enum {
  kLiteRtQuantizationNone = 0,
  kLiteRtQuantizationPerTensor = 1,
  kLiteRtQuantizationPerChannel = 2,
  kLiteRtQuantizationBlockWise = 3
} LiteRtQuantizationTypeId;

typedef struct {
  float scale;
  int64_t zero_point;
} LiteRtQuantizationPerTensor;

typedef struct {
  int32_t quantized_dimension;
  uint64_t num_channels;
  float* scales;
  int64_t* zero_points;
} LiteRtQuantizationPerChannel;

typedef struct {
  LiteRtTensor scales;
  LiteRtTensor zero_points;
  int32_t block_size;
} LiteRtQuantizationBlockWise;

typedef struct LiteRtTensorDefiningOp {
  LiteRtOp op;
  LiteRtParamIndex op_output_index;
} LiteRtTensorDefiningOp;

typedef struct LiteRtModelSerializationOptions {
  size_t bytecode_alignment;
} LiteRtModelSerializationOptions;

typedef enum {
  kLiteRtAnyTypeNone = 0,
  kLiteRtAnyTypeBool = 1,
  kLiteRtAnyTypeInt = 2,
  kLiteRtAnyTypeReal = 3,
  kLiteRtAnyTypeString = 8,
  kLiteRtAnyTypeVoidPtr = 9
} LiteRtAnyType;

typedef struct {
  LiteRtAnyType type;
  union {
    bool bool_value;
    int64_t int_value;
    double real_value;
    const char* str_value;
    const void* ptr_value;
  };
} LiteRtAny;

typedef enum {
  kLiteRtHwAcceleratorNone = 0,
  kLiteRtHwAcceleratorCpu = 1,
  kLiteRtHwAcceleratorGpu = 2,
  kLiteRtHwAcceleratorNpu = 4
} LiteRtHwAccelerators;
typedef int LiteRtHwAcceleratorSet;

typedef enum {
  kLiteRtEnvOptionTagCompilerPluginLibraryDir = 0,
  kLiteRtEnvOptionTagDispatchLibraryDir = 1,
  kLiteRtEnvOptionTagOpenClDeviceId = 2,
  kLiteRtEnvOptionTagOpenClPlatformId = 3,
  kLiteRtEnvOptionTagOpenClContext = 4,
  kLiteRtEnvOptionTagOpenClCommandQueue = 5,
  kLiteRtEnvOptionTagEglDisplay = 6,
  kLiteRtEnvOptionTagEglContext = 7,
  kLiteRtEnvOptionTagWebGpuDevice = 8,
  kLiteRtEnvOptionTagWebGpuQueue = 9,
  kLiteRtEnvOptionTagMetalDevice = 10,
  kLiteRtEnvOptionTagMetalCommandQueue = 11,
  kLiteRtEnvOptionTagVulkanEnvironment = 12,
  kLiteRtEnvOptionTagCallbackOnGpuEnvDestroy = 14,
  kLiteRtEnvOptionTagCallbackUserDataOnGpuEnvDestroy = 15,
  kLiteRtEnvOptionTagMagicNumberConfigs = 16,
  kLiteRtEnvOptionTagMagicNumberVerifications = 17,
  kLiteRtEnvOptionTagCompilerCacheDir = 18,
  kLiteRtEnvOptionTagWebGpuInstance = 19,
  kLiteRtEnvOptionTagRuntimeLibraryDir = 22,
  kLiteRtEnvOptionTagSystemRuntimeHandle = 23,
  kLiteRtEnvOptionTagAutoRegisterAccelerators = 24,
  kLiteRtEnvOptionTagMinLoggerSeverity = 25, /* a higher value logs less */
  kLiteRtEnvOptionTagNull = 255
} LiteRtEnvOptionTag;

typedef struct {
  LiteRtEnvOptionTag tag;
  LiteRtAny value;
} LiteRtEnvOption;

typedef enum {
  kLiteRtTensorBufferTypeUnknown = 0,
  kLiteRtTensorBufferTypeHostMemory = 1,
  kLiteRtTensorBufferTypeAhwb = 2,
  kLiteRtTensorBufferTypeIon = 3,
  kLiteRtTensorBufferTypeDmaBuf = 4,
  kLiteRtTensorBufferTypeFastRpc = 5,
  kLiteRtTensorBufferTypeGlBuffer = 6,
  kLiteRtTensorBufferTypeGlTexture = 7,
  kLiteRtTensorBufferTypeOpenClBuffer = 10,
  kLiteRtTensorBufferTypeOpenClBufferFp16 = 11,
  kLiteRtTensorBufferTypeOpenClTexture = 12,
  kLiteRtTensorBufferTypeOpenClTextureFp16 = 13,
  kLiteRtTensorBufferTypeOpenClBufferPacked = 14,
  kLiteRtTensorBufferTypeOpenClImageBuffer = 15,
  kLiteRtTensorBufferTypeOpenClImageBufferFp16 = 16,
  kLiteRtTensorBufferTypeWebGpuBuffer = 20,
  kLiteRtTensorBufferTypeWebGpuBufferFp16 = 21,
  kLiteRtTensorBufferTypeWebGpuTexture = 22,
  kLiteRtTensorBufferTypeWebGpuTextureFp16 = 23,
  kLiteRtTensorBufferTypeWebGpuImageBuffer = 24,
  kLiteRtTensorBufferTypeWebGpuImageBufferFp16 = 25,
  kLiteRtTensorBufferTypeWebGpuBufferPacked = 26,
  kLiteRtTensorBufferTypeMetalBuffer = 30,
  kLiteRtTensorBufferTypeMetalBufferFp16 = 31,
  kLiteRtTensorBufferTypeMetalTexture = 32,
  kLiteRtTensorBufferTypeMetalTextureFp16 = 33,
  kLiteRtTensorBufferTypeMetalBufferPacked = 34,
  kLiteRtTensorBufferTypeVulkanBuffer = 40,
  kLiteRtTensorBufferTypeVulkanBufferFp16 = 41,
  kLiteRtTensorBufferTypeVulkanTexture = 42,
  kLiteRtTensorBufferTypeVulkanTextureFp16 = 43,
  kLiteRtTensorBufferTypeVulkanImageBuffer = 44,
  kLiteRtTensorBufferTypeVulkanImageBufferFp16 = 45,
  kLiteRtTensorBufferTypeVulkanBufferPacked = 46,
  kLiteRtTensorBufferTypeUserCustomBuffer = 100, /* 100 to 199 are vendors' own types */
  kLiteRtTensorBufferTypeUserCustomBufferEnd = 199
} LiteRtTensorBufferType;

typedef enum {
  kLiteRtTensorBufferLockModeRead = 0,
  kLiteRtTensorBufferLockModeWrite = 1,
  kLiteRtTensorBufferLockModeReadWrite = 2
} LiteRtTensorBufferLockMode;

/* Alignment of the host's memory, in bytes. */
#define LITERT_HOST_MEMORY_BUFFER_ALIGNMENT 64

typedef void (*LiteRtHostMemoryDeallocator)(void* address);

/* Bytes that the host passes to the vendor: `size` bytes at base_addr + offset. If fd >= 0, the bytes are in this file,
 * which is mapped at base_addr from alloc_base_file_offset on. */
typedef struct LiteRtMemBuffer {
  int fd;
  const void* base_addr;
  size_t offset;
  size_t size;
  size_t alloc_base_file_offset;
} LiteRtMemBuffer;

typedef struct LiteRtMetric {
  const char* name;
  LiteRtAny value;
} LiteRtMetric;

typedef enum {
  LiteRtEventTypeUnknown = 0,
  LiteRtEventTypeSyncFenceFd = 1,
  LiteRtEventTypeOpenCl = 2,
  LiteRtEventTypeEglSyncFence = 3,
  LiteRtEventTypeEglNativeSyncFence = 4,
  LiteRtEventTypeCustom = 5
} LiteRtEventType;

/* An event that a vendor defines; the vendor's struct begins with these functions. */
typedef struct LiteRtCustomEventT* LiteRtCustomEvent;
struct LiteRtCustomEventT {
  void (*Retain)(LiteRtCustomEvent event);
  void (*Release)(LiteRtCustomEvent event);
  void (*Wait)(LiteRtCustomEvent event, int64_t timeout_in_ms);
  int (*IsSignaled)(LiteRtCustomEvent event);
  void* (*GetNative)(LiteRtCustomEvent event);
};

typedef enum {
  kLiteRtSchedulingInfoFieldOriginalUid = 1,
  kLiteRtSchedulingInfoFieldDebugFeatureId = 2,
  kLiteRtSchedulingInfoFieldJobPriority = 4,
  kLiteRtSchedulingInfoFieldGroupId = 8
} LiteRtSchedulingInfoField;

typedef struct LiteRtSchedulingInfo {
  uint32_t fields_mask; /* a bit for each member that is set; stock LiteRT's runtime sets all: 15 */
  int32_t original_uid;
  const char* debug_feature_id;
  int32_t job_priority; /* 0 is the highest, 1000 the lowest */
  uint8_t group_id[16];
} LiteRtSchedulingInfo;

/* Memory that the vendor allocates, in place of host memory. */
struct HwMemoryInfo {
  void* memory_handle; /* get_tensor_buffer_custom_tensor_buffer_handle of the runtime context returns it */
  void* raw_handle;
};
typedef struct HwMemoryInfo* HwMemoryInfoPtr;

typedef struct LiteRtCustomTensorBufferHandlersDef {
  LiteRtAbiHeader abi_header;
  LiteRtStatus (*create_func)(void* device, void* queue, const LiteRtRankedTensorType* tensor_type,
      LiteRtTensorBufferType buffer_type, size_t bytes, size_t packed_bytes, HwMemoryInfoPtr* info);
  LiteRtStatus (*destroy_func)(HwMemoryInfoPtr info);
  LiteRtStatus (*lock_func)(HwMemoryInfoPtr info, LiteRtTensorBufferLockMode mode, void** address);
  LiteRtStatus (*unlock_func)(HwMemoryInfoPtr info);
  LiteRtStatus (*clear_func)(HwMemoryInfoPtr info); /* may be NULL */
  LiteRtStatus (*import_func)(void* device, void* queue, const LiteRtRankedTensorType* tensor_type,
      LiteRtTensorBufferType buffer_type, void* handle, size_t bytes, size_t packed_bytes,
      HwMemoryInfoPtr* info); /* may be NULL */
  LiteRtEnvOptionTag device_tag; /* option of the environment that is passed as `device`; Null for NULL */
  LiteRtEnvOptionTag queue_tag;
  size_t num_supported_buffer_types;
  LiteRtTensorBufferType supported_buffer_types[16];
} LiteRtCustomTensorBufferHandlersDef;

#ifdef __cplusplus
}
#endif

#endif /* LITERT_NPU_TYPES_H_ */
