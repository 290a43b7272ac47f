"""Tests reading layers of OpenVINO's VPU (`MVCL`) from custom layer configurations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.model.builder import ModelBuilder
from vendor_reference.custom_layers.asset_reader import read_layer
from vendor_reference.custom_layers.custom_layer import CustomLayer
from vendor_reference.custom_layers.kernel_spec import (
    DataArgument,
    Format,
    InternalArgument,
    LocalArgument,
    ScalarArgument,
    TensorArgument,
)
from vendor_reference.custom_layers.value_sources import FlexOption, Literal, OpValues, SizeFormula

Read = Callable[..., CustomLayer]

LAYER = """\
<CustomLayer name="Norm" type="MVCL" version="1" max-shaves="3">
  <Kernel entry="norm">
    <Source filename="norm.cl"/>
  </Kernel>
  <Parameters>
    <Tensor arg-name="dst" type="output" port-index="0" format="BYXF"/>
    <Tensor arg-name="src" type="input" port-index="0" format="bfyx"/>
    <Data arg-name="weights" type="data" source="scales" format="ANY"/>
    <Tensor arg-name="mean" type="output_buffer" port-index="0" dim="output,0" size="Y*F*4"/>
    <Data arg-name="line" type="local_data" dim="input,0" size="X*2"/>
    <Scalar arg-name="w" type="int" port-index="0" source="I.X"/>
    <Scalar arg-name="h" type="int" source="O0.y"/>
    <Scalar arg-name="step" type="int" port-index="1" source="strides"/>
    <Scalar arg-name="bias" type="float" source="bias"/>
    <Scalar arg-name="half_of" type="float" source="0.5"/>
    <Scalar arg-name="three" type="int" source="3"/>
  </Parameters>
  <WorkSizes dim="input,0" global="((Y+7)/8)*8,F,1" local="8,1,1"/>
</CustomLayer>
"""
KERNEL = """\
#include "types.h"
__kernel void other(__global const half* src) {}
__kernel void norm(global const half* restrict src, __global value_t* dst, __global float* weights,
                   __global float* mean, __local half* line, int w, int h, int step, float bias, float half_of,
                   int three) {}
