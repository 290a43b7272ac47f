"""The flags that say which layer, for which op: those that the commands of `layer` share."""

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
    """An asset, and the ops that it is tried on."""

    options: LayerOptions
    op_name: str
    subjects: Sequence[Subject]


@contextmanager
def open_ops(flags: FlagValues) -> Iterator[tuple[str, Sequence[Subject]]]:
    """The name of the ops that `OP_FLAGS` mean, and each different one."""
    from vendor_reference.authoring.subject import OpChoice, choose_op_name, find_subjects

    if not flags.model:
        raise usage_error(
            "no model", "Give --model=FILE, and --op where it has several custom ops."
        )
    choice = OpChoice(flags.model, flags.op)
    with read_model(flags.model) as model:
        name = choose_op_name(choice, "", model)
        yield name, find_subjects(choice, name, model)


REFERENCE_FLAGS = tuple(Flag(name, "", explanation) for name, explanation in OPTIONS.items())
"""The options of the reference vendor, as flags."""

OP_FLAGS = (
    Flag("model", "", "A model whose ops the layer is for."),
    Flag(
        "op",
        "",
        "The op: its name, or its place, which is its index in the main subgraph or SUBGRAPH:INDEX; by default "
        "the one named like FILE, or the only custom op.",
    ),
    *REFERENCE_FLAGS,
)


def given_vendor_options(flags: FlagValues) -> dict[str, str]:
    """The options of the reference vendor that were given, by name."""
    given = {name: str(flags[name].value) for name in OPTIONS if flags[name].present}
    check_options(given)
    return given


LAYER_FLAGS = (
    *OP_FLAGS,
    Flag(
        "inputs",
        "",
        "Without a model: the op's inputs, as 1x8x8x4xf32,4xi32; behind integers may stand scale and zero point, "
        "as in 1x8xi8:0.05:3.",
    ),
    Flag("outputs", "", "Likewise its outputs; ? is a size that a run tells."),
    Flag(
        "options",
        "",
        "Likewise its options: JSON of a FlexBuffer map, or @FILE with the bytes of a C struct.",
    ),
    Flag(
        "shape_bounds",
        (),
        "keep:100: the largest shape of a tensor of the op that is dynamic. Once for each. May be repeated.",
        is_repeated=True,
    ),
    Flag("soc_model", "", "For which SoC model; EMU8 by default."),
    Flag("asset_root", "", "The folder that files named by FILE may lie in, in place of its own."),
    Flag("allow_native_assets", False, "Whether machine code in FILE may run."),
    Flag(
        "timeout_s",
        60.0,
        "Seconds after which a build or a run is stopped.",
        least=0.1,
        is_duration=True,
    ),
)


def layer_request(flags: FlagValues, path: str, *own: str) -> dict[str, Any]:
    """What `LAYER_FLAGS` and a command's own flags say of an asset, for `open_layer` in a child process."""
    check_input(path)
    values = {name: flags[name].value for name in (*_CHOICE, *_LAYER, *own)}
    return {"path": path, "vendor_options": given_vendor_options(flags), **values}


@contextmanager
def open_layer(request: Mapping[str, Any], *, is_frozen: bool = False) -> Iterator[Layer]:
    """The layer, and each different op that it is for; the model that they are in stays open.

    Args:
      request: of `layer_request`.
      is_frozen: whether ops have the shapes that the model starts with; only outputs whose shape a kernel finds
        need bounds.
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
            "a model, and shapes or options beside it",
            "Give --model, or --inputs, --outputs and --options.",
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
