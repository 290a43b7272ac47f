// CPU layers as extension libraries of Inference Engine have them: its classes, over `litert_npu/cpu_layer.h`.
//
// A library derives from `IExtension`, `ILayerImplFactory` and `ILayerExecImpl`, and exports `CreateExtension`, just as
// for Inference Engine; this header does the rest, in C++11 or later:
//
//   #include <litert_npu/inference_engine.hpp>
//   using namespace InferenceEngine;
//   ...
//   INFERENCE_EXTENSION_API(StatusCode) CreateExtension(IExtension*& extension, ResponseDesc*) noexcept {
//     extension = new MyExtension();
//     return OK;
//   }
//
//   c++ -O3 -shared -fPIC -I"$(python -m vendor_reference.cpu_layer)" layers.cpp -o layers.so
//
// What is told of a layer:
//   - `CNNLayer::params` are the op's options: numbers as text, those of an array with commas between them. Options that
//     are a C struct are in `CNNLayer::options`, byte for byte. `insData` are all inputs that are there, constants too.
//   - Dimensions are N, C, H, W for a tensor of rank 4, and N, C, and the others for a higher one, however it lies in
//     memory: `BlockingDesc` says that. Lower ranks have the model's own order.
//   - `MemoryFormat::any` takes a tensor as it comes: in `init` and `execute` all such tensors of one shape lie alike.
//   - A layer whose `getShapes` is not implemented has the shapes that the model says; where that leaves dimensions open,
//     those of the first input that agrees in the others.
//
// The extension lives from the first question until the last model of the process that uses it is closed. Then
// `Unload` and `Release` are called, and the library is closed.

#ifndef LITERT_NPU_INFERENCE_ENGINE_HPP_
#define LITERT_NPU_INFERENCE_ENGINE_HPP_

#include <litert_npu/cpu_layer.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <locale>
#include <map>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <vector>

namespace InferenceEngine {

// ---- What functions answer

enum StatusCode : int {
  OK = 0,
  GENERAL_ERROR = -1,
  NOT_IMPLEMENTED = -2,
  NETWORK_NOT_LOADED = -3,
  PARAMETER_MISMATCH = -4,
  NOT_FOUND = -5,
  OUT_OF_BOUNDS = -6,
  UNEXPECTED = -7,
  REQUEST_BUSY = -8,
  RESULT_NOT_READY = -9,
  NOT_ALLOCATED = -10,
  INFER_NOT_STARTED = -11,
  NETWORK_NOT_READ = -12
};

// Room for a sentence that says what is wrong; it comes filled with zeros.
struct ResponseDesc {
  char msg[256];
};

struct ApiVersion {
  int major;
  int minor;
};

struct Version {
  ApiVersion apiVersion;
  const char* buildNumber;  // the library's version, for reports
  const char* description;  // the library's name
};

class IErrorListener {
 public:
  virtual ~IErrorListener() = default;
  virtual void onError(const char* message) noexcept = 0;
};

namespace details {

// What `THROW_IE_EXCEPTION << "no data"` throws.
class InferenceEngineException : public std::exception {
 public:
  template <typename T>
  InferenceEngineException& operator<<(const T& said) {
    std::ostringstream text;
    text << said;
    what_ += text.str();
    return *this;
  }
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

}  // namespace details

#define THROW_IE_EXCEPTION throw ::InferenceEngine::details::InferenceEngineException()

// ---- Tensors

class Precision {
 public:
  enum ePrecision : uint8_t {
    UNSPECIFIED = 255,  // in a configuration: the tensor's own
    FP32 = 10,
    FP16 = 11,
    FP64 = 13,
    I16 = 30,
    U8 = 40,
    BOOL = 41,
    I8 = 50,
    U16 = 60,
    I32 = 70,
    U32 = 71,
    I64 = 72,
    U64 = 73
  };
  Precision() = default;
  Precision(ePrecision value) : value_(value) {}
  operator ePrecision() const { return value_; }
  ePrecision getPrecVal() const { return value_; }

  // The size of an element, in bytes.
  size_t size() const {
    switch (value_) {
      case U8: case I8: case BOOL: return 1;
      case FP16: case I16: case U16: return 2;
      case FP64: case I64: case U64: return 8;
      default: return 4;
    }
  }

