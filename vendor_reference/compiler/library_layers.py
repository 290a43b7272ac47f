"""Makes an IE layer with attributes for each op of the library, for example `IE.Add` or `IE.Sigmoid`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.traits import OpTrait, Pure
from xdsl.utils.exceptions import VerifyException

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.ir.plain import plain_attribute, plain_value
from vendor_reference.compiler.ir.types import (
    IrType,
    element_type_of,
    placement_of,
    shape_of,
    view_of,
)
from vendor_reference.compiler.levels.layer import (
    LayerOp,
    LayoutAgnostic,
    SharesMemory,
    read_input_sizes,
)
from vendor_reference.compiler.library.chain import CHAIN
from vendor_reference.compiler.library.dynamic_kernel import (
    DynamicTensor,
    Sizes,
    dynamic_call,
    dynamic_kernel,
    result_sizes,
)
from vendor_reference.compiler.library.library_op import (
    Attributes,
    LibraryOp,
    PlacedOp,
    library_ops,
)
from vendor_reference.compiler.library.views import Placement, View
from vendor_reference.compiler.tensor_requirements import Requirements
from vendor_reference.custom_layers.kernel_spec import KernelSpec


class LibraryLayer(LayerOp):
    """An IE layer of a builtin op; `library_layers` makes a subclass for each op."""

    @staticmethod
    def rule() -> LibraryOp:
        """Returns the rules of the library for the op."""
        raise NotImplementedError

    def requirements(self) -> Requirements:
        asked, wanted = super().requirements(), self.rule().precision
        if wanted is None:
            return asked
        inputs, outputs = (
            tuple(replace(tensor, precision=wanted) for tensor in tensors)
            for tensors in (asked.inputs, asked.outputs)
        )
        return Requirements(inputs, outputs)

    @classmethod
    def kernel_spec(
        cls,
        inputs: Sequence[IrType],
        outputs: Sequence[IrType],
        attributes: Mapping[str, Attribute],
    ) -> KernelSpec:
        rule = cls.rule()
        cls._check_precision([*inputs, *outputs])
        if reason := rule.port_mismatch(len(inputs), len(outputs)):
            raise LiteRtError(Status.UNSUPPORTED, f"{cls.name}: {reason}")
        views = [view_of(t) for t in (*inputs, *outputs)]
        call = PlacedOp.of(views, len(outputs), read_attributes(attributes))
        if reason := rule.misfit(call):
            raise LiteRtError(Status.UNSUPPORTED, f"{cls.name}: {reason}")
        return rule.kernel(call)

    @classmethod
    def dynamic_kernel_spec(
        cls,
        inputs: Sequence[IrType],
        outputs: Sequence[IrType],
        attributes: Mapping[str, Attribute],
    ) -> KernelSpec:
        cls._check_precision([*inputs, *outputs])
        operands, results = _placements(inputs, outputs, attributes)
        return dynamic_kernel(cls.rule(), operands, results, read_attributes(attributes))

    @classmethod
    def dynamic_call(
        cls,
        inputs: Sequence[Attribute],
        outputs: Sequence[Attribute],
        attributes: Mapping[str, Attribute],
    ) -> PlacedOp:
        """Returns an op on buffers of the given types, whose shapes are known only at run time."""
        operands, results = _placements(inputs, outputs, attributes)
        return dynamic_call(cls.rule(), operands, results, read_attributes(attributes))

    @classmethod
    def _check_precision(cls, types: Sequence[IrType]) -> None:
        """Rejects types that `convert-precisions` should have converted for the kernel."""
        wanted = cls.rule().precision
        if wanted is not None and any(element_type_of(t) is not wanted for t in types):
            what = (
                f"the kernel of {cls.name} supports only tensors of type {wanted.name}, but the op has other "
                "types"
            )
            hint = "Run the pass convert-precisions before this pass."
            raise LiteRtError(Status.UNSUPPORTED, what, hint=hint)

    @classmethod
    def result_sizes(
        cls, inputs: Sequence[Sizes], attributes: Mapping[str, Attribute]
    ) -> Sequence[Sizes]:
        return result_sizes(cls.rule(), inputs, read_attributes(attributes))

    def verify_(self) -> None:
        super().verify_()
        rule = self.rule()
        if reason := rule.port_mismatch(len(self.inputs), len(self.outputs)):
            raise VerifyException(reason)
        shapes = [shape_of(value.type) for value in (*self.inputs, *self.outputs)]
        if self.input_shapes or any(size < 0 for shape in shapes for size in shape):
            return  # only a run can check whether the shapes fit
        types = [element_type_of(value.type) for value in (*self.inputs, *self.outputs)]
        views = [View.dense(t, shape) for t, shape in zip(types, shapes, strict=True)]
        call = PlacedOp.of(views, len(self.outputs), read_attributes(self.attributes))
        if reason := rule.misfit(call):
            raise VerifyException(reason)


@cache
def library_layers() -> Mapping[str, type[LibraryLayer]]:
    """Returns the layer of each op of the library, by the op's name in the schema, and the layer `IE.Chain`."""
    rules = {**library_ops(), CHAIN.name: CHAIN}
    return MappingProxyType({name: _layer(rule) for name, rule in rules.items()})


def _placements(
    inputs: Sequence[Attribute],
    outputs: Sequence[Attribute],
    attributes: Mapping[str, Attribute],
) -> tuple[Sequence[DynamicTensor], Sequence[Placement]]:
    """Returns operands and results with run-time shapes; their types have the largest shapes."""
    sizes = read_input_sizes(attributes, inputs)
    operands = [
        DynamicTensor(placement_of(t), own, shape_of(t))
        for t, own in zip(inputs, sizes, strict=True)
    ]
    return operands, list(map(placement_of, outputs))


def layer_attributes(attributes: Attributes) -> dict[str, Attribute]:
    """Converts attributes of the library to IR attributes of a layer."""
    return {name: plain_attribute(value) for name, value in attributes.items()}


def read_attributes(attributes: Mapping[str, Attribute]) -> Attributes:
    """Converts IR attributes of a layer to attributes of the library.

    The function ignores IR attributes of kinds that the library does not use.
    """
    values = {}
    for name, attribute in attributes.items():
        value = plain_value(attribute)
        if isinstance(attribute, DenseArrayBase):
            value = attribute.get_values()
        if isinstance(value, (bool, int, float, str, tuple)):
            values[name] = value
    return values


def _layer(rule: LibraryOp) -> type[LibraryLayer]:
    traits: list[OpTrait] = [Pure()]
    if rule.is_layout_agnostic:
        traits.append(LayoutAgnostic())
    if rule.is_view:
        traits.append(SharesMemory())
    fields = {
        "name": f"IE.{rule.ie_name}",
        "rule": staticmethod(lambda: rule),
        "traits": traits_def(*traits),
        "__annotations__": {},
        "__doc__": f"{rule.name} of TFLite.",
    }
    return irdl_op_definition(type(f"{rule.ie_name}Op", (LibraryLayer,), fields))
