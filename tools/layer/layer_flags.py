"""Flags that choose a layer and its op, shared by the commands of `layer`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from litert.core.input_file import check_input
from litert.core.option import Flag
from litert.model.reader import read_model
from vendor_reference.compiler.reference_options import OPTIONS, check_options

from ..command_line import FlagValues, usage_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vendor_reference.authoring.compiled_layer import LayerOptions
    from vendor_reference.authoring.subject import Subject

_CHOICE = ("model", "op", "inputs", "outputs", "options")
_LAYER = ("soc_model", "asset_root", "allow_native_assets", "shape_bounds", "timeout_s")


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer, and the ops for which the command checks or runs the layer."""

    options: LayerOptions
    op_name: str
    subjects: Sequence[Subject]


@contextmanager
def open_ops(flags: FlagValues) -> Iterator[tuple[str, Sequence[Subject]]]:
    """Opens a model; provides the op name that `OP_FLAGS` select, and the ops with this name (equal ops once)."""
    from vendor_reference.authoring.subject import OpChoice, choose_op_name, find_subjects

    if not flags.model:
        raise usage_error(
            "the command line has no model",
            "Give --model=FILE, and --op if the model has several custom ops.",
        )
    choice = OpChoice(flags.model, flags.op)
    with read_model(flags.model) as model:
        name = choose_op_name(choice, "", model)
        yield name, find_subjects(choice, name, model)


REFERENCE_FLAGS = tuple(Flag(name, "", explanation) for name, explanation in OPTIONS.items())
"""The options of the reference vendor, as flags."""

_OP = Flag(
    "op",
    "",
    "The op that the layer implements: the op's name, its index in the main subgraph, or "
    "SUBGRAPH:INDEX. The default is the model's only custom op.",
)

OP_FLAGS = (
    Flag("model", "", "A model with the op that the layer implements."),
    _OP,
    *REFERENCE_FLAGS,
)
"""Flags that choose an op, for commands that write a new layer."""


def given_vendor_options(flags: FlagValues) -> dict[str, str]:
    """Returns the reference vendor's options that the command line sets, by name."""
    given = {name: str(flags[name].value) for name in OPTIONS if flags[name].present}
    check_options(given)
    return given


LAYER_FLAGS = (
    OP_FLAGS[0],
    _OP._replace(
        help="The op that the layer implements: the op's name, its index in the main subgraph, or "
        "SUBGRAPH:INDEX. By default, the command chooses the op whose name is the name of FILE "
        "(without .cl, .json and so on) or of a layer in FILE. If the model has no such op, the "
        "default is the model's only custom op."
    ),
    *REFERENCE_FLAGS,
    Flag(
        "inputs",
        "",
        "Shapes and types of the op's inputs, for use without --model, as 1x8x8x4xf32,4xi32. "
        "Integer types may have a scale and a zero point, as in 1x8xi8:0.05:3.",
    ),
    Flag(
        "outputs",
        "",
        "Shapes and types of the op's outputs, for use without --model, as in "
        "--inputs. In a shape, ? stands for a size that is known only at run time.",
    ),
    Flag(
        "options",
        "",
        "Options of the op, for use without --model. Write options that are a FlexBuffer map as "
        'JSON, such as {"alpha": 2.0}. For options that are a C struct, write @FILE, where '
        "FILE contains the struct's bytes.",
    ),
    Flag(
        "shape_bounds",
        (),
        "The largest shape of a dynamic tensor of the op, as NAME:SHAPE with the tensor's name, "
        "for example keep:100. Give the flag once for each tensor.",
        is_repeated=True,
    ),
    Flag(
        "soc_model",
        "",
        "Model of the emulated NPU to compile for: EMU8 (the default), EMU4 or EMU16.",
    ),
    Flag(
        "asset_root",
        "",
        (
            "Folder that must contain every file that is mentioned in FILE. The default is the "
            "folder of FILE."
        ),
    ),
    Flag("allow_native_assets", False, "Allow machine code in FILE to run."),
    Flag(
        "timeout_s",
        60.0,
        "Time limit of each build and of each run, in seconds.",
        least=0.1,
        is_duration=True,
    ),
)


def layer_request(flags: FlagValues, path: str, *own: str) -> dict[str, Any]:
    """Returns the values of `LAYER_FLAGS` and of a command's own flags, for `open_layer` in a child process."""
    check_input(path)
    values = {name: flags[name].value for name in (*_CHOICE, *_LAYER, *own)}
    return {"path": path, "vendor_options": given_vendor_options(flags), **values}


@contextmanager
def open_layer(request: Mapping[str, Any], *, is_frozen: bool = False) -> Iterator[Layer]:
    """Provides a layer and the ops that it implements (equal ops once); keeps the model open during the block.

    Args:
      request: Result of `layer_request`.
      is_frozen: Whether dynamic shapes are replaced by the model's initial shapes. If so, bounds are needed only
        for outputs whose shapes a kernel computes.
    """
    from compiler_plugin.checks import check_shape_bounds
    from litert.core.compiler_options import CompilerOptions, parse_shape_bounds
    from vendor_reference.authoring.compiled_layer import LayerOptions, described_names
    from vendor_reference.authoring.subject import (
        OpChoice,
        choose_op_name,
        find_subjects,
        given_subject,
    )

    choice = OpChoice(**{name: request[name] for name in _CHOICE})
    path = request["path"]
    compiler = CompilerOptions(
        asset_root=request["asset_root"],
        allow_native_assets=request["allow_native_assets"],
        shape_bounds=parse_shape_bounds(request["shape_bounds"]),
        vendor_options=request["vendor_options"],
    )
    described = described_names(path, compiler.asset_root)
    if choice.model and (choice.inputs or choice.outputs or choice.options):
        raise usage_error(
            "the command line has both --model, and shapes or options of an op",
            "Give either --model, or --inputs, --outputs and --options.",
        )
    with read_model(choice.model) if choice.model else nullcontext() as model:
        name = choose_op_name(choice, path, model, described)
        subjects = find_subjects(choice, name, model) if model else [given_subject(choice, name)]
        check_shape_bounds(model or subjects[0].model, compiler.shape_bounds)
        options = LayerOptions(path, compiler, request["soc_model"])
        if is_frozen:
            from vendor_reference.authoring.layer_run import freeze_shapes

            for subject in subjects:
                freeze_shapes(subject, options)
        yield Layer(options, name, subjects)
