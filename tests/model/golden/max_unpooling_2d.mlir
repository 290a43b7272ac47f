module attributes {tfl.schema_version = 3, tfl.description = "MLIR Converted."} {
  // subgraph 0
  func.func @main(%arg0: tensor<2x2x4x2xf32> loc("arg0"), %arg1: tensor<2x2x4x2xi32> loc("arg1")) -> tensor<2x4x11x2xf32> {
    %0 = "tfl.custom"(%arg0, %arg1) {custom_code = "LiteRtMaxUnpooling2D", custom_option = "0x02000000030000000200000002000000020000000000000000000000000000000000000000000000"} : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xi32>) -> tensor<2x4x11x2xf32> loc("tfl.custom")
    return %0 : tensor<2x4x11x2xf32>
  }
  "tfl.metadata"() {name = "min_runtime_version", value = "0x00000000000000000000000000000000"}
}
