module attributes {tfl.schema_version = 3, tfl.description = "All sorts, \22quoted\22"} {
  // subgraph 0
  func.func @main(%arg0: tensor<?x8x8x4xf32, #tfl.shape<1x8x8x4>> loc("x")) -> tensor<1x8x8x8xf32> attributes {signatures = {serving_default = {inputs = {image = %arg0}, outputs = {mask = %1}}, "again, with spaces" = {inputs = {x = %arg0}, outputs = {z = %1}}}} {
    %cst0 = "tfl.pseudo_const"() {value = #tfl.bytes<1152, sha256:ba7eef96a646a3a7>} : () -> tensor<8x3x3x4xf32> loc("w")
    %cst1 = "tfl.pseudo_const"() {value = dense<[1, -1]>} : () -> tensor<2xi32> loc("shape")
    %cst2 = "tfl.pseudo_const"() {value = dense<0.1>} : () -> tensor<f32> loc("scale")
    %cst3 = "tfl.pseudo_const"() {value = dense<[0.5, -2.0]>} : () -> tensor<2xf16> loc("half")
    %cst4 = "tfl.pseudo_const"() {value = dense<[1.0, 1.0, 1.0, 1.0]>} : () -> tensor<4xf16> loc("scales")
    %cst5 = "tfl.pseudo_const"() {value = #tfl.bytes<64, sha256:c68fcdd377d83f0c>} : () -> tensor<4x32x!quant.blockwise<i4:f32, scales = "scales", block_size = 32>> loc("blocks")
    %cst6 = "tfl.pseudo_const"() {value = #tfl.bytes<2, sha256:a12871fee210fb86>} : () -> tensor<4xi8, #tfl.sparsity<{traversal_order = [0]}>> loc("sparse")
    %var0 = "tfl.variable"() : () -> tensor<4xf32> loc("state")
    %unset0 = "tfl.unset"() : () -> tensor<4x!quant.uniform<i8:f32, 0.5:-3>, #tfl.range<[-62.5]:[65.0]>> loc("q")
    %unset1 = "tfl.unset"() : () -> tensor<2x3x!quant.uniform<u8:f32:0, {0.25, 0.1:7}>> loc("channels")
    %unset2 = "tfl.unset"() : () -> tensor<9x3x!quant.uniform<i8:f32:0, #tfl.numbers<9, sha256:f1d17c7cd6f7266a>>> loc("many")
    %unset3 = "tfl.unset"() : () -> tensor<1xf32, #tfl.range<[-1.0]:[1.0]>> loc("range")
    %0 = "tfl.conv_2d"(%arg0, %cst0, none) {padding = "SAME", stride_w = 1, stride_h = 1, fused_activation_function = "RELU6", dilation_w_factor = 1, dilation_h_factor = 1, quantized_bias_type = "FLOAT32", version = 2} : (tensor<?x8x8x4xf32, #tfl.shape<1x8x8x4>>, tensor<8x3x3x4xf32>, none) -> tensor<1x8x8x8xf32> loc("y")
    %1 = "tfl.custom"(%0) {custom_code = "MyOp", custom_option = #tfl.flexbuffer<{alpha = 0.1, name = "\C3\A4", nested = {on = true}, taps = [1, 2, 3]}>} : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32> loc("z")
    %2, %3 = "tfl.custom"(%1) {custom_code = "Raw", custom_option = "0x0100000002000000"} : (tensor<1x8x8x8xf32>) -> (tensor<4xf32>, tensor<i32>) loc("r", "s")
    return %1 : tensor<1x8x8x8xf32>
  }
  // subgraph 1
  func.func @"not a symbol"(%arg0: tensor<!tf_type.string> loc("a\0A\00\FF")) -> tensor<!tf_type.string> {
    return %arg0 : tensor<!tf_type.string>
  }
  "tfl.metadata"() {name = "min_runtime_version", value = "1.5.0\00\00\00\00\00\00\00\00\00\00\00"}
  "tfl.metadata"() {name = "large", value = #tfl.bytes<256, sha256:40aff2e9d2d8922e>}
}
