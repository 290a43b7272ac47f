#NCHW = affine_map<(n, h, w, c) -> (n, c, h, w)>
#A = affine_map<(a) -> (a)>
#NHWC = affine_map<(n, h, w, c) -> (n, h, w, c)>
#AB = affine_map<(a, b) -> (a, b)>

builtin.module attributes {VPUIP.soc = "EMU8"} {
  func.func private @Scale(tensor<1x4x6x8xf32, #NCHW>, tensor<8xf32>) -> tensor<1x4x6x8xf32, #NCHW> attributes {
    IE.input_layouts = [#NCHW, #A],
    IE.output_layouts = [#NCHW],
    IE.input_precisions = [f32, f32],
    IE.output_precisions = [f32],
    VPUIP.task = "OCL",
    VPUIP.kernel = {
      title = "Scale",
      arguments = [{input = 0 : i64, format = "BFYX"}, {input = 1 : i64}, {
        output = 0 : i64,
        format = "BFYX"
      }],
      where = "k.cl",
      op_name = "Scale",
      global_size = ["X", "Y", "B*F"],
      sources = [["Scale", "k.cl", "d07f2bb3c509e5750d047a758889b792c490cfad5ad25b8685284cf4c2edba08"]],
      defines = [["PARAM_alpha", "0.5f"]]
    },
    VPUIP.max_num_shaves = 2 : i64
  }
  func.func private @Sum(tensor<1x4x6x8xf16>, tensor<1x4x6x8xf32>) -> tensor<1x8xf32> attributes {
    IE.input_layouts = [#NHWC, #NHWC],
    IE.output_layouts = [#AB],
    IE.input_precisions = [f16, f32],
    IE.output_precisions = [f32],
    VPUIP.task = "OCL",
    VPUIP.kernel = {
      title = "Sum",
      arguments = [{input = 0 : i64}, {input = 1 : i64}, {internal = "F*2", type = f32}, {
        constant = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
      }, {output = 0 : i64}],
      where = "k.cl",
      op_name = "Sum",
      sources = [["Sum", "k.cl", "d07f2bb3c509e5750d047a758889b792c490cfad5ad25b8685284cf4c2edba08"]]
    }
  }
  func.func @Partition_0(%x: tensor<1x4x6x8xf32>) -> tensor<1x8xf32> {
    %wf = IE.Constant tensor<8xf32> = dense_resource<constant_0>
    %0 = IE.Reorder(%x) : tensor<1x4x6x8xf32> -> tensor<1x4x6x8xf32, #NCHW>
    %y = func.call @Scale(%0, %wf) {name = "y"} : (tensor<1x4x6x8xf32, #NCHW>, tensor<8xf32>) -> tensor<1x4x6x8xf32, #NCHW>
    %z = func.call @Scale(%y, %wf) {name = "z"} : (tensor<1x4x6x8xf32, #NCHW>, tensor<8xf32>) -> tensor<1x4x6x8xf32, #NCHW>
    %1 = IE.Convert(%y) : tensor<1x4x6x8xf32, #NCHW> -> tensor<1x4x6x8xf16, #NCHW>
    %2 = IE.Reorder(%1) : tensor<1x4x6x8xf16, #NCHW> -> tensor<1x4x6x8xf16>
    %3 = IE.Reorder(%z) : tensor<1x4x6x8xf32, #NCHW> -> tensor<1x4x6x8xf32>
    %sum = func.call @Sum(%2, %3) {name = "sum"} : (tensor<1x4x6x8xf16>, tensor<1x4x6x8xf32>) -> tensor<1x8xf32>
    func.return %sum : tensor<1x8xf32>
  }
}
