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
  func.func @Partition_0(%x: memref<1x4x6x8xf32>, %sum: memref<1x8xf32>) {
    %wf = IERT.Constant memref<8xf32> = dense_resource<constant_0>
    %0 = memref.alloc() : memref<1x4x6x8xf32, #NCHW>
    IERT.Reorder(%x, %0)
    %y = memref.alloc() : memref<1x4x6x8xf32, #NCHW>
    func.call @Scale(%0, %wf, %y) {name = "y"} : (memref<1x4x6x8xf32, #NCHW>, memref<8xf32>, memref<1x4x6x8xf32, #NCHW>) -> ()
    memref.dealloc %0 : memref<1x4x6x8xf32, #NCHW>
    %z = memref.alloc() : memref<1x4x6x8xf32, #NCHW>
    func.call @Scale(%y, %wf, %z) {name = "z"} : (memref<1x4x6x8xf32, #NCHW>, memref<8xf32>, memref<1x4x6x8xf32, #NCHW>) -> ()
    %1 = memref.alloc() : memref<1x4x6x8xf16, #NCHW>
    IERT.Convert(%y, %1)
    memref.dealloc %y : memref<1x4x6x8xf32, #NCHW>
    %2 = memref.alloc() : memref<1x4x6x8xf16>
    IERT.Reorder(%1, %2)
    memref.dealloc %1 : memref<1x4x6x8xf16, #NCHW>
    %3 = memref.alloc() : memref<1x4x6x8xf32>
    IERT.Reorder(%z, %3)
    memref.dealloc %z : memref<1x4x6x8xf32, #NCHW>
    %4 = memref.alloc() : memref<16xf32>
    func.call @Sum(%2, %3, %sum, %4) {name = "sum"} : (memref<1x4x6x8xf16>, memref<1x4x6x8xf32>, memref<1x8xf32>, memref<16xf32>) -> ()
    memref.dealloc %4 : memref<16xf32>
    memref.dealloc %2 : memref<1x4x6x8xf16>
    memref.dealloc %3 : memref<1x4x6x8xf32>
    func.return
  }
}
