"""Tests layers that do not fit their op: each error names the file, op, element and reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.plugin import CompilerPlugin
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.model.builder import ModelBuilder
from litert.model.graph import Subgraph
from vendor_reference.compiler.plugin import PLUGIN

GOOD = """\
<CustomLayer name="L" type="SimpleGPU" version="1">
  <Kernel entry="k"><Source filename="k.cl"/><Define name="ALPHA" param="alpha" default="1"/></Kernel>
  <Buffers>
    <Tensor arg-index="0" type="input" port-index="0"/>
    <Data name="weights" arg-index="1"/>
    <Tensor arg-index="2" type="internal" port-index="0" size="16"/>
    <Tensor arg-index="3" type="output" port-index="0"/>
  </Buffers>
  <WorkSizes global="X,Y,B*F" local="1,1,1"/>
</CustomLayer>
"""


def create(folder: Path, text: str) -> CompilerPlugin:
    (folder / "k.cl").write_text("__kernel void k(__global float* a) {}")
    (folder / "l.xml").write_text(text)
    infos = [CustomOpInfo("L", str(folder / "l.xml"))]
    return PLUGIN.create(EnvironmentOptions(), CompilerOptions(infos, check_kernels=False))


def subgraph(option: object = 2) -> Subgraph:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 2, 3, 4))
    w = b.constant("weights", np.ones(4, np.float32))
    y = b.custom("L", [x, w], [("y", "float32", (1, 2, 3, 4))], options={"alpha": option})  # type: ignore[dict-item]
    b.output(y)
    return b.build().subgraphs[0]


def test_the_layer_fits_as_it_is(tmp_path: Path) -> None:
    assert create(tmp_path, GOOD).compile("EMU8", [subgraph()]).calls


CASES = {
    "an input that the op has not": (
        'type="input" port-index="0"', 'type="input" port-index="2"',
        "argument 0 is bound to input 2, but the op has 2 inputs"),
    "an output that the op has not": (
        'type="output" port-index="0"', 'type="output" port-index="3"',
        "argument 3 is bound to output 3, but the op has 1 output"),
    "no output": (
        '<Tensor arg-index="3" type="output" port-index="0"/>', "",
        "no argument of the kernel is bound to output 0 of the op"),
    "data of another name": (
        'name="weights"', 'name="biases"', "the layer refers to data 'biases'"),
    "a global size that divides by zero": (
        "X,Y", "X/(B-1),Y", "global size: formula 'X/(B-1)' divides by zero"),
    "a negative global size": ("X,Y", "B-X,Y", "global size: formula 'B-X' has the value -2 for B=1, F=4"),
    "output ports numbered on from the inputs, and one too many": (
        'type="output" port-index="0"/>',
        'type="output" port-index="1"/><Tensor arg-index="4" type="output" port-index="2"/>',
        "argument 4 is bound to output 1, but the op has 1 output"),
    "a global size of zero": ("X,Y", "X-3,Y", "the global size is [0, 2, 4], so that no work item would write"),
    "a local size of zero": (
        'local="1,1', 'local="X-3,1',
        "local size [0, 1, 1] contains a 0, so that a work group would have no work items"),
    "a product that is too large": (
        "X,Y", "100000*100000,Y", "formula '100000*100000' has the value 10000000000, but may be at most"),
    "a local size that does not divide": (
        'local="1,1', 'local="2,1', "global size [3, 2, 4] is not a multiple of local size [2, 1, 1]"),
    "sizes of an input that the op has not": (
        "<WorkSizes", '<WorkSizes dim="input,5"', "refer to input 5, which does not exist: the 2 inputs have"),
    "internal memory of an input that the op has not": (
        'size="16"', 'size="INPUT7_DIMS[0]"', "uses input 7 of the op, but the 2 inputs have the indices 0 and 1"),
    "internal memory below zero": (
        'size="16"', 'size="1-16"', "formula '1-16' has the value -15, but must be at least 0"),
    "internal memory of no element": (
        'size="16"', 'size="INPUT0_DIMS[0]-1"',
        "internal memory of size 'INPUT0_DIMS[0]-1' has 0 elements"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "says"), CASES.values(), ids=list(CASES))
def test_a_layer_that_does_not_fit_is_refused_with_file_element_and_reason(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    assert GOOD.count(old) == 1
    plugin = create(tmp_path, GOOD.replace(old, new))
    with pytest.raises(LiteRtError) as error:
        plugin.compile("EMU8", [subgraph()])
    assert says in error.value.what
    assert error.value.where == "l.xml, op 'L'"


def test_an_option_that_no_define_can_hold_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LiteRtError) as error:
        create(tmp_path, GOOD).compile("EMU8", [subgraph("a\nb")])
    assert (
        error.value.what
        == "cannot set define 'ALPHA': a #define cannot contain the text 'a\\nb': the character '\\n' "
        "is not printable"
    )
    assert "l.xml" in error.value.where
