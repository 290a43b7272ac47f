"""Creates a working skeleton of a layer, from which the author of a kernel can start.

The kernel of the skeleton has the right arguments, and can be built for all of the layer's ops. The kernel copies
input 0 to each output of the same type, and fills all other outputs with zeros. If the kernel must compute an
output's shape, it writes the shape of a tensor without elements. The skeleton also has a description if the kind
of asset needs a description, a reference in NumPy, and a file with the commands to use.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from xml.sax.saxutils import quoteattr

from litert.core.quoting import docstring_text, markdown_text, name_text, shell_word
from litert.model.custom_options import find_flexbuffer_options
from litert.model.flexbuffer import FlexValue
from litert.model.graph import Op, Tensor
from litert.model.quantized_tensor import describe_quantization
from vendor_reference.authoring.subject import OpChoice, Subject, check_alike, describe_op
from vendor_reference.compiler.shape_rules import alike_input
from vendor_reference.custom_layers.value_sources import OpValues

KINDS = ("cl", "json", "xml")

_NOT_OF_A_NAME = re.compile(r"\W", re.ASCII)
_MOST_FIELDS = 32
_BOUND = 100  # size of an unknown dimension, until the author changes it
_SMALL = (
    1 << 16
)  # a 4-byte word below this number is likely an int32: as a float32 it would be almost zero


@dataclass(frozen=True, slots=True)
class OptionEntry:
    """An option of the op: a define for the kernel, and a comment with the option's values in the ops.

    Attributes:
      source: Source of the option's value, in the notation of a JSON description.
    """

    define: str
    source: Mapping[str, object]
    shown: str
    type: str


_QUANTIZATION = """
      quantization: Quantization of the tensors. `inputs[0]` and `outputs[0]` are None, or objects with the arrays
        `scale` and `zero_point`, which broadcast with the tensor, and the methods `dequantize(integers)` and
        `quantize(reals)`."""


def choose_kind(subjects: Sequence[Subject]) -> str:
    """Returns the simplest kind of asset that is sufficient for the ops.

    This kind is `cl`, or `json` if the options are a C struct or the kernel must compute output shapes.
    """
    if _found_outputs([subject.op for subject in subjects]):
        return "json"
    options = bytes(subjects[0].op.custom_options or b"")
    return "json" if options and not isinstance(find_flexbuffer_options(options), Mapping) else "cl"


def new_layer(
    kind: str,
    op_name: str,
    subjects: Sequence[Subject],
    model: str,
    vendor_options: Mapping[str, str],
) -> dict[str, str]:
    """Returns the texts of a skeleton's files by file name.

    The commands in these files contain the model's path and the options.

    Raises:
      LiteRtError: UNSUPPORTED, if one kernel cannot implement all of the ops.
    """
    ops = [subject.op for subject in subjects]
    ports = [(tuple(t is not None for t in op.inputs), len(op.outputs)) for op in ops]
    what = (
        f"one layer cannot implement all '{op_name}' ops of the model, because they have different numbers of "
        "inputs or outputs"
    )
    check_alike(ports, what, "")
    name = c_name(op_name)
    options = list(_options(ops))
    files = {f"{name}.cl": _kernel(name, kind, subjects, options)}
    asset = f"{name}.{kind}"
    if kind == "json":
        files[asset] = _json(name, ops, options)
    elif kind == "xml":
        files[asset] = _xml(name, op_name, ops[0], options)
    files[f"{name}_reference.py"] = _reference(name, subjects)
    is_like_a_place = OpChoice(op=op_name).place is not None
    choice = subjects[0].place if is_like_a_place else op_name
    flags = _bounds(ops) + flags_text(vendor_options)
    files[f"{name}.md"] = _readme(name, asset, op_name, choice, model, flags)
    return files


def c_name(op_name: str) -> str:
    """Returns an op's name with only characters that are valid in C names and file names."""
    name = _NOT_OF_A_NAME.sub("_", op_name) or "op"
    return f"op_{name}" if name[0].isdigit() else name


def flags_text(options: Mapping[str, str]) -> str:
    """Returns options as command-line flags, with a space before each flag."""
    return "".join(f" {shell_word(f'--{name}={value}')}" for name, value in options.items())


def declarations(op: Op) -> list[str]:
    """Returns declarations of the kernel's arguments in OpenCL C: the inputs that the op has, then the outputs."""
    inputs = [
        f"__global const INPUT{index}_TYPE* input{index}"
        for index, tensor in enumerate(op.inputs)
        if tensor is not None
    ]
    outputs = [f"__global OUTPUT{i}_TYPE* output{i}" for i in range(len(op.outputs))]
    return inputs + outputs


