module attributes {tfl.schema_version = 3, tfl.description = "MLIR Converted."} {
  // subgraph 0
  func.func @main(%arg0: tensor<1xf32> loc("x")) -> tensor<1xf32> {
    %0 = "tfl.custom"(%arg0) {custom_code = "Sinh", custom_option = #tfl.flexbuffer<{T = 0}>} : (tensor<1xf32>) -> tensor<1xf32> loc("Identity")
    return %0 : tensor<1xf32>
  }
  "tfl.metadata"() {name = "min_runtime_version", value = "0x00000000000000000000000000000000"}
}