"""


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(text: str, kernel: str = KERNEL) -> CustomLayer:
        (tmp_path / "norm.cl").write_text(kernel)
        (tmp_path / "types.h").write_text("#define value_t half\n")
        return read_layer("MyOp", str(tmp_path / "layer.xml"), memoryview(text.encode()))

    return read


def changed(old: str, new: str) -> str:
    assert old in LAYER, old
    return LAYER.replace(old, new)


def test_arguments_are_in_the_kernels_order(read: Read) -> None:
    layer = read(LAYER)
    assert (layer.op_name, layer.kernel.title, layer.kernel.entry) == ("MyOp", "Norm", "norm")
    assert [f.path for f in (*layer.sources, *layer.headers)] == ["norm.cl", "types.h"]
    assert layer.kernel.arguments == (
        TensorArgument(False, 0, Format.BFYX, ElementType.FLOAT16),
        TensorArgument(True, 0, Format.BYXF, ElementType.FLOAT16),
        DataArgument("scales", is_flat=True),
        InternalArgument(ElementType.UINT8, "OUTPUT0_DIMS[2]*OUTPUT0_DIMS[1]*4"),
        LocalArgument(ElementType.UINT8, "INPUT0_DIMS[3]*2"),
        ScalarArgument(ElementType.INT32, SizeFormula("INPUT0_DIMS[3]")),
        ScalarArgument(ElementType.INT32, SizeFormula("OUTPUT0_DIMS[2]")),
        ScalarArgument(ElementType.INT32, FlexOption("strides", element=1)),
        ScalarArgument(ElementType.FLOAT32, FlexOption("bias", element=0)),
        ScalarArgument(ElementType.FLOAT32, Literal(0.5)),
        ScalarArgument(ElementType.INT32, Literal(3)),
    )
    assert layer.kernel.global_size == ("((INPUT0_DIMS[2]+7)/8)*8", "INPUT0_DIMS[1]", "1")
    assert layer.kernel.local_size == ("8", "1", "1")
    assert layer.kernel.max_num_shaves == 3
    assert not layer.notes


def test_what_later_versions_have_in_the_kernel_is_read_there(read: Read) -> None:
    a, b = LAYER.index("  <Parameters>"), LAYER.index("</CustomLayer>")
    later = (
        LAYER[:a].replace("  </Kernel>\n", "").replace('norm">', 'norm" stage="0">') + LAYER[a:b]
    )
    assert read(later + "</Kernel></CustomLayer>").kernel == read(LAYER).kernel


def test_a_parameter_that_is_bound_again_is_noted(read: Read) -> None:
    again = '<Scalar arg-name="three" type="int" source="4"/>\n  </Parameters>'
    layer = read(changed("  </Parameters>", again))
    assert layer.kernel.arguments[-1] == ScalarArgument(ElementType.INT32, Literal(4))
    (note,) = layer.notes
    assert (
        "line 17, <Scalar>: several elements are for parameter 'three', and the last of them is used."
        in note
    )


SCALAR = '<Scalar arg-name="w" type="int" port-index="0" source="I.X"/>'
BAD = {
    "a binary": ("norm.cl", "norm.bin", "<Source> of layer 'Norm': 'norm.bin' is a binary for SHAVE processors"),
    "no source": ("Source", "Sauce", "<Kernel> of layer 'Norm': element <Source> is missing"),
    "a source that is not there": ("norm.cl", "no.cl", "contains no file 'no.cl'"),
    "no entry": ('entry="norm"', "", "<Kernel> of layer 'Norm': attribute 'entry'"),
    "no such kernel": ('"norm"', '"Norm"', "<Kernel> of layer 'Norm': the sources contain no kernel 'Norm'"),
    "another stage": (
        'version="1"', 'version="1" stage="1"', "<CustomLayer> of layer 'Norm': the layer has stage '1'"),
    "another stage of a kernel": (
        'entry="norm"', 'entry="norm" stage="2"', "<Kernel> of layer 'Norm': the layer has stage '2'"),
    "two kernels": (
        "<Parameters>", '<Kernel entry="b"/><Parameters>', "of layer 'Norm': the layer has a second kernel"),
    "some ops alone": ("<Parameters>", '<Where kernel="3,3"/><Parameters>', "'Norm': this element limits"),
    "no parameters": ("Parameters", "Buffers", "<CustomLayer> of layer 'Norm': element <Parameters> is missing"),
    "no work sizes": ("<WorkSizes", "<Sizes", "<CustomLayer> of layer 'Norm': element <WorkSizes> is missing"),
    "no arg-name": ('arg-name="w"', "", "<Scalar> of layer 'Norm': attribute 'arg-name' (the kernel's parameter)"),
    "another arg-name": ('arg-name="w"', 'arg-name="W"', "'arg-name' is 'W', but kernel 'norm' has no such p"),
    "a parameter too few": (SCALAR, "", "<Parameters> of layer 'Norm': an element for parameter 'w' of kernel"),
    "a tensor without type": (
        'type="output" port', "port", "<Tensor> of layer 'Norm': attribute 'type' is missing, but"),
    "a tensor of another type": (
        '"input"', '"local_data"', "<Tensor> of layer 'Norm': attribute 'type' is 'local_data'"),
    "a tensor without port": (
        'port-index="0" format="BYXF"', "", "<Tensor> of layer 'Norm': attribute 'port-index' is missing"),
    "another format": ("BYXF", "NCHW", "<Tensor> of layer 'Norm': attribute 'format' is 'NCHW', which is"),
    "another stage's memory": (
        "output_buffer", "input_buffer", "<Tensor> of layer 'Norm': type 'input_buffer' is the memory of ano"),
    "data of another type": (
        "local_data", "global_data", "<Data> of layer 'Norm': attribute 'type' is 'global_data', but"),
    "data without a source": ('source="scales"', "", "<Data> of layer 'Norm': attribute 'source'"),
    "memory without a size": (
        'size="X*2"', "", "<Data> of layer 'Norm': attribute 'size' (the number of bytes) is missing"),
    "memory of another dim": (
        'dim="input,0" size', 'dim="in" size', "<Data> of layer 'Norm': attribute 'dim' is 'in', but must be"),
    "memory by Z": ("X*2", "Z*2", "<Data> of layer 'Norm': attribute 'size': formula 'Z*2' contains 'Z'"),
    "memory by a tensor": (
        "X*2", "INPUT0_DIMS[0]",
        "attribute 'size' has the formula 'INPUT0_DIMS[0]', but may contain only numbers"),
    "a scalar without type": (
        'type="float" source="bias"', 'source="bias"',
        "<Scalar> of layer 'Norm': attribute 'type' is missing, but must be int or"),
    "a scalar of another type": (
        '"float" source="bias"', '"half" source="bias"', "attribute 'type' is 'half', but must be int"),
    "a scalar without source": (' source="bias"', "", "<Scalar> of layer 'Norm': attribute 'source'"),
    "a port below": (
        'port-index="1"', 'port-index="-2"',
        "<Scalar> of layer 'Norm': attribute 'port-index' is -2, which is not in the range 0",
    ),
    "shaves below": (
        'max-shaves="3"', 'max-shaves="-1"',
        "<CustomLayer> of layer 'Norm': attribute 'max-shaves' is -1, which is not in the range 0 to 1024",
    ),
    "four sizes": (
        'local="8,1,1"', 'local="8,1,1,1"', "<WorkSizes> of layer 'Norm': attribute 'local' has 4 sizes"),
    "no global": ('global="((Y+7)/8)*8,F,1"', "", "<WorkSizes> of layer 'Norm': attribute 'global'"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "says"), BAD.values(), ids=list(BAD))
def test_what_cannot_run_is_refused_with_line_and_reason(
    read: Read, old: str, new: str, says: str
) -> None:
    with pytest.raises(LiteRtError) as error:
        read(changed(old, new))
    assert says in error.value.what
    assert "layer.xml, line " in error.value.where


BAD_KERNELS = {
    "manual DMA": (
        KERNEL + "__kernel void __dma_preload_norm(__global half* src) {}",
        "norm.cl uses __dma_preload_norm, but only VPUs support manual DMA"),
    "DMA of its own": (
        KERNEL + "void f() { WorkGroupDmaCreateStrideTransaction(); }",
        "norm.cl uses WorkGroupDmaCreateStrideTransaction, but only"),
    "several kernels of a name": (
        KERNEL + "__kernel void norm(int n) {}", "the sources contain different declarations of kernel 'norm'"),
    "a parameter without a name": (
        KERNEL.replace("int three", "int"), "parameter 10 of kernel 'norm' has no name in the source"),
    "no text": (KERNEL + "\0", "a zero byte at offset"),
}  # fmt: skip


@pytest.mark.parametrize(("kernel", "says"), BAD_KERNELS.values(), ids=list(BAD_KERNELS))
def test_a_kernel_that_cannot_run_is_refused(read: Read, kernel: str, says: str) -> None:
    with pytest.raises(LiteRtError) as error:
        read(LAYER, kernel)
    assert says in error.value.what


def test_a_misspelled_parameter_has_a_hint(read: Read) -> None:
    with pytest.raises(LiteRtError) as error:
        read(changed('arg-name="weights"', 'arg-name="weight"'))
    assert error.value.hint == "Did you mean 'weights'?"


def test_a_misspelled_kernel_has_a_hint(read: Read) -> None:
    with pytest.raises(LiteRtError) as error:
        read(changed('"norm"', '"Norm"'))
    assert error.value.hint == "Did you mean 'norm'? The kernels are other, norm."


def values(*signature: int) -> OpValues:
    b = ModelBuilder()
    x = b.input("x", "float32", (2, 3, 4, 5), shape_signature=signature or None)
    b.custom("Norm", [None, x], [("y", "float32", (2, 1, 1, 5))], options={"n": [3, 4], "one": 7})
    return OpValues(b.build().subgraphs[0].ops[0])


def test_scalars_are_elements_of_options_and_sizes() -> None:
    assert values().resolve(FlexOption("n", element=1)) == 4
    assert values().resolve(FlexOption("one", element=0)) == 7
    assert values().resolve(SizeFormula("INPUT1_DIMS[3]")) == 4
    assert values(-1, 3, 4, 5).resolve(SizeFormula("OUTPUT0_DIMS[1]")) == 5
    with pytest.raises(
        LiteRtError,
        match="the layer uses element 2 of the op's option 'n', but the 2 elements have",
    ):
        values().resolve(FlexOption("n", element=2))
    with pytest.raises(
        LiteRtError, match=r"the shape of input 1 \('x'\) is known only at run time"
    ):
        values(-1, 3, 4, 5).resolve(SizeFormula("INPUT1_DIMS[0]"))
    with pytest.raises(LiteRtError, match=r"uses INPUT0_DIMS\[0\], but the op omits input 0"):
        values().resolve(SizeFormula("INPUT0_DIMS[0]"))