def _options(ops: Sequence[Op]) -> Iterator[OptionEntry]:
    data = bytes(ops[0].custom_options or b"")
    found = find_flexbuffer_options(data)
    if not isinstance(found, Mapping):
        yield from _fields(data)
        return
    values = [OpValues(op).options() for op in ops]
    for key, value in found.items():
        shown = ", ".join(dict.fromkeys(str(options.get(key, "absent")) for options in values))
        if kind := _define_type(value):
            yield OptionEntry(c_name(key).upper(), {"option": key}, f"{shown:.60}", kind)


def _define_type(value: FlexValue) -> str:
    if isinstance(value, (bool, int)):
        return "int"
    if isinstance(value, float):
        return "float"
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and value:
        kinds = {_define_type(item) for item in value}
        if kinds <= {"int", "float"}:
            return "float[]" if "float" in kinds else "int[]"
    return ""


def _fields(data: bytes) -> Iterator[OptionEntry]:
    """Yields each 4 bytes of a C struct as the type that the bytes look like."""
    for offset in range(0, min(len(data) - 3, 4 * _MOST_FIELDS), 4):
        (integer,) = struct.unpack_from("<i", data, offset)
        (real,) = struct.unpack_from("<f", data, offset)
        is_real = abs(integer) >= _SMALL and isfinite(real) and 1e-12 < abs(real) < 1e12
        kind, shown = ("float32", f"{real:.6g}") if is_real else ("int32", str(integer))
        yield OptionEntry(
            f"FIELD_{offset}",
            {"field": {"type": kind, "offset": offset}},
            f"{shown} (bytes {data[offset : offset + 4].hex(' ')})",
            "float" if is_real else "int",
        )


def _kernel(
    name: str, kind: str, subjects: Sequence[Subject], options: Sequence[OptionEntry]
) -> str:
    op = subjects[0].op
    lines = [f"// {name_text(_about(subject))}" for subject in subjects]
    if options:
        has = kind != "cl" and not (kind == "xml" and "field" in options[0].source)
        lines += ["//", "// Options of the op, and their values:"]
        for option in options:
            called = (
                option.define
                if has
                else f"PARAM_{name_text(str(option.source.get('option', '...')))}"
            )
            if "field" in option.source and not has:
                called = f"a field at byte {option.define.removeprefix('FIELD_')}"
            lines.append(f"//   {called}: {option.shown}")
            if option.type.endswith("[]") and not has:
                lines.append(
                    f"//     its elements with commas between: const {option.type[:-2]} a[] = {{{called}}};"
                )
        if "field" in options[0].source:
            lines.append(
                "// The options are a C struct: name these fields, and set their types, as in the struct's header."
            )
    found = _found_outputs([subject.op for subject in subjects]) if kind == "json" else []
    arguments = declarations(op) + [f"__global uint* shape{index}" for index in found]
    does = (
        "computes the outputs, and writes their shapes" if found else "for each element of output 0"
    )
    lines += [
        "//",
        "// Arrays such as INPUT0_DIMS and INPUT0_PITCHES have the order B, F, Y, X. A tensor of rank 4 is N, H,",
        "// W, C in the model: that is B, Y, X, F.",
        f"__kernel void {name}(",
        "    " + ",\n    ".join(arguments) + ") {",
        f"  // One work item {does}.",
    ]
    if len(found) < len(op.outputs):
        lines.append("  const size_t i = get_global_id(0);")
    for index, tensor in enumerate(op.outputs):
        is_first = index == 0 and not found
        value = f"input0[{'i' if is_first else 'k'}]" if _is_copy(subjects, index) else "0"
        if index in found:
            lines += [
                f"  shape{index}[{d}] = {max(n, 0)};" for d, n in enumerate(tensor.type.shape)
            ]
        elif is_first:
            lines.append(f"  output0[i] = {value};")
        else:
            lines += [
                f"  const size_t elements{index} = (size_t) OUTPUT{index}_DIMS[0] * OUTPUT{index}_DIMS[1] *",
                f"      OUTPUT{index}_DIMS[2] * OUTPUT{index}_DIMS[3];",
                f"  for (size_t k = i; k < elements{index}; k += get_global_size(0)) {{",
                f"    output{index}[k] = {value};",
                "  }",
            ]
    return "\n".join([*lines, "}", ""])


def _found_outputs(ops: Sequence[Op]) -> list[int]:
    """Returns the outputs whose shape the kernel has to find, since it equals no input's shape in some op."""
    found = {
        index
        for op in ops
        for index, tensor in enumerate(op.outputs)
        if not tensor.type.layout.is_static and alike_input(op, index) is None
    }
    return sorted(found)


def _is_copy(subjects: Sequence[Subject], index: int) -> bool:
    """Returns whether an output has the type of input 0 in all ops."""
    return all(
        s.op.inputs
        and s.op.inputs[0] is not None
        and s.op.inputs[0].type == s.op.outputs[index].type
        for s in subjects
    )