 private:
  ePrecision value_ = UNSPECIFIED;
};

typedef std::vector<size_t> SizeVector;

enum Layout : uint8_t {
  ANY = 0,
  NCHW = 1,
  NHWC = 2,
  NCDHW = 3,
  NDHWC = 4,
  C = 96,
  CHW = 128,
  NC = 193,
  SCALAR = 95,
  BLOCKED = 200
};

namespace MKLDNNPlugin {

enum class MemoryFormat : uint8_t { any = ANY, nchw = Layout::NCHW, nhwc = Layout::NHWC, NCHW = nchw, NHWC = nhwc };

}  // namespace MKLDNNPlugin

using MKLDNNPlugin::MemoryFormat;

namespace details {

inline SizeVector RowOrder(size_t rank) {
  SizeVector order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = i;
  return order;
}

inline SizeVector ChannelsLast(size_t rank) {
  SizeVector order = RowOrder(rank);
  if (rank > 2) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return order;
}

inline SizeVector Pick(const SizeVector& values, const SizeVector& indices) {
  SizeVector picked;
  for (size_t index : indices) picked.push_back(index < values.size() ? values[index] : 0);
  return picked;
}

}  // namespace details

// Where a tensor's elements lie: memory dimension i counts along tensor dimension order[i]. A dimension that comes again
// counts the elements of a block: {N, C / 8, H, W, 8} with order {0, 1, 2, 3, 1} is nChw8c.
class BlockingDesc {
 public:
  BlockingDesc() = default;
  BlockingDesc(const SizeVector& blocked_dims, const SizeVector& order)
      : dims_(blocked_dims), order_(order), paddings_(order.size(), 0), strides_(order.size(), 1) {
    for (size_t i = strides_.size(); i-- > 1;) strides_[i - 1] = strides_[i] * (i < dims_.size() ? dims_[i] : 1);
  }
  BlockingDesc(const SizeVector& blocked_dims, const SizeVector& order, size_t offset, const SizeVector& paddings,
               const SizeVector& strides)
      : dims_(blocked_dims), order_(order), paddings_(paddings), strides_(strides), offset_(offset) {}

  const SizeVector& getBlockDims() const { return dims_; }
  const SizeVector& getOrder() const { return order_; }
  const SizeVector& getStrides() const { return strides_; }                   // in elements
  const SizeVector& getOffsetPaddingToData() const { return paddings_; }      // all 0
  size_t getOffsetPadding() const { return offset_; }                         // elements in front of the first one
  bool operator==(const BlockingDesc& other) const {
    return dims_ == other.dims_ && order_ == other.order_ && strides_ == other.strides_ && offset_ == other.offset_;
  }

 private:
  SizeVector dims_, order_, paddings_, strides_;
  size_t offset_ = 0;
};

class TensorDesc {
 public:
  TensorDesc() = default;
  TensorDesc(const Precision& precision, const SizeVector& dims, Layout layout) : precision_(precision), dims_(dims) {
    setLayout(layout);
  }
  TensorDesc(const Precision& precision, const SizeVector& dims, const BlockingDesc& blocking)
      : precision_(precision), dims_(dims), layout_(FindLayout(blocking.getOrder(), dims.size())), blocking_(blocking) {}

  const Precision& getPrecision() const { return precision_; }
  void setPrecision(const Precision& precision) { precision_ = precision; }
  const SizeVector& getDims() const { return dims_; }
  void setDims(const SizeVector& dims) {
    dims_ = dims;
    if (layout_ != BLOCKED) setLayout(layout_);
  }
  Layout getLayout() const { return layout_; }
  const BlockingDesc& getBlockingDesc() const { return blocking_; }

  void setLayout(Layout layout) {
    const size_t rank = dims_.size();
    const bool is_last = (layout == NHWC && rank == 4) || (layout == NDHWC && rank == 5);
    const SizeVector order = is_last ? details::ChannelsLast(rank) : details::RowOrder(rank);
    layout_ = layout;
    blocking_ = BlockingDesc(details::Pick(dims_, order), order);
  }
  void SetLayout(MemoryFormat format) { setLayout(static_cast<Layout>(format)); }

  // The layout of tensors of that rank whose dimensions lie in their order.
  static Layout getLayoutByDims(const SizeVector& dims) {
    switch (dims.size()) {
      case 0: return SCALAR;
      case 1: return C;
      case 2: return NC;
      case 3: return CHW;
      case 4: return NCHW;
      case 5: return NCDHW;
      default: return BLOCKED;
    }
  }

 private:
  static Layout FindLayout(const SizeVector& order, size_t rank) {
    if (order == details::RowOrder(rank)) return getLayoutByDims(order);
    if (rank == 4 && order == details::ChannelsLast(4)) return NHWC;
    return rank == 5 && order == details::ChannelsLast(5) ? NDHWC : BLOCKED;
  }

  Precision precision_;
  SizeVector dims_;
  Layout layout_ = ANY;
  BlockingDesc blocking_;
};

// A tensor's memory, which is another one in each `execute`.
class Blob {
 public:
  typedef std::shared_ptr<Blob> Ptr;
  typedef std::shared_ptr<const Blob> CPtr;

  // Turns into a pointer to whatever the kernel takes: `const float* x = blob->buffer();`.
  class Memory {
   public:
    explicit Memory(void* data) : data_(data) {}
    template <typename T>
    operator T*() const {
      return static_cast<T*>(data_);
    }
    template <typename T>
    T as() const {
      return static_cast<T>(data_);
    }

   private:
    void* data_;
  };

  explicit Blob(const TensorDesc& desc, void* data = nullptr) : desc_(desc), data_(data) {}

