#NCHW = affine_map<(n, h, w, c) -> (n, c, h, w)>
#text = "typedef uint8 __attribute__((aligned(sizeof(uint)))) reorder_92018019_uint;\0A\0A// `geometry` has the numbers of columns and rows, and how many of them a work item moves; the step from a column\0A// to the next where it reads, from a row to the next where it writes, and the first elements of both; the number\0A// of outer loops, and for each its size, and its steps where it reads and writes.\0A__kernel void reorder_92018019(const __global uint* from, __global uint* to, const __global uint* geometry) {\0A  const size_t from_step = geometry[4], to_step = geometry[5];\0A  from += geometry[6];\0A  to += geometry[7];\0A  size_t rest = get_global_id(2);\0A  for (size_t loop = geometry[8]; loop > 0; --loop) {\0A    const __global uint* const outer = geometry + 6 + 3 * loop;\0A    from += rest % outer[0] * outer[1];\0A    to += rest % outer[0] * outer[2];\0A    rest /= outer[0];\0A  }\0A  const size_t first_column = get_global_id(0) * geometry[2], first_row = get_global_id(1) * geometry[3];\0A  const size_t columns = min(first_column + geometry[2], (size_t)geometry[0]);\0A  const size_t rows = min(first_row + geometry[3], (size_t)geometry[1]);\0A  size_t row = first_row;\0A  for (; row + 8 <= rows; row += 8) {\0A    size_t column = first_column;\0A    for (; column + 8 <= columns; column += 8) {\0A      const __global uint* const in = from + column * from_step + row;\0A      __global uint* const out = to + row * to_step + column;\0A      const uint8 c0 = *(const __global reorder_92018019_uint*)(in);\0A      const uint8 c1 = *(const __global reorder_92018019_uint*)(in + 1 * from_step);\0A      const uint8 c2 = *(const __global reorder_92018019_uint*)(in + 2 * from_step);\0A      const uint8 c3 = *(const __global reorder_92018019_uint*)(in + 3 * from_step);\0A      const uint8 c4 = *(const __global reorder_92018019_uint*)(in + 4 * from_step);\0A      const uint8 c5 = *(const __global reorder_92018019_uint*)(in + 5 * from_step);\0A      const uint8 c6 = *(const __global reorder_92018019_uint*)(in + 6 * from_step);\0A      const uint8 c7 = *(const __global reorder_92018019_uint*)(in + 7 * from_step);\0A      *(__global reorder_92018019_uint*)(out) = (uint8)(c0.s0, c1.s0, c2.s0, c3.s0, c4.s0, c5.s0, c6.s0, c7.s0);\0A      *(__global reorder_92018019_uint*)(out + 1 * to_step) = (uint8)(c0.s1, c1.s1, c2.s1, c3.s1, c4.s1, c5.s1, c6.s1, c7.s1);\0A      *(__global reorder_92018019_uint*)(out + 2 * to_step) = (uint8)(c0.s2, c1.s2, c2.s2, c3.s2, c4.s2, c5.s2, c6.s2, c7.s2);\0A      *(__global reorder_92018019_uint*)(out + 3 * to_step) = (uint8)(c0.s3, c1.s3, c2.s3, c3.s3, c4.s3, c5.s3, c6.s3, c7.s3);\0A      *(__global reorder_92018019_uint*)(out + 4 * to_step) = (uint8)(c0.s4, c1.s4, c2.s4, c3.s4, c4.s4, c5.s4, c6.s4, c7.s4);\0A      *(__global reorder_92018019_uint*)(out + 5 * to_step) = (uint8)(c0.s5, c1.s5, c2.s5, c3.s5, c4.s5, c5.s5, c6.s5, c7.s5);\0A      *(__global reorder_92018019_uint*)(out + 6 * to_step) = (uint8)(c0.s6, c1.s6, c2.s6, c3.s6, c4.s6, c5.s6, c6.s6, c7.s6);\0A      *(__global reorder_92018019_uint*)(out + 7 * to_step) = (uint8)(c0.s7, c1.s7, c2.s7, c3.s7, c4.s7, c5.s7, c6.s7, c7.s7);\0A    }\0A    for (; column < columns; ++column)\0A      for (size_t i = 0; i < 8; ++i)\0A        to[(row + i) * to_step + column] = from[column * from_step + row + i];\0A  }\0A  for (; row < rows; ++row)\0A    for (size_t column = first_column; column < columns; ++column)\0A      to[row * to_step + column] = from[column * from_step + row];\0A}\0A"
#text_2 = "typedef ushort8 __attribute__((aligned(sizeof(ushort)))) reorder_3fbfbc09_ushort;\0A\0A// `geometry` has the numbers of columns and rows, and how many of them a work item moves; the step from a column\0A// to the next where it reads, from a row to the next where it writes, and the first elements of both; the number\0A// of outer loops, and for each its size, and its steps where it reads and writes.\0A__kernel void reorder_3fbfbc09(const __global ushort* from, __global ushort* to, const __global uint* geometry) {\0A  const size_t from_step = geometry[4], to_step = geometry[5];\0A  from += geometry[6];\0A  to += geometry[7];\0A  size_t rest = get_global_id(2);\0A  for (size_t loop = geometry[8]; loop > 0; --loop) {\0A    const __global uint* const outer = geometry + 6 + 3 * loop;\0A    from += rest % outer[0] * outer[1];\0A    to += rest % outer[0] * outer[2];\0A    rest /= outer[0];\0A  }\0A  const size_t first_column = get_global_id(0) * geometry[2], first_row = get_global_id(1) * geometry[3];\0A  const size_t columns = min(first_column + geometry[2], (size_t)geometry[0]);\0A  const size_t rows = min(first_row + geometry[3], (size_t)geometry[1]);\0A  size_t row = first_row;\0A  for (; row + 8 <= rows; row += 8) {\0A    size_t column = first_column;\0A    for (; column + 8 <= columns; column += 8) {\0A      const __global ushort* const in = from + column * from_step + row;\0A      __global ushort* const out = to + row * to_step + column;\0A      const ushort8 c0 = *(const __global reorder_3fbfbc09_ushort*)(in);\0A      const ushort8 c1 = *(const __global reorder_3fbfbc09_ushort*)(in + 1 * from_step);\0A      const ushort8 c2 = *(const __global reorder_3fbfbc09_ushort*)(in + 2 * from_step);\0A      const ushort8 c3 = *(const __global reorder_3fbfbc09_ushort*)(in + 3 * from_step);\0A      const ushort8 c4 = *(const __global reorder_3fbfbc09_ushort*)(in + 4 * from_step);\0A      const ushort8 c5 = *(const __global reorder_3fbfbc09_ushort*)(in + 5 * from_step);\0A      const ushort8 c6 = *(const __global reorder_3fbfbc09_ushort*)(in + 6 * from_step);\0A      const ushort8 c7 = *(const __global reorder_3fbfbc09_ushort*)(in + 7 * from_step);\0A      *(__global reorder_3fbfbc09_ushort*)(out) = (ushort8)(c0.s0, c1.s0, c2.s0, c3.s0, c4.s0, c5.s0, c6.s0, c7.s0);\0A      *(__global reorder_3fbfbc09_ushort*)(out + 1 * to_step) = (ushort8)(c0.s1, c1.s1, c2.s1, c3.s1, c4.s1, c5.s1, c6.s1, c7.s1);\0A      *(__global reorder_3fbfbc09_ushort*)(out + 2 * to_step) = (ushort8)(c0.s2, c1.s2, c2.s2, c3.s2, c4.s2, c5.s2, c6.s2, c7.s2);\0A      *(__global reorder_3fbfbc09_ushort*)(out + 3 * to_step) = (ushort8)(c0.s3, c1.s3, c2.s3, c3.s3, c4.s3, c5.s3, c6.s3, c7.s3);\0A      *(__global reorder_3fbfbc09_ushort*)(out + 4 * to_step) = (ushort8)(c0.s4, c1.s4, c2.s4, c3.s4, c4.s4, c5.s4, c6.s4, c7.s4);\0A      *(__global reorder_3fbfbc09_ushort*)(out + 5 * to_step) = (ushort8)(c0.s5, c1.s5, c2.s5, c3.s5, c4.s5, c5.s5, c6.s5, c7.s5);\0A      *(__global reorder_3fbfbc09_ushort*)(out + 6 * to_step) = (ushort8)(c0.s6, c1.s6, c2.s6, c3.s6, c4.s6, c5.s6, c6.s6, c7.s6);\0A      *(__global reorder_3fbfbc09_ushort*)(out + 7 * to_step) = (ushort8)(c0.s7, c1.s7, c2.s7, c3.s7, c4.s7, c5.s7, c6.s7, c7.s7);\0A    }\0A    for (; column < columns; ++column)\0A      for (size_t i = 0; i < 8; ++i)\0A        to[(row + i) * to_step + column] = from[column * from_step + row + i];\0A  }\0A  for (; row < rows; ++row)\0A    for (size_t column = first_column; column < columns; ++column)\0A      to[row * to_step + column] = from[column * from_step + row];\0A}\0A"
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
    VPUIP.OCL @Reorder (%x) -> (%0) {
      global_size = array<i64: 1, 1, 1>,
      local_size = array<i64: 1, 1, 1>,
      num_shaves = 1 : i64
    }
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
    VPUIP.OCL @Reorder_1 (%1) -> (%2) {
      global_size = array<i64: 1, 1, 1>,
      local_size = array<i64: 1, 1, 1>,
      num_shaves = 1 : i64
    }
    %3 = VPUIP.DeclareBuffer @CMX[1152] : memref<1x4x6x8xf32, @CMX>
    VPUIP.OCL @Reorder_2 (%z) -> (%3) {
      global_size = array<i64: 1, 1, 1>,
      local_size = array<i64: 1, 1, 1>,
      num_shaves = 1 : i64
    }
    %4 = VPUIP.DeclareBuffer @CMX[0] : memref<16xf32, @CMX>
    VPUIP.OCL @Sum (%2, %3) -> (%sum) scratch (%4) {
      global_size = array<i64: 8>,
      num_shaves = 8 : i64,
      name = "sum"
    }
    func.return
  }
}