def _json(name: str, ops: Sequence[Op], options: Sequence[OptionEntry]) -> str:
    op, found = ops[0], _found_outputs(ops)
    arguments: list[Mapping[str, object]] = [
        {"input": i} for i, tensor in enumerate(op.inputs) if tensor is not None
    ]
    arguments += [{"output": i} for i in range(len(op.outputs))]
    arguments += [{"shape": {"output": i}} for i in found]
    description = {
        "version": 1,
        "sources": [f"{name}.cl"],
        "entry": name,
        "arguments": arguments,
        "defines": [{"name": o.define, "type": o.type, **o.source} for o in options],
        "work_sizes": {"global": [1] if found else ["B*F*Y*X"]},
    }
    fields = [f"  {json.dumps(key)}: {_json_value(value)}" for key, value in description.items()]
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _json_value(value: object) -> str:
    """Returns JSON in one line, or with one line for each of several objects."""
    if isinstance(value, list) and len(value) > 2:
        return "[\n" + ",\n".join(f"    {json.dumps(item)}" for item in value) + "\n  ]"
    return json.dumps(value)


def _xml(name: str, op_name: str, op: Op, options: Sequence[OptionEntry]) -> str:
    lines = [
        f'<CustomLayer name={quoteattr(op_name)} type="SimpleGPU" version="1">',
        f'  <Kernel entry="{name}">',
        f'    <Source filename="{name}.cl"/>',
    ]
    for option in options:
        if "option" in option.source:
            param = quoteattr(str(option.source["option"]))
            lines.append(f'    <Define name="{option.define}" param={param} type="{option.type}"/>')
    lines += ["  </Kernel>", "  <Buffers>"]
    tensors = [("input", i, t) for i, t in enumerate(op.inputs) if t is not None]
    tensors += [("output", i, t) for i, t in enumerate(op.outputs)]
    for index, (kind, port, tensor) in enumerate(tensors):
        order = "BYXF" if len(tensor.shape) == 4 else "BFYX"  # memory order of the tensor
        lines.append(
            f'    <Tensor arg-index="{index}" type="{kind}" port-index="{port}" format="{order}"/>'
        )
    lines += ["  </Buffers>", '  <WorkSizes global="B*F*Y*X"/>', "</CustomLayer>", ""]
    return "\n".join(lines)


def _reference(name: str, subjects: Sequence[Subject]) -> str:
    op = subjects[0].op
    found = _found_outputs([op])
    results = []
    for index, tensor in enumerate(op.outputs):
        shape = tuple(max(n, 0) for n in tensor.type.shape) if index in found else tensor.shape
        zeros = f"np.zeros({shape}, np.{tensor.element_type.numpy_dtype})"
        results.append("inputs[0].copy()" if _is_copy(subjects, index) else zeros)
    types = "\n".join(f"    {docstring_text(_about(subject))}" for subject in subjects)
    is_quantized = any(map(describe_quantization, (t.quantization for t in _tensors(op))))
    return f'''"""Reference of {name} in NumPy: `litert-npu layer run` compares the kernel's outputs with it."""

import numpy as np  # noqa: F401


def reference(inputs, options{", quantization" if is_quantized else ""}):
    """Replace this code by the computation of the op.

{types}

    Args:
      inputs: Input arrays, in the op's order; None for an omitted input.
      options: Options of the op: a dictionary, or the bytes of a C struct.{_QUANTIZATION if is_quantized else ""}

    Returns:
      The outputs.
    """
    return [{", ".join(results)}]
'''


def _about(subject: Subject) -> str:
    return f"{subject.title}: {describe_op(subject.op)}"


def _tensors(op: Op) -> list[Tensor]:
    return [tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None]


def _bounds(ops: Sequence[Op]) -> str:
    """Returns flags for inputs of dynamic shape and for shapes to find; the author fills in the bounds."""
    found = _found_outputs(ops)
    bounds = {
        tensor.name: "x".join(
            str(max(size, _BOUND) if is_open < 0 else size)
            for size, is_open in zip(tensor.shape, tensor.type.shape, strict=True)
        )
        for op in ops
        for tensor in (*op.inputs, *(op.outputs[index] for index in found))
        if tensor is not None and not tensor.type.layout.is_static
    }
    flags = (f"--shape_bounds={name}:{bound}" for name, bound in bounds.items())
    return "".join(f" {shell_word(flag)}" for flag in flags)


def _readme(name: str, asset: str, op_name: str, choice: str, model: str, flags: str) -> str:
    op = f"--model={shell_word(model)} --op={shell_word(choice)}{flags}"
    info = shell_word(f"{op_name},{asset}")
    return f"""# {markdown_text(op_name)}

Run these commands in this folder.

```bash
litert-npu layer check {asset} {op}
litert-npu layer run {asset} {op} --reference={name}_reference.py:reference
litert-npu layer check {asset} {op} --sanitize
apply_plugin --npu_custom_op_info={info}{flags} {shell_word(model)} compiled.tflite
```
"""