  Memory buffer() const { return Memory(data_); }
  Memory cbuffer() const { return Memory(data_); }
  const TensorDesc& getTensorDesc() const { return desc_; }
  const SizeVector& getDims() const { return desc_.getDims(); }
  const Precision& precision() const { return desc_.getPrecision(); }
  size_t element_size() const { return desc_.getPrecision().size(); }
  size_t byteSize() const { return size() * element_size(); }
  // How many elements it has.
  size_t size() const {
    size_t count = 1;
    for (size_t dim : desc_.getDims()) count *= dim;
    return count;
  }

 private:
  TensorDesc desc_;
  void* data_;
};

// ---- An op of the model

class Data {
 public:
  Data(const std::string& name, const TensorDesc& desc) : name_(name), desc_(desc) {}
  const std::string& getName() const { return name_; }
  const TensorDesc& getTensorDesc() const { return desc_; }
  const SizeVector& getDims() const { return desc_.getDims(); }
  const Precision& getPrecision() const { return desc_.getPrecision(); }
  Layout getLayout() const { return desc_.getLayout(); }

 private:
  std::string name_;
  TensorDesc desc_;
};

typedef std::shared_ptr<Data> DataPtr;
typedef std::weak_ptr<Data> DataWeakPtr;

// An op; a copy of it is as good, also when the first is gone.
class CNNLayer {
 public:
  typedef std::shared_ptr<CNNLayer> Ptr;

  std::string name;  // of the op's output 0: models do not name ops
  std::string type;
  Precision precision;  // of output 0
  std::vector<DataWeakPtr> insData;
  std::vector<DataPtr> outData;
  std::map<std::string, std::string> params;
  std::vector<uint8_t> options;

  // A layer can stand for a pointer to it, as the code of Inference Engine's tutorial has it.
  operator const CNNLayer*() const { return this; }
  const CNNLayer* operator->() const { return this; }

  std::string GetParamAsString(const char* key) const {
    const auto found = params.find(key);
    if (found == params.end()) THROW_IE_EXCEPTION << "layer '" << name << "' has no parameter '" << key << "'";
    return found->second;
  }
  std::string GetParamAsString(const char* key, const char* otherwise) const {
    return params.count(key) ? params.at(key) : std::string(otherwise);
  }
  float GetParamAsFloat(const char* key) const { return Parse<float>(key, GetParamAsString(key)); }
  float GetParamAsFloat(const char* key, float otherwise) const {
    return params.count(key) ? GetParamAsFloat(key) : otherwise;
  }
  std::vector<float> GetParamAsFloats(const char* key) const { return ParseAll<float>(key); }
  std::vector<float> GetParamAsFloats(const char* key, const std::vector<float>& otherwise) const {
    return params.count(key) ? GetParamAsFloats(key) : otherwise;
  }
  int GetParamAsInt(const char* key) const { return Parse<int>(key, GetParamAsString(key)); }
  int GetParamAsInt(const char* key, int otherwise) const { return params.count(key) ? GetParamAsInt(key) : otherwise; }
  std::vector<int> GetParamAsInts(const char* key) const { return ParseAll<int>(key); }
  std::vector<int> GetParamAsInts(const char* key, const std::vector<int>& otherwise) const {
    return params.count(key) ? GetParamAsInts(key) : otherwise;
  }
  unsigned int GetParamAsUInt(const char* key) const { return Parse<unsigned int>(key, GetParamAsString(key)); }
  unsigned int GetParamAsUInt(const char* key, unsigned int otherwise) const {
    return params.count(key) ? GetParamAsUInt(key) : otherwise;
  }
  bool GetParamAsBool(const char* key, bool otherwise) const {
    if (!params.count(key)) return otherwise;
    const std::string& text = params.at(key);
    return text == "true" || text == "True" || (text != "false" && text != "False" && Parse<float>(key, text) != 0);
  }

  std::shared_ptr<std::vector<DataPtr>> inputs;  // which `insData` point to

