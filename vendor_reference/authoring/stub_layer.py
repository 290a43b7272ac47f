"""Creates a kernel that does nothing, to measure how fast the network would run if the layer took no time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from litert.core.quoting import shell_word
from vendor_reference.authoring.new_layer import c_name, flags_text
from vendor_reference.authoring.subject import Subject, check_alike


def stub_layer(op_name: str, subjects: Sequence[Subject]) -> dict[str, str]:
    """Returns the texts of a description and its kernel by file name.

    The kernel compiles for all ops named `op_name`.
    """
    numbers = [len(subject.op.outputs) for subject in subjects]
    what = (
        f"one layer cannot implement all '{op_name}' ops of the model, because they have different numbers of "
        "outputs"
    )
    check_alike(numbers, what, "")
    number = numbers[0]
    name = f"{c_name(op_name)}_stub"
    declared = ", ".join(f"__global OUTPUT{i}_TYPE* output{i}" for i in range(number))
    description = {
        "version": 1,
        "description": f"{op_name} as if it took no time: the kernel does not write its outputs",
        "sources": [f"{name}.cl"],
        "entry": name,
        "arguments": [{"output": index} for index in range(number)],
        "work_sizes": {"global": [1]},
    }
    return {
        f"{name}.cl": f"__kernel void {name}({declared}) {{}}\n",
        f"{name}.json": json.dumps(description, indent=2) + "\n",
    }


def stub_commands(
    op_name: str, asset: str, model: str, vendor_options: Mapping[str, str]
) -> Sequence[str]:
    """Returns command lines that measure the network's time without the layer's time."""
    info, path = shell_word(f"{op_name},{asset}"), shell_word(model)
    return [
        f"apply_plugin{flags_text(vendor_options)} --npu_custom_op_info={info} {path} stub.tflite",
        f"litert-npu benchmark stub.tflite --stock_model={path}",
    ]
