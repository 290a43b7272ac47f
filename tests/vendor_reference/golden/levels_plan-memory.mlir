#NCHW = affine_map<(n, h, w, c) -> (n, c, h, w)>
#A = affine_map<(a) -> (a)>
#NHWC = affine_map<(n, h, w, c) -> (n, h, w, c)>
#AB = affine_map<(a, b) -> (a, b)>

builtin.module attributes {VPUIP.soc = "EMU8"} {
  func.func private @Scale(memref<1x4x6x8xf32, #NCHW>, memref<8xf32>, memref<1x4x6x8xf32, #NCHW>) -> () attributes {
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
  func.func private @Sum(memref<1x4x6x8xf16>, memref<1x4x6x8xf32>, memref<1x8xf32>, memref<16xf32>) -> () attributes {
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
  func.func @Partition_0(%x: memref<1x4x6x8xf32>, %sum: memref<1x8xf32>) attributes {
    VPUIP.cmx_size = 1920 : i64,
    VPUIP.cmx_bound = 1920 : i64
  } {
    %wf = VPUIP.Constant memref<8xf32> = dense_resource<constant_0>
    %0 = VPUIP.DeclareBuffer @CMX[0] : memref<1x4x6x8xf32, #NCHW, @CMX>
    VPUIP.Command @Reorder (%x) -> (%0)
    %y = VPUIP.DeclareBuffer @CMX[768] : memref<1x4x6x8xf32, #NCHW, @CMX>
    VPUIP.OCL @Scale (%0, %wf) -> (%y) {
      global_size = array<i64: 6, 4, 8>,
      num_shaves = 2 : i64,
      name = "y"
    }
    %z = VPUIP.DeclareBuffer @CMX[0] : memref<1x4x6x8xf32, #NCHW, @CMX>
    VPUIP.OCL @Scale (%y, %wf) -> (%z) {
      global_size = array<i64: 6, 4, 8>,
      num_shaves = 2 : i64,
      name = "z"
    }
    %1 = VPUIP.DeclareBuffer @CMX[1536] : memref<1x4x6x8xf16, #NCHW, @CMX>
    VPUIP.Command @Convert (%y) -> (%1)
    %2 = VPUIP.DeclareBuffer @CMX[768] : memref<1x4x6x8xf16, @CMX>
    VPUIP.Command @Reorder_1 (%1) -> (%2)
    %3 = VPUIP.DeclareBuffer @CMX[1152] : memref<1x4x6x8xf32, @CMX>
    VPUIP.Command @Reorder_2 (%z) -> (%3)
    %4 = VPUIP.DeclareBuffer @CMX[0] : memref<16xf32, @CMX>
    VPUIP.OCL @Sum (%2, %3) -> (%sum) scratch (%4) {
      global_size = array<i64: 8>,
      num_shaves = 8 : i64,
      name = "sum"
    }
    func.return
  }
}