 private:
  template <typename T>
  T Parse(const char* key, const std::string& text) const {
    std::istringstream stream(text);
    stream.imbue(std::locale::classic());
    T value;
    if (!(stream >> value) || !(stream >> std::ws).eof())
      THROW_IE_EXCEPTION << "parameter '" << key << "' of layer '" << name << "' is '" << text << "'";
    return value;
  }
  template <typename T>
  std::vector<T> ParseAll(const char* key) const {
    std::vector<T> values;
    std::istringstream stream(GetParamAsString(key));
    for (std::string part; std::getline(stream, part, ',');) values.push_back(Parse<T>(key, part));
    return values;
  }
};

// ---- Configurations

// How a kernel takes one tensor.
struct DataConfig {
  TensorDesc desc;
  int inPlace = -1;       // of an output: the input whose memory it may share
  bool constant = false;  // of an input: whether it must be a constant
};

struct LayerConfig {
  bool dynBatchSupport = false;  // whether `execute` takes a smaller batch than `init` had
  std::vector<DataConfig> inConfs;
  std::vector<DataConfig> outConfs;
};

// ---- What a library implements

class ILayerImpl {
 public:
  typedef std::shared_ptr<ILayerImpl> Ptr;
  virtual ~ILayerImpl() = default;
  virtual StatusCode getSupportedConfigurations(std::vector<LayerConfig>& configurations,
                                                ResponseDesc* response) noexcept = 0;
  virtual StatusCode init(LayerConfig& configuration, ResponseDesc* response) noexcept = 0;
};

class ILayerExecImpl : public ILayerImpl {
 public:
  virtual StatusCode execute(std::vector<Blob::Ptr>& inputs, std::vector<Blob::Ptr>& outputs,
                             ResponseDesc* response) noexcept = 0;
};

class ILayerImplFactory {
 public:
  typedef std::shared_ptr<ILayerImplFactory> Ptr;
  virtual ~ILayerImplFactory() = default;
  virtual StatusCode getImplementations(std::vector<ILayerImpl::Ptr>& implementations,
                                        ResponseDesc* response) noexcept = 0;
  virtual StatusCode getShapes(const std::vector<TensorDesc>&, std::vector<TensorDesc>&, ResponseDesc*) noexcept {
    return NOT_IMPLEMENTED;
  }
};

class IExtension {
 public:
  virtual ~IExtension() = default;
  virtual void SetLogCallback(IErrorListener& listener) noexcept = 0;
  virtual void Unload() noexcept = 0;
  virtual void Release() noexcept = 0;
  virtual void GetVersion(const Version*& version) const noexcept = 0;
  // The names, and the array of them, are made with `new[]`.
  virtual StatusCode getPrimitiveTypes(char**& types, unsigned int& size, ResponseDesc* response) noexcept = 0;
  virtual StatusCode getFactoryFor(ILayerImplFactory*& factory, const CNNLayer* layer, ResponseDesc* response) = 0;
};

}  // namespace InferenceEngine

#define INFERENCE_EXTENSION_API(type) extern "C" __attribute__((visibility("default"))) type

// The library's own.
INFERENCE_EXTENSION_API(InferenceEngine::StatusCode)
CreateExtension(InferenceEngine::IExtension*& extension, InferenceEngine::ResponseDesc* response) noexcept;

// ---- From here on: what the host calls

namespace InferenceEngine {
namespace details {
namespace {

struct ElementTypePair {
  int32_t element_type;
  Precision::ePrecision precision;
};

const ElementTypePair kElementTypes[] = {
    {kLiteRtNpuAnyType, Precision::UNSPECIFIED}, {kLiteRtNpuFloat32, Precision::FP32},
    {kLiteRtNpuFloat16, Precision::FP16},        {kLiteRtNpuFloat64, Precision::FP64},
    {kLiteRtNpuInt16, Precision::I16},           {kLiteRtNpuUInt8, Precision::U8},
    {kLiteRtNpuBool, Precision::BOOL},           {kLiteRtNpuInt8, Precision::I8},
    {kLiteRtNpuUInt16, Precision::U16},          {kLiteRtNpuInt32, Precision::I32},
    {kLiteRtNpuUInt32, Precision::U32},          {kLiteRtNpuInt64, Precision::I64},
    {kLiteRtNpuUInt64, Precision::U64}};

Precision ToPrecision(int32_t element_type) {
  for (const ElementTypePair& pair : kElementTypes)
    if (pair.element_type == element_type) return pair.precision;
  return Precision::UNSPECIFIED;
}

int32_t FromPrecision(Precision precision) {
  for (const ElementTypePair& pair : kElementTypes)
    if (pair.precision == precision.getPrecVal()) return pair.element_type;
  THROW_IE_EXCEPTION << "a configuration has precision " << int(precision.getPrecVal()) << ", which no tensor has";
}

// The tensor's dimension that each of Inference Engine's is: N, C, H, W of N, H, W, C.
size_t OwnDim(size_t dim, size_t rank) {
  if (rank < 4 || dim == 0) return dim;
  return dim == 1 ? rank - 1 : dim - 1;
}

size_t EngineDim(size_t own, size_t rank) {
  if (rank < 4 || own == 0) return own;
  return own + 1 == rank ? 1 : own + 1;
}

SizeVector ToDims(const LiteRtNpuTensorType& type) {
  SizeVector dims;
  for (int32_t i = 0; i < type.rank; ++i) {
    const int64_t dim = type.dims[OwnDim(size_t(i), size_t(type.rank))];
    dims.push_back(dim < 0 ? 0 : size_t(dim));  // what the model does not know
  }
  return dims;
}

// The tensor of an op: Inference Engine's dimensions, in their order.
TensorDesc ToDesc(const LiteRtNpuTensorType& type) {
  const SizeVector dims = ToDims(type);
  return TensorDesc(ToPrecision(type.element_type), dims, BlockingDesc(dims, RowOrder(dims.size())));
}

TensorDesc ToDesc(const LiteRtNpuTensor& tensor, const LiteRtNpuLayout& layout) {
  SizeVector dims, order, strides;
  for (int32_t i = 0; i < tensor.memory_rank; ++i) {
    dims.push_back(size_t(tensor.memory_dims[i]));
    order.push_back(EngineDim(size_t(layout.order[i]), size_t(tensor.type.rank)));
    strides.push_back(size_t(tensor.strides[i]));
  }
  const BlockingDesc blocking(dims, order, size_t(tensor.offset), SizeVector(dims.size(), 0), strides);
  return TensorDesc(ToPrecision(tensor.type.element_type), ToDims(tensor.type), blocking);
}

void FromDesc(const TensorDesc& desc, LiteRtNpuTensorConfig& config) {
  config.element_type = FromPrecision(desc.getPrecision());
  if (desc.getLayout() == ANY) {
    config.layout = LiteRtNpuAnyLayout();
    return;
  }
  const BlockingDesc& blocking = desc.getBlockingDesc();
  const size_t rank = desc.getDims().size(), count = blocking.getOrder().size();
  if (count > LITERT_NPU_MAX_RANK || blocking.getBlockDims().size() != count)
    THROW_IE_EXCEPTION << "a configuration has " << blocking.getBlockDims().size() << " dimensions in the order of "
                       << count;
  config.layout = LiteRtNpuRowOrder(int32_t(count));
  std::vector<bool> is_there(rank, false);
  for (size_t i = 0; i < count; ++i) {
    const size_t dim = blocking.getOrder()[i];
    if (dim >= rank) THROW_IE_EXCEPTION << "a configuration orders dimension " << dim << " of " << rank;
    config.layout.order[i] = int32_t(OwnDim(dim, rank));
    config.layout.block[i] = is_there[dim] ? int64_t(blocking.getBlockDims()[i]) : 0;
    is_there[dim] = true;
  }
}

template <typename T>
std::string ToText(T value) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text.precision(double(float(value)) == double(value) ? 9 : 17);
  text << value;
  return text.str();
}

std::string ToText(const LiteRtNpuOption& option) {
  if (option.type == kLiteRtNpuOptionText) return std::string(static_cast<const char*>(option.values), option.count);
  std::string text;
  for (size_t i = 0; i < option.count; ++i) {
    if (i) text += ',';
    text += option.type == kLiteRtNpuOptionInt ? ToText(static_cast<const int64_t*>(option.values)[i])
                                               : ToText(static_cast<const double*>(option.values)[i]);
  }
  return text;
}

CNNLayer ToLayer(const LiteRtNpuOp& op) {
  CNNLayer layer;
  layer.name = op.name;
  layer.type = op.layer_type;
  layer.precision = ToPrecision(op.outputs[0].type.element_type);
  layer.inputs.reset(new std::vector<DataPtr>());
  for (size_t i = 0; i < op.num_inputs; ++i) {
    if (!op.inputs[i].is_present) continue;
    layer.inputs->emplace_back(new Data(layer.name + ":in" + ToText(i), ToDesc(op.inputs[i].type)));
    layer.insData.push_back(layer.inputs->back());
  }
  for (size_t i = 0; i < op.num_outputs; ++i)
    layer.outData.emplace_back(new Data(i ? layer.name + ":" + ToText(i) : layer.name, ToDesc(op.outputs[i].type)));
  for (size_t i = 0; i < op.num_options; ++i) layer.params[op.options[i].key] = ToText(op.options[i]);
  const uint8_t* bytes = static_cast<const uint8_t*>(op.options_data);
  layer.options.assign(bytes, bytes + op.options_size);
  return layer;
}

LiteRtNpuStatus Fail(LiteRtNpuMessage* message, StatusCode code, const ResponseDesc& response, const char* call) {
  const std::string said(response.msg, std::find(response.msg, response.msg + sizeof(response.msg), '\0'));
  const std::string text = std::string(call) + ": " + (said.empty() ? "status " + ToText(int(code)) : said);
  LiteRtNpuStatus status = kLiteRtNpuError;
  if (code == NOT_IMPLEMENTED) status = kLiteRtNpuNotImplemented;
  if (code == PARAMETER_MISMATCH || code == NOT_FOUND || code == OUT_OF_BOUNDS) status = kLiteRtNpuInvalidArgument;
  if (code == NOT_ALLOCATED) status = kLiteRtNpuOutOfMemory;
  return LiteRtNpuFail(message, status, text.c_str());
}

// Runs a function of ours; what it throws becomes a message.
template <typename Function>
LiteRtNpuStatus Guard(LiteRtNpuMessage* message, Function function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return LiteRtNpuFail(message, kLiteRtNpuOutOfMemory, "no memory");
  } catch (const std::exception& error) {
    return LiteRtNpuFail(message, kLiteRtNpuError, error.what());
  } catch (...) {
    return LiteRtNpuFail(message, kLiteRtNpuError, "it throws something that is no std::exception");
  }
}

class Listener : public IErrorListener {
 public:
  void Set(LiteRtNpuLogCallback callback, void* user_data) {
    callback_ = callback;
    user_data_ = user_data;
  }
  void onError(const char* message) noexcept override {
    if (callback_) callback_(user_data_, kLiteRtNpuLogError, message);
  }

