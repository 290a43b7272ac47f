"""Tests that the compiler compares a kernel's parameters with the arguments bound to them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.element_type import ElementType
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.graph import Subgraph
from tests.vendor_reference.executables import in_, out, task, undeclared
from vendor_reference.compiler.kernel_bindings import Access, BoundArgument, check_bindings
from vendor_reference.compiler.plugin import PLUGIN
from vendor_reference.executable.kernel_signature import DeclaredArgument, KernelSignature

TENSOR = BoundArgument("input 0, tensor<4xf32>", Access.MEMORY, ElementType.FLOAT32)
SCALAR = BoundArgument("a scalar of int32", Access.VALUE, ElementType.INT32, is_number=True)
CONSTANT = BoundArgument("a constant of int32", Access.MEMORY, ElementType.INT32, is_number=True)
LOCAL = BoundArgument("local memory", Access.LOCAL)
SCRATCH = BoundArgument("internal memory", Access.WRITTEN)
OUTPUT = BoundArgument("output 0, tensor<4xf32>", Access.WRITTEN, ElementType.FLOAT32)


def check(space: str, type_name: str, bound: BoundArgument, is_const: bool = False) -> list[str]:
    kernel = KernelSignature((DeclaredArgument(space, type_name, "x", is_const),), 64)
    return check_bindings("k", kernel, task("k", [in_()], [4]), [bound], "k.cl, op 'K'")


def of(name: str) -> BoundArgument:
    return BoundArgument(f"input 0, {name}", Access.MEMORY, ElementType[name])


@pytest.mark.parametrize(
    ("space", "type_name", "bound"),
    [
        ("__global", "float*", TENSOR),
        ("__constant", "float*", TENSOR),
        ("__global", "float4*", TENSOR),
        ("__global", "void*", TENSOR),
        ("__global", "float8u*", TENSOR),  # a typedef in the source
        ("__global", "__global float[4]*", TENSOR),
        ("__global", "half*", of("FLOAT16")),
        ("__global", "ushort*", of("FLOAT16")),
        ("__global", "short4*", of("FLOAT16")),
        ("__global", "uchar*", of("BOOL")),
        ("__global", "char*", of("BOOL")),
        ("__global", "bool*", of("BOOL")),
        ("__global", "bool*", of("UINT8")),
        ("by value", "int", SCALAR),
        ("by value", "uint", SCALAR),
        ("by value", "index_t", SCALAR),
        ("__constant", "int*", CONSTANT),
        ("__global", "uint4*", CONSTANT),
        ("__local", "float*", LOCAL),
        ("__global", "double*", SCRATCH),
        ("__global", "float*", OUTPUT),
        ("", "", TENSOR),  # the driver reports no types
        ("", "", OUTPUT),
    ],
)
def test_what_fits_is_taken_silently(space: str, type_name: str, bound: BoundArgument) -> None:
    assert check(space, type_name, bound) == []


@pytest.mark.parametrize(
    ("space", "type_name", "bound", "takes"),
    [
        ("by value", "float", TENSOR, "a __global or __constant pointer"),
        ("__local", "float*", TENSOR, "a __global or __constant pointer"),
        ("__global", "image2d_t", TENSOR, "a __global or __constant pointer"),
        ("__global", "int*", SCALAR, "an argument by value"),
        ("__local", "int*", CONSTANT, "a __global or __constant pointer"),
        ("__global", "float*", LOCAL, "a __local pointer"),
        ("by value", "float", LOCAL, "a __local pointer"),
        ("__local", "float*", SCRATCH, "a __global pointer without const"),
        ("__constant", "float*", OUTPUT, "a __global pointer without const"),
        ("__constant", "float*", SCRATCH, "a __global pointer without const"),
    ],
)
def test_another_address_space_is_refused(
    space: str, type_name: str, bound: BoundArgument, takes: str
) -> None:
    with pytest.raises(LiteRtError) as error:
        check(space, type_name, bound)
    shown = type_name if space == "by value" else f"{space} {type_name}"
    assert error.value.status is Status.INVALID_ARGUMENT and error.value.where == "k.cl, op 'K'"
    assert error.value.what == (
        f"the code declares argument 0 of kernel 'k' as '{shown} x', but the layer binds it to {bound.what}, "
        f"which needs {takes}"
    )


@pytest.mark.parametrize("bound", [OUTPUT, SCRATCH])
def test_memory_that_the_kernel_writes_is_not_const(bound: BoundArgument) -> None:
    assert check("__global", "float*", TENSOR, is_const=True) == []
    with pytest.raises(LiteRtError) as error:
        check("__global", "float*", bound, is_const=True)
    assert error.value.what == (
        "the code declares argument 0 of kernel 'k' as '__global const float* x', "
        f"but the layer binds it to {bound.what}, "
        "which needs a __global pointer without const"
    )


@pytest.mark.parametrize(
    ("space", "type_name", "bound"),
    [
        ("__global", "float*", of("INT8")),
        ("__global", "float4*", of("UINT8")),
        ("__global", "float*", of("INT64")),
        ("__global", "float*", of("FLOAT16")),
        ("__global", "half*", TENSOR),
        ("__global", "double*", TENSOR),
        ("by value", "float", SCALAR),
        ("by value", "long", SCALAR),
        ("by value", "int4", SCALAR),
        ("by value", "struct P", SCALAR),
        ("by value", "union P", SCALAR),
        ("__global", "float*", CONSTANT),
        ("__constant", "char*", CONSTANT),
    ],
)
def test_an_element_type_that_cannot_be_meant_is_refused(
    space: str, type_name: str, bound: BoundArgument
) -> None:
    with pytest.raises(LiteRtError, match="whose type in C is ") as error:
        check(space, type_name, bound)
    assert error.value.hint.startswith("In the code, declare the argument as ")


def test_a_half_that_is_float_for_the_kernel_alone_is_said_to_be() -> None:
    input_0 = replace(TENSOR, define="INPUT0_TYPE")
    with pytest.raises(
        LiteRtError, match=r"tensor<4xf32>, which the kernel gets as float "
    ) as error:
        check("__global", "half*", input_0)
    assert error.value.hint == (
        "In the code, declare the argument as float* or INPUT0_TYPE*. If the tensor is float16 in the model, and "
        "the kernel "
        "needs half, set --reference_fp16=half, or set the tensor's type in the layer's description."
    )


@pytest.mark.parametrize(
    ("type_name", "bound"),
    [
        ("uchar*", of("INT8")),
        ("char*", TENSOR),
        ("int*", TENSOR),
        ("float*", of("INT32")),
        ("uint*", of("INT8")),
        ("uint*", of("FLOAT16")),
        ("uint4*", of("UINT8")),
    ],
)
def test_bits_that_are_read_as_another_type_are_noted(type_name: str, bound: BoundArgument) -> None:
    (note,) = check("__global", type_name, bound)
    assert note.startswith(
        f"k.cl, op 'K': the code declares argument 0 of kernel 'k' as '__global {type_name}"
    )
    assert note.endswith("the kernel gets the bytes without a conversion.")


def test_a_group_larger_than_the_device_takes_is_refused() -> None:
    kernel = undeclared(2)
    made = task("k", [in_(), out()], [256, 2], [16, 8])
    with pytest.raises(LiteRtError) as error:
        check_bindings("k", kernel, made, [TENSOR, TENSOR], "k.cl, op 'K'")
    assert error.value.what == (
        "local size [16, 8] of kernel 'k' makes work groups of 128 work items, but the device supports at most 64"
    )
    fits = task("k", [in_(), out()], [256, 2], [8, 8])
    assert check_bindings("k", kernel, fits, [TENSOR, TENSOR], "") == []


def model(element_type: str) -> Subgraph:
    b = ModelBuilder()
    x = b.input("x", element_type, (1 << 20,))
    b.output(b.custom("Mine", [x], [("y", element_type, (1 << 20,))]))
    return b.build().subgraphs[0]


def compiled(folder: Path, text: str, element_type: str, description: str = "") -> list[str]:
    """Compiles with the installed OpenCL driver and returns the notes."""
    (folder / "k.cl").write_text(text)
    path = folder / "k.cl"
    if description:
        path = folder / "k.json"
        path.write_text('{"version": 1, "sources": ["k.cl"], ' + description + "}")
    options = CompilerOptions([CustomOpInfo("Mine", str(path))])
    plugin = PLUGIN.create(EnvironmentOptions(), options)
    return list(plugin.compile("EMU8", [model(element_type)]).notes)


@pytest.mark.parametrize(
    ("arguments", "element_type", "description", "what", "hint"),
    [
        (
            "__global const float* x, __global INPUT0_TYPE* y", "int8", "",
            "the code declares argument 0 of kernel 'Mine' as '__global const float* x', but the layer binds it "
            "to input 0 of "
            "type tensor<1048576xi8>, whose type in C is char",
            "In the code, declare the argument as char* or INPUT0_TYPE*.",
        ),
        (
            "__global const float* x, float y", "float32", "",
            "the code declares argument 1 of kernel 'Mine' as 'float y', but the layer binds it to output 0 of "
            "type tensor<1048576xf32>, which needs a __global pointer without const",
            "Correct the declaration in the code, ",
        ),
        (
            "__global const float* x, const __global float* y", "float32", "",
            "the code declares argument 1 of kernel 'Mine' as '__global const float* y', but the layer binds it "
            "to output 0 of "
            "type tensor<1048576xf32>, which needs a __global pointer without const",
            "Correct the declaration in the code, ",
        ),
        (
            "__global float* x, __global float* y, __global const float* t", "float32",
            '"arguments": [{"input": 0}, {"output": 0}, {"internal": {"type": "float32", "size": "4"}}]',
            "the code declares argument 2 of kernel 'Mine' as '__global const float* t', but the layer binds it "
            "to internal "
            "memory, which needs a __global pointer without const",
            "Correct the declaration in the code, ",
        ),
        (
            "__global float* x, __global float* y, float n", "float32",
            '"arguments": [{"input": 0}, {"output": 0}, {"scalar": {"type": "int32", "value": 7}}]',
            "the code declares argument 2 of kernel 'Mine' as 'float n', but the layer binds it to a scalar of "
            "type int32, "
            "whose type in C is int",
            "In the code, declare the argument as int.",
        ),
        (
            "__global float* x, __global float* y, __global float* t", "float32",
            '"arguments": [{"input": 0}, {"output": 0}, {"local": {"type": "float32", "size": "4"}}]',
            "the code declares argument 2 of kernel 'Mine' as '__global float* t', but the layer binds it to "
            "local memory, "
            "which needs a __local pointer",
            "Correct the declaration in the code, ",
        ),
        (
            "__global float* x, __global float* y", "float32",
            '"work_sizes": {"global": ["B"], "local": ["B"]}',
            "local size [1048576] of kernel 'Mine' makes work groups of 1048576 work items, "
            "but the device supports ",
            "Choose a smaller",
        ),
    ],
)  # fmt: skip
def test_opencl_itself_says_what_a_kernel_declares(
    device: object,
    tmp_path: Path,
    arguments: str,
    element_type: str,
    description: str,
    what: str,
    hint: str,
) -> None:
    text = f"__kernel void Mine({arguments}) {{}}\n"
    with pytest.raises(LiteRtError, match=re.escape(what)) as error:
        compiled(tmp_path, text, element_type, description)
    assert error.value.status is Status.INVALID_ARGUMENT and error.value.hint.startswith(hint)
    assert error.value.where == f"{'k.json' if description else 'k.cl'}, op 'Mine'"


def test_a_note_reaches_the_report_also_of_a_kernel_that_was_built_before(
    device: object, tmp_path: Path
) -> None:
    text = "__kernel void Mine(__global uchar* x, __global OUTPUT0_TYPE* y) {}\n"
    notes = compiled(tmp_path, text, "int8")
    assert len(notes) == 1 and "'__global uchar* x'" in notes[0]
    assert compiled(tmp_path, text, "int8") == notes
    assert compiled(tmp_path, text, "uint8") == []
