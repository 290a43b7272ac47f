"""Checks that the byte code contains weights only once if two partitions share these weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from compiler_plugin.outline import Partition, extract
from litert.conformance.checks import BrokenRuleError, Check, Rules, Stage, UnseenError
from litert.conformance.plugin_subject import NamedModel, Plugin, PluginSubject
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.graph import Buffer, Subgraph, Tensor

_LEAST = 64 << 10
"""Least size of weights for this check, in bytes; the size of smaller weights is hard to see in the byte code."""

_MOST_MODELS = 3


def _stored_once(subject: PluginSubject) -> None:
    is_seen = False
    for name, partition in islice(_with_weights(subject), _MOST_MODELS):
        with subject.plugin() as plugin:
            one = _size(plugin, extract([partition]))
            shared = _size(plugin, extract([partition, partition]))
            own = _size(plugin, [*extract([partition]), _with_other_weights(partition)])
        if own - one < _LEAST // 16:
            continue  # the plugin compresses weights, or keeps them elsewhere
        is_seen = True
        if own - shared < (own - one) // 4:
            raise BrokenRuleError(
                f"{name}: two partitions with the same weights make {shared:,} bytes of byte code, "
                f"two partitions with different weights {own:,}, and one partition {one:,}"
            )
    if not is_seen:
        raise UnseenError(
            f"the byte code of no op grows with its weights, or no weights have {_LEAST >> 10} KiB: "
            "give a model with --model"
        )


def _with_weights(subject: PluginSubject) -> Iterator[tuple[str, Partition]]:
    """Finds the first partition with large weights in each model."""
    for model in (*subject.models, *_weighted_models()):
        for partition in subject.partitions(model):
            read = dict.fromkeys(tensor for op in partition.ops for tensor in op.inputs)
            if sum(len(tensor.data) for tensor in _weights(read)) >= _LEAST:
                yield model.name, partition
                break


def _weights(tensors: Iterable[Tensor | None]) -> Iterator[Tensor]:
    """Finds the weights of a partition: its large constants, without axes, shapes and other small constants."""
    for tensor in tensors:
        if tensor is not None and len(tensor.data) >= _LEAST // 4:
            yield tensor


def _size(plugin: Plugin, copies: Sequence[Subgraph]) -> int:
    with plugin.compile_copies(copies) as result:
        return sum(map(len, result.modules()))


def _with_other_weights(partition: Partition) -> Subgraph:
    """Copies a model, and changes the order of the numbers in its weights."""
    (copy,) = extract([partition])
    for tensor in _weights(copy.tensors):
        step = max(tensor.element_type.bits // 8, 1)
        tensor.buffer = Buffer(Blob(bytes(tensor.data[step:]) + bytes(tensor.data[:step])))
    return copy


def _weighted_models() -> Iterator[NamedModel]:
    import numpy as np

    numbers = np.random.default_rng(0)
    for op, shape, weights, options in (
        ("MUL", (1, 32, 32, 32), (1, 32, 32, 32), {}),
        ("FULLY_CONNECTED", (1, 256), (256, 256), {}),
        ("CONV_2D", (1, 4, 4, 64), (64, 3, 3, 64), {"stride_w": 1, "stride_h": 1}),
    ):
        builder = ModelBuilder()
        inputs = [builder.input("x", "float32", shape)]
        inputs.append(builder.constant("w", numbers.uniform(-1, 1, weights).astype(np.float32)))
        if op != "MUL":
            inputs.append(builder.constant("b", np.zeros(weights[0], np.float32)))
        builder.output(builder.op(op, inputs, [("y", "float32", shape)], **options))
        yield NamedModel(f"{op} of large weights", builder.build())


_NEEDS = ("plugin.symbols", "create.ok", "create.again", "partition.ops", "compile.ok")

RULES = Rules(
    Stage.VARIATIONS,
    (
        Check(
            "compile.shared_weights",
            _stored_once,
            needs=(*_NEEDS, "result.modules", "result.byte_code", "result.calls"),
        ),
    ),
)