 private:
  LiteRtNpuLogCallback callback_ = nullptr;
  void* user_data_ = nullptr;
};

// The extension, and what it has said of itself.
struct Library {
  IExtension* extension = nullptr;
  std::vector<std::string> types;
  std::string name = "Inference Engine extension", version = "unknown";
  Listener listener;
};

Library& TheLibrary() {
  static Library library;
  return library;
}

// What `init` makes.
struct Kernel {
  ILayerImplFactory::Ptr factory;
  ILayerImpl::Ptr implementation;
  ILayerExecImpl* executor;
  std::vector<LiteRtNpuLayout> input_layouts, output_layouts;
  std::vector<bool> has_input;
};

// The factory for an op; none, and the status, where the extension has none.
LiteRtNpuStatus FindFactory(const LiteRtNpuOp* op, ILayerImplFactory::Ptr& factory, LiteRtNpuMessage* message) {
  ResponseDesc response = {};
  ILayerImplFactory* made = nullptr;
  const CNNLayer layer = ToLayer(*op);
  const StatusCode code = TheLibrary().extension->getFactoryFor(made, &layer, &response);
  factory.reset(made);
  if (code != OK) return Fail(message, code, response, "getFactoryFor");
  return made ? kLiteRtNpuOk : LiteRtNpuFail(message, kLiteRtNpuError, "getFactoryFor: it gives no factory");
}

LiteRtNpuStatus FindImplementations(const LiteRtNpuOp* op, ILayerImplFactory::Ptr& factory,
                                    std::vector<ILayerImpl::Ptr>& found, LiteRtNpuMessage* message) {
  const LiteRtNpuStatus status = FindFactory(op, factory, message);
  if (status != kLiteRtNpuOk) return status;
  ResponseDesc response = {};
  const StatusCode code = factory->getImplementations(found, &response);
  return code == OK ? kLiteRtNpuOk : Fail(message, code, response, "getImplementations");
}

LiteRtNpuStatus FindConfigurations(const LiteRtNpuOp* op, size_t implementation, std::vector<LayerConfig>& found,
                                   LiteRtNpuMessage* message) {
  ILayerImplFactory::Ptr factory;
  std::vector<ILayerImpl::Ptr> implementations;
  const LiteRtNpuStatus status = FindImplementations(op, factory, implementations, message);
  if (status != kLiteRtNpuOk) return status;
  if (implementation >= implementations.size())
    return LiteRtNpuFail(message, kLiteRtNpuInvalidArgument, "getImplementations: there are fewer than before");
  ResponseDesc response = {};
  const StatusCode code = implementations[implementation]->getSupportedConfigurations(found, &response);
  return code == OK ? kLiteRtNpuOk : Fail(message, code, response, "getSupportedConfigurations");
}

// Writes what a layer says of its tensors; inputs that are left out have none.
void FromConfig(const LayerConfig& from, const LiteRtNpuOp& op, LiteRtNpuConfig* config) {
  size_t next = 0;
  for (size_t i = 0; i < op.num_inputs; ++i) {
    if (!op.inputs[i].is_present) continue;
    if (next < from.inConfs.size()) {
      FromDesc(from.inConfs[next].desc, config->inputs[i]);
      config->inputs[i].needs_constant = from.inConfs[next].constant;
    }
    ++next;
  }
  if (next != from.inConfs.size() || op.num_outputs != from.outConfs.size())
    THROW_IE_EXCEPTION << "a configuration has " << from.inConfs.size() << " inputs and " << from.outConfs.size()
                       << " outputs, the op " << next << " and " << op.num_outputs;
  std::vector<int32_t> present;
  for (size_t i = 0; i < op.num_inputs; ++i)
    if (op.inputs[i].is_present) present.push_back(int32_t(i));
  for (size_t i = 0; i < op.num_outputs; ++i) {
    const DataConfig& output = from.outConfs[i];
    FromDesc(output.desc, config->outputs[i]);
    const bool is_known = output.inPlace >= 0 && size_t(output.inPlace) < present.size();
    config->outputs[i].in_place = is_known ? present[size_t(output.inPlace)] : output.inPlace;
  }
  config->dynamic_batch = from.dynBatchSupport;
}

LayerConfig ToConfig(const LiteRtNpuOp& op, const LiteRtNpuConfig& config, const LiteRtNpuTensor* inputs,
                     const LiteRtNpuTensor* outputs) {
  LayerConfig to;
  std::vector<int> places(op.num_inputs, -1);
  for (size_t i = 0; i < op.num_inputs; ++i) {
    if (!op.inputs[i].is_present) continue;
    places[i] = int(to.inConfs.size());
    to.inConfs.emplace_back();
    to.inConfs.back().desc = ToDesc(inputs[i], config.inputs[i].layout);
    to.inConfs.back().constant = config.inputs[i].needs_constant;
  }
  for (size_t i = 0; i < op.num_outputs; ++i) {
    to.outConfs.emplace_back();
    to.outConfs.back().desc = ToDesc(outputs[i], config.outputs[i].layout);
    const int32_t in_place = config.outputs[i].in_place;
    to.outConfs.back().inPlace = in_place < 0 ? -1 : places[size_t(in_place)];
  }
  to.dynBatchSupport = config.dynamic_batch;
  return to;
}

// Fills in what the model leaves open of a shape: as the first input has it that agrees in the rest.
bool TakeShape(const LiteRtNpuOp& op, LiteRtNpuTensorType& shape) {
  const auto is_open = [](int64_t dim) { return dim < 0; };
  if (std::none_of(shape.dims, shape.dims + shape.rank, is_open)) return true;
  const auto agrees = [](int64_t dim, int64_t known) { return dim < 0 || dim == known; };
  for (size_t i = 0; i < op.num_inputs; ++i) {
    const LiteRtNpuTensorType& type = op.inputs[i].type;
    if (!op.inputs[i].is_present || type.rank != shape.rank) continue;
    if (!std::equal(shape.dims, shape.dims + shape.rank, type.dims, agrees)) continue;
    std::copy(type.dims, type.dims + type.rank, shape.dims);
    return true;
  }
  return false;
}

// ---- The table's functions

void SetLogCallback(LiteRtNpuLogCallback callback, void* user_data) {
  Library& library = TheLibrary();
  library.listener.Set(callback, user_data);
  library.extension->SetLogCallback(library.listener);
}

size_t CountTypes() { return TheLibrary().types.size(); }

const char* GetType(size_t index) { return TheLibrary().types[index].c_str(); }

LiteRtNpuStatus GetOutputShapes(const LiteRtNpuOp* op, LiteRtNpuTensorType* shapes, LiteRtNpuMessage* message) {
  return Guard(message, [&]() -> LiteRtNpuStatus {
    ILayerImplFactory::Ptr factory;
    const LiteRtNpuStatus status = FindFactory(op, factory, message);
    if (status != kLiteRtNpuOk) return status;
    std::vector<TensorDesc> inputs, outputs;
    for (size_t i = 0; i < op->num_inputs; ++i)
      if (op->inputs[i].is_present) inputs.push_back(ToDesc(op->inputs[i].type));
    ResponseDesc response = {};
    const StatusCode code = factory->getShapes(inputs, outputs, &response);
    if (code == NOT_IMPLEMENTED) {
      for (size_t i = 0; i < op->num_outputs; ++i)
        if (!TakeShape(*op, shapes[i]))
          return LiteRtNpuFail(message, kLiteRtNpuError, "getShapes: not implemented, and no input has such a shape");
      return kLiteRtNpuOk;
    }
    if (code != OK) return Fail(message, code, response, "getShapes");
    if (outputs.size() != op->num_outputs)
      THROW_IE_EXCEPTION << "getShapes: " << outputs.size() << " outputs, the op has " << op->num_outputs;
    for (size_t i = 0; i < op->num_outputs; ++i) {
      const SizeVector& dims = outputs[i].getDims();
      if (dims.size() != size_t(shapes[i].rank))
        THROW_IE_EXCEPTION << "getShapes: output " << i << " has " << dims.size() << " dimensions, the model says "
                           << shapes[i].rank;
      for (size_t d = 0; d < dims.size(); ++d) shapes[i].dims[OwnDim(d, dims.size())] = int64_t(dims[d]);
    }
    return kLiteRtNpuOk;
  });
}

size_t CountImplementations(const LiteRtNpuOp* op, LiteRtNpuMessage* message) {
  size_t count = 0;
  Guard(message, [&]() -> LiteRtNpuStatus {
    ILayerImplFactory::Ptr factory;
    std::vector<ILayerImpl::Ptr> found;
    const LiteRtNpuStatus status = FindImplementations(op, factory, found, message);
    if (status != kLiteRtNpuOk) return status;
    count = found.size();
    return count ? kLiteRtNpuOk : LiteRtNpuFail(message, kLiteRtNpuError, "getImplementations: it gives none");
  });
  return count;
}

const char* GetImplementationName(const LiteRtNpuOp* op, size_t implementation) {
  static const char* const names[] = {"implementation 1", "implementation 2", "implementation 3", "implementation 4"};
  (void)op;
  return implementation < 4 ? names[implementation] : "another implementation";
}

size_t CountConfigurations(const LiteRtNpuOp* op, size_t implementation) {
  std::vector<LayerConfig> found;
  const LiteRtNpuStatus status =
      Guard(nullptr, [&]() { return FindConfigurations(op, implementation, found, nullptr); });
  return status == kLiteRtNpuOk ? found.size() : 1;  // which `GetConfiguration` says the reason of
}

LiteRtNpuStatus GetConfiguration(const LiteRtNpuOp* op, size_t implementation, size_t index, LiteRtNpuConfig* config,
                                 LiteRtNpuMessage* message) {
  return Guard(message, [&]() -> LiteRtNpuStatus {
    std::vector<LayerConfig> found;
    const LiteRtNpuStatus status = FindConfigurations(op, implementation, found, message);
    if (status != kLiteRtNpuOk) return status;
    if (index >= found.size())
      return LiteRtNpuFail(message, kLiteRtNpuError, "getSupportedConfigurations: there are fewer than before");
    FromConfig(found[index], *op, config);
    return kLiteRtNpuOk;
  });
}

LiteRtNpuStatus Init(const LiteRtNpuOp* op, size_t implementation, LiteRtNpuConfig* config,
                     const LiteRtNpuTensor* inputs, const LiteRtNpuTensor* outputs, void** kernel,
                     LiteRtNpuMessage* message) {
  return Guard(message, [&]() -> LiteRtNpuStatus {
    std::unique_ptr<Kernel> made(new Kernel());
    std::vector<ILayerImpl::Ptr> found;
    const LiteRtNpuStatus status = FindImplementations(op, made->factory, found, message);
    if (status != kLiteRtNpuOk) return status;
    if (implementation >= found.size())
      return LiteRtNpuFail(message, kLiteRtNpuInvalidArgument, "getImplementations: there are fewer than before");
    made->implementation = found[implementation];
    made->executor = dynamic_cast<ILayerExecImpl*>(made->implementation.get());
    if (!made->executor)
      return LiteRtNpuFail(message, kLiteRtNpuInvalidArgument, "the implementation is no ILayerExecImpl");
    LayerConfig chosen = ToConfig(*op, *config, inputs, outputs);
    for (size_t i = 0; i < op->num_inputs; ++i) {
      made->has_input.push_back(op->inputs[i].is_present);
      made->input_layouts.push_back(config->inputs[i].layout);
    }
    for (size_t i = 0; i < op->num_outputs; ++i) made->output_layouts.push_back(config->outputs[i].layout);
    ResponseDesc response = {};
    const StatusCode code = made->implementation->init(chosen, &response);
    if (code == NOT_IMPLEMENTED) FromConfig(chosen, *op, config);
    if (code != OK) return Fail(message, code, response, "init");
    *kernel = made.release();
    return kLiteRtNpuOk;
  });
}

LiteRtNpuStatus Execute(void* kernel, const LiteRtNpuTensor* inputs, const LiteRtNpuTensor* outputs,
                        LiteRtNpuMessage* message) {
  return Guard(message, [&]() -> LiteRtNpuStatus {
    const Kernel& made = *static_cast<const Kernel*>(kernel);
    std::vector<Blob::Ptr> read, written;
    for (size_t i = 0; i < made.has_input.size(); ++i)
      if (made.has_input[i]) read.emplace_back(new Blob(ToDesc(inputs[i], made.input_layouts[i]), inputs[i].data));
    for (size_t i = 0; i < made.output_layouts.size(); ++i)
      written.emplace_back(new Blob(ToDesc(outputs[i], made.output_layouts[i]), outputs[i].data));
    ResponseDesc response = {};
    const StatusCode code = made.executor->execute(read, written, &response);
    return code == OK ? kLiteRtNpuOk : Fail(message, code, response, "execute");
  });
}

void Destroy(void* kernel) { delete static_cast<Kernel*>(kernel); }

void ReleaseLibrary() {
  IExtension* const extension = TheLibrary().extension;
  TheLibrary().extension = nullptr;
  if (!extension) return;
  extension->Unload();
  extension->Release();
}

// Makes the extension, and asks it what it is and has. Where that fails, says why on standard error.
bool OpenLibrary() {
  Library& library = TheLibrary();
  if (library.extension) return true;
  ResponseDesc response = {};
  IExtension* extension = nullptr;
  const StatusCode code = CreateExtension(extension, &response);
  if (code != OK || !extension) {
    std::fprintf(stderr, "CreateExtension: status %d %.255s\n", int(code), response.msg);
    return false;
  }
  const Version* version = nullptr;
  extension->GetVersion(version);
  if (version && version->description) library.name = version->description;
  if (version && version->buildNumber) library.version = version->buildNumber;
  char** types = nullptr;
  unsigned int size = 0;
  if (extension->getPrimitiveTypes(types, size, &response) != OK) size = 0;
  library.types.assign(types, types + size);
  for (unsigned int i = 0; i < size; ++i) delete[] types[i];
  delete[] types;
  library.extension = extension;
  return true;
}

const LiteRtNpuCpuLayerLibrary* GetTable(uint32_t host_version) {
  if (host_version != LITERT_NPU_CPU_LAYER_VERSION) return nullptr;
  try {
    if (!OpenLibrary()) return nullptr;
  } catch (...) {
    return nullptr;
  }
  static LiteRtNpuCpuLayerLibrary table;
  table = {LITERT_NPU_CPU_LAYER_VERSION, sizeof(table), TheLibrary().name.c_str(), TheLibrary().version.c_str(),
           SetLogCallback, CountTypes, GetType, GetOutputShapes, CountImplementations, GetImplementationName,
           CountConfigurations, GetConfiguration, Init, Execute, Destroy, ReleaseLibrary};
  return &table;
}

}  // namespace
}  // namespace details
}  // namespace InferenceEngine

// In each file of the library that includes this; one of them counts.
LITERT_NPU_EXPORT __attribute__((weak)) const LiteRtNpuCpuLayerLibrary* litert_npu_get_cpu_layer_library(
    uint32_t host_version) {
  return InferenceEngine::details::GetTable(host_version);
}

#endif  // LITERT_NPU_INFERENCE_ENGINE_HPP_
