"""The flags that say which layer, for which op: those that the commands of `layer` share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from litert.core.errors import LiteRtError
from litert.core.option import Flag
from litert.core.status import Status
from litert.model.reader import read_model
from vendor_reference.compiler.reference_options import OPTIONS, check_options

from ..command_line import usage_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from absl.flags import FlagValues

    from vendor_reference.authoring.compiled_layer import LayerOptions
    from vendor_reference.authoring.subject import OpChoice, Subject

_CHOICE = ("model", "op", "inputs", "outputs", "options")
_LAYER = ("soc_model", "asset_root", "allow_native_assets", "shape_bounds")


@dataclass(frozen=True, slots=True)
class Layer:
    """An asset, and the ops that it is tried on."""

    options: LayerOptions
    choice: OpChoice
    op_name: str
    subjects: Sequence[Subject]


@contextmanager
def open_ops(model_path: str, op: str) -> Iterator[tuple[str, Sequence[Subject]]]:
    """The name of the ops that the flags of `OP_FLAGS` mean, and each different one.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG without a model; NOT_FOUND, if there is no such op.
    """
    from vendor_reference.authoring.subject import OpChoice, choose_op_name, find_subjects

    if not model_path:
        raise usage_error(
            "no model", "Give --model=FILE, and --op where it has several custom ops."
        )
    choice = OpChoice(model_path, op)
    with read_model(model_path) as model:
        name = choose_op_name(choice, "", model)
        yield name, find_subjects(choice, name, model)


OP_FLAGS = (
    Flag("model", "", "A model whose ops the layer is for."),
    Flag(
        "op",
        "",
        "The op: its name, or its index in the main subgraph; by default the one named like FILE, or the "
        "only custom op.",
    ),
    *(Flag(name, "", explanation) for name, explanation in OPTIONS.items()),
)


def given_vendor_options(flags: FlagValues) -> dict[str, str]:
    """The options of the reference vendor that were given, by name.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, for a value that one cannot have.
    """
    given = {name: str(flags[name].value) for name in OPTIONS if flags[name].present}
    check_options(given)
    return given


LAYER_FLAGS = (
    *OP_FLAGS,
    Flag("inputs", "", "Without a model: the op's inputs, as 1x8x8x4xf32,4xi32."),
    Flag("outputs", "", "Likewise its outputs."),
    Flag(
        "options",
        "",
        "Likewise its options: JSON of a FlexBuffer map, or @FILE with the bytes of a C struct.",
    ),
    Flag(
        "shape_bounds",
        (),
        "input:100x3x300x300: the largest shape of an input of the op that has a dynamic one. Once for each. "
        "May be repeated.",
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


def layer_request(flags: FlagValues, path: str) -> dict[str, object]:
    """What the flags of `LAYER_FLAGS` say, for `open_layer` in a child process."""
    return {
        "path": path,
        "vendor_options": given_vendor_options(flags),
        **{name: flags[name].value for name in (*_CHOICE, *_LAYER)},
    }


@contextmanager
def open_frozen_layer(request: Mapping[str, object]) -> Iterator[Layer]:
    """Like `open_layer`, on the shapes that the model starts with, which need no bounds.

    Raises:
      LiteRtError: as `open_layer`.
    """
    from dataclasses import replace

    from vendor_reference.authoring.layer_run import freeze_shapes

    with open_layer(request) as layer:
        for subject in layer.subjects:
            freeze_shapes(subject.model)
        yield replace(layer, options=replace(layer.options, shape_bounds={}))


@contextmanager
def open_layer(request: Mapping[str, object]) -> Iterator[Layer]:
    """The layer, and each different op that it is for; the model that they are in stays open.

    Raises:
      LiteRtError: NOT_FOUND, if there is no such op; INVALID_TOOL_CONFIG, if nothing says what op is meant, or a
      bound is of no tensor.
    """
    from compiler_plugin.checks import check_shape_bounds
    from litert.core.compiler_options import parse_shape_bounds
    from vendor_reference.authoring.compiled_layer import LayerOptions, described_names
    from vendor_reference.authoring.subject import (
        OpChoice,
        choose_op_name,
        find_subjects,
        given_subject,
    )

    choice = OpChoice(**{name: str(request[name]) for name in _CHOICE})
    path = str(request["path"])
    options = LayerOptions(
        path,
        str(request["soc_model"]),
        str(request["asset_root"]),
        bool(request["allow_native_assets"]),
        parse_shape_bounds(cast("list[str]", request["shape_bounds"])),
        cast("dict[str, str]", request["vendor_options"]),
    )
    described = described_names(path, options.asset_root)
    if not choice.model:
        name = choose_op_name(choice, path, None, described)
        subject = given_subject(choice, name)
        check_shape_bounds(subject.model, options.shape_bounds)
        yield Layer(options, choice, name, [subject])
        return
    if choice.inputs or choice.outputs or choice.options:
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            "a model, and shapes or options beside it",
            hint="Give --model, or --inputs, --outputs and --options.",
        )
    with read_model(choice.model) as model:
        check_shape_bounds(model, options.shape_bounds)
        name = choose_op_name(choice, path, model, described)
        yield Layer(options, choice, name, find_subjects(choice, name, model))
