// Layers that a test asks for what Inference Engine's classes tell them; see test_inference_engine.py.
#include <litert_npu/inference_engine.hpp>

#include <cstdlib>
#include <cstring>
#include <fstream>

using namespace InferenceEngine;

static void Tell(const char* what) { std::ofstream(getenv("TOLD"), std::ios::app) << what << std::endl; }

// The index of each element's channel, or its value times `slope`, or the input twice, one below the other.
class Layer : public ILayerExecImpl {
 public:
  explicit Layer(const CNNLayer& layer, bool is_blocked) : layer_(layer), is_blocked_(is_blocked) {}
  StatusCode getSupportedConfigurations(std::vector<LayerConfig>& found, ResponseDesc* response) noexcept override try {
    if (layer_.type == "Broken") THROW_IE_EXCEPTION << "no configuration for " << layer_.insData.size() << " inputs";
    LayerConfig config;
    for (const DataWeakPtr& data : layer_.insData) config.inConfs.push_back(Take(data.lock()->getTensorDesc()));
    for (const DataPtr& data : layer_.outData) config.outConfs.push_back(Take(data->getTensorDesc()));
    if (layer_.type == "Scale") config.outConfs[0].inPlace = 0;
    found.push_back(config);
    return OK;
  } catch (const std::exception& error) {
    strncpy(response->msg, error.what(), sizeof(response->msg) - 1);
    return GENERAL_ERROR;
  }
  StatusCode init(LayerConfig& config, ResponseDesc*) noexcept override {
    if (layer_.type == "Channel" && config.outConfs[0].desc.getLayout() == NCHW) {  // it likes another one
      config.outConfs[0].desc.SetLayout(MemoryFormat::NHWC);
      return NOT_IMPLEMENTED;
    }
    return OK;
  }
  StatusCode execute(std::vector<Blob::Ptr>& inputs, std::vector<Blob::Ptr>& outputs,
                     ResponseDesc* response) noexcept override {
    const float* x = inputs[0]->cbuffer().as<const float*>();
    float* y = outputs[0]->buffer();
    const float slope = layer_.GetParamAsFloat("slope");
    if (slope < 0) return strcpy(response->msg, "a slope below 0"), PARAMETER_MISMATCH;
    if (layer_.type == "Scale") {
      size_t count = 1;
      for (size_t dim : inputs[0]->getTensorDesc().getBlockingDesc().getBlockDims()) count *= dim;
      for (size_t i = 0; i < count; ++i) y[i] = slope * x[i];
      return OK;
    }
    const SizeVector dims = outputs[0]->getTensorDesc().getDims();
    for (size_t n = 0; n < dims[0]; ++n) for (size_t c = 0; c < dims[1]; ++c)
      for (size_t h = 0; h < dims[2]; ++h) for (size_t w = 0; w < dims[3]; ++w) {
        float value = float(c);
        if (layer_.type == "Twice") value = x[Place(*inputs[0], {n, c, h % inputs[0]->getDims()[2], w})];
        y[Place(*outputs[0], {n, c, h, w})] = value;
      }
    return OK;
  }

 private:
  DataConfig Take(const TensorDesc& given) const {
    DataConfig config;
    SizeVector dims = given.getDims(), order = {0, 1, 2, 3};
    if (is_blocked_) {
      dims[1] = (dims[1] + 7) / 8;
      dims.push_back(8);
      order.push_back(1);
    }
    config.desc = TensorDesc(given.getPrecision(), given.getDims(), {dims, order});
    if (layer_.type == "Scale") config.desc.SetLayout(MKLDNNPlugin::MemoryFormat::any);
    return config;
  }
  static size_t Place(const Blob& blob, const SizeVector& index) {
    const BlockingDesc& blocking = blob.getTensorDesc().getBlockingDesc();
    SizeVector rest = index;
    size_t place = blocking.getOffsetPadding();
    for (size_t i = blocking.getOrder().size(); i-- > 0;) {
      const size_t dim = blocking.getOrder()[i], size = blocking.getBlockDims()[i];
      place += rest[dim] % size * blocking.getStrides()[i];
      rest[dim] /= size;
    }
    return place;
  }
  CNNLayer layer_;
  bool is_blocked_;
};

class Factory : public ILayerImplFactory {
 public:
  explicit Factory(const CNNLayer& layer) : layer_(layer) {}
  StatusCode getShapes(const std::vector<TensorDesc>& in, std::vector<TensorDesc>& out, ResponseDesc*) noexcept override {
    if (layer_.type != "Twice") return NOT_IMPLEMENTED;
    SizeVector dims = in[0].getDims();
    dims[2] *= 2;
    out.push_back(TensorDesc(in[0].getPrecision(), dims, NCHW));
    return OK;
  }
  StatusCode getImplementations(std::vector<ILayerImpl::Ptr>& found, ResponseDesc*) noexcept override {
    const bool has_blocks = layer_.GetParamAsBool("blocks", false);
    found.emplace_back(new Layer(layer_, has_blocks));
    return OK;
  }
  CNNLayer layer_;
};

class Extension : public IExtension {
 public:
  void SetLogCallback(IErrorListener& listener) noexcept override { listener.onError("it listens"); }
  void Unload() noexcept override { Tell("Unload"); }
  void Release() noexcept override {
    Tell("Release");
    delete this;
  }
  void GetVersion(const Version*& version) const noexcept override {
    static const Version own = {{1, 0}, "2.5", "several"};
    version = &own;
  }
  StatusCode getPrimitiveTypes(char**& types, unsigned int& size, ResponseDesc*) noexcept override {
    const char* const names[] = {"Channel", "Scale", "Twice", "Broken"};
    size = 4;
    types = new char*[size];
    for (unsigned int i = 0; i < size; ++i) types[i] = strcpy(new char[strlen(names[i]) + 1], names[i]);
    return OK;
  }
  StatusCode getFactoryFor(ILayerImplFactory*& factory, const CNNLayer* layer, ResponseDesc*) noexcept override {
    const std::vector<int> sizes = layer->GetParamAsInts("sizes");
    if (sizes != std::vector<int>{3, 1} || layer->GetParamAsString("slope") == "0") return NOT_FOUND;
    factory = new Factory(*layer);
    return OK;
  }
};

INFERENCE_EXTENSION_API(StatusCode) CreateExtension(IExtension*& extension, ResponseDesc* response) noexcept {
  strcpy(response->msg, "it may not");
  if (getenv("REFUSES")) return GENERAL_ERROR;
  extension = new Extension();
  return OK;
}
