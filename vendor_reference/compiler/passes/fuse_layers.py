"""`fuse-layers`: fuses padding, biases, residual additions and activations into convolutions and matrix products.

    %1 = IE.Pad(%0) {before = array<i64: 0, 1, 1, 0>, after = array<i64: 0, 1, 1, 0>, value = 0.0 : f64}
    %2 = IE.Convolution(%1, %w, %b) {pads_begin = array<i64: 0, 0>, ...}
    %3 = IE.Add(%2, %x)
    %4 = IE.ReLU(%3)

    %4 = IE.Convolution(%0, %w, %b, %x) {pads_begin = array<i64: 1, 1>, residual = "before", activation = "RELU"}

The field `fuses` of a layer's rule contains the kinds of ops that can be fused into the layer; the rule's method
`mismatch` checks the fused layer. Tensors between fused layers disappear; only the name of the last tensor
remains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from vendor_reference.compiler.ir.edits import remove_op, replace_op
from vendor_reference.compiler.ir.names import bodies, functions_of, keep_names, read_taps
from vendor_reference.compiler.ir.types import element_type_of, shape_of
from vendor_reference.compiler.library.convolutions import (
    CONVOLUTION_ACTIVATIONS,
    HAS_BIAS,
    RESIDUAL,
)
from vendor_reference.compiler.library.library_op import Attributes, Fusion, PlacedOp, Value
from vendor_reference.compiler.library.traced_size import NotTraceableError
from vendor_reference.compiler.library.views import View
from vendor_reference.compiler.library.windows import (
    ACTIVATION,
    PADS_BEGIN,
    PADS_END,
    PRELU,
)
from vendor_reference.compiler.library_layers import (
    LibraryLayer,
    layer_attributes,
    read_attributes,
)
from vendor_reference.compiler.open_shapes import OpenShapes
from vendor_reference.compiler.pass_pipeline import CompilerPass

_BEFORE, _BEHIND = "before", "behind"
_NONE = "NONE"


@dataclass(frozen=True)
class FuseLayers(CompilerPass):
    """Fuses padding, biases, additions and activations into adjacent convolutions and matrix products."""

    name = "fuse-layers"
    AFTER = "convert-precisions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = functions_of(op)
        for function, block in bodies(op):
            _BlockFusion(block, OpenShapes(function, functions)).run()


PASS = FuseLayers


class _BlockFusion:
    """Walks over a function from the first layer."""

    def __init__(self, block: Block, shapes: OpenShapes) -> None:
        self._block = block
        self._shapes = shapes
        self._places = {op: place for place, op in enumerate(block.ops)}

    def run(self) -> None:
        for layer in list(self._block.ops):
            if isinstance(layer, LibraryLayer) and not self._fuse_into_producer(layer):
                _fuse_padding(layer, self._shapes)

    def _fuse_into_producer(self, layer: LibraryLayer) -> bool:
        """Fuses an activation or an addition into the layer whose result it reads, if that layer can take it."""
        name = layer.rule().name
        if name in CONVOLUTION_ACTIVATIONS:
            host = _only_reader(layer.inputs[0], layer, Fusion.ACTIVATION)
            if host is None or _activation(host) != _NONE:
                return False
            return self._fuse_activation(host, layer)
        if name != "ADD":
            return False
        fusions = Fusion.RESIDUAL, Fusion.BIAS
        hosts = [_only_reader(value, layer, *fusions) for value in layer.inputs]
        # The later producer: the other producer's result exists by then.
        later_first = sorted(filter(None, hosts), key=self._places.__getitem__, reverse=True)
        return any(self._fuse_addition(host, layer) for host in later_first)

    def _fuse_activation(self, host: LibraryLayer, layer: LibraryLayer) -> bool:
        name, inputs = layer.rule().name, list(host.inputs)
        if name == PRELU:
            if not _is_by_channel(slope := layer.inputs[1], layer.outputs[0]):
                return False
            inputs.append(slope)
        return self._replace(host, layer, inputs, {ACTIVATION: name})

    def _fuse_addition(self, host: LibraryLayer, layer: LibraryLayer) -> bool:
        others = [value for value in layer.inputs if value is not host.outputs[0]]
        if len(others) != 1 or RESIDUAL in host.attributes:
            return False
        activation, inputs = _activation(layer), [*host.inputs, others[0]]
        if _lacks_bias(host) and _is_by_channel(others[0], layer.outputs[0]):
            has_bias = {HAS_BIAS: True} if HAS_BIAS in host.attributes else {}
            return self._replace(host, layer, inputs, {**has_bias, ACTIVATION: activation})
        if others[0].type != layer.outputs[0].type or Fusion.RESIDUAL not in host.rule().fuses:
            return False
        if _activation(host) == _NONE:
            given = {RESIDUAL: _BEFORE, ACTIVATION: activation}
            return self._replace(host, layer, inputs, given)
        if _activation(host) == PRELU:
            inputs = [*host.inputs[:-1], others[0], host.inputs[-1]]
        is_behind = activation == _NONE
        return is_behind and self._replace(host, layer, inputs, {RESIDUAL: _BEHIND})

    def _replace(
        self,
        host: LibraryLayer,
        layer: LibraryLayer,
        inputs: Sequence[SSAValue],
        given: Mapping[str, Value],
    ) -> bool:
        """Replaces both layers by one of the host's kind, if there is such a kernel."""
        result, attributes = layer.outputs[0], {**read_attributes(host.attributes), **given}
        if not _takes(host, [self._shapes.view(v) for v in (*inputs, result)], attributes):
            return False
        fused = type(host)(inputs, [result.type], {**host.attributes, **layer_attributes(given)})
        keep_names(layer, fused)
        self._places[fused] = self._places[layer]
        replace_op(layer, fused)
        remove_op(host)
        return True


def _fuse_padding(layer: LibraryLayer, shapes: OpenShapes) -> None:
    """Fuses zeros around the input of a convolution into the convolution."""
    pad = layer.inputs[0].owner
    is_pad = isinstance(pad, LibraryLayer) and pad.rule().name in ("PAD", "PADV2")
    if not is_pad or Fusion.PADDING not in layer.rule().fuses:
        return
    assert isinstance(pad, LibraryLayer)
    around, own = read_attributes(pad.attributes), read_attributes(layer.attributes)
    given: dict[str, Value] = {}
    for name, added in ((PADS_BEGIN, around["before"]), (PADS_END, around["after"])):
        pads = own.get(name)
        if not isinstance(added, tuple) or not isinstance(pads, tuple) or len(added) != 4:
            return
        batches, *rows_and_columns, channels = (int(number) for number in added)
        if batches or channels:
            return
        given[name] = tuple(int(a) + b for a, b in zip(pads, rows_and_columns, strict=True))
    tensors = [pad.inputs[0], *layer.inputs[1:], layer.outputs[0]]
    views = [shapes.view(tensor) for tensor in tensors]
    if around["value"] == 0 and _takes(layer, views, {**own, **given}):
        layer.operands[0] = pad.inputs[0]
        layer.attributes.update(layer_attributes(given))
        if pad.outputs[0].first_use is None:
            remove_op(pad)


def _only_reader(value: SSAValue, reader: LibraryLayer, *fusions: Fusion) -> LibraryLayer | None:
    """Returns the layer that makes a value, if it takes one of the fusions, and the value has no other reader."""
    made = value.owner
    if not isinstance(made, LibraryLayer) or not set(fusions) & set(made.rule().fuses):
        return None
    is_shown = any(read_taps(made.attributes))
    return made if value.has_one_use() and made.parent is reader.parent and not is_shown else None


def _lacks_bias(layer: LibraryLayer) -> bool:
    """Returns whether a layer can have a bias, and no op is fused after its sum yet."""
    takes_one = Fusion.BIAS in layer.rule().fuses and len(layer.inputs) == 2
    return takes_one and _activation(layer) == _NONE


def _is_by_channel(value: SSAValue, result: SSAValue) -> bool:
    """Returns whether a value has a number for each channel of a result, and the result's type."""
    shape = shape_of(value.type)
    is_type = element_type_of(value.type) is element_type_of(result.type)
    return is_type and shape == (*[1] * (len(shape) - 1), *shape_of(result.type)[-1:])


def _activation(layer: LibraryLayer) -> str:
    return str(read_attributes(layer.attributes).get(ACTIVATION, _NONE))


def _takes(layer: LibraryLayer, tensors: Sequence[View], attributes: Attributes) -> bool:
    """Returns whether a layer of that kind takes operands and a result with all run-time shapes."""
    try:
        return not layer.rule().mismatch(PlacedOp.of(tensors, 1, attributes))
    except NotTraceableError:
        return False
