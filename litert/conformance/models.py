"""Makes small models for the checks of a vendor: models of probes and of custom ops."""

from __future__ import annotations

from collections.abc import Sequence

from litert.conformance.plugin_subject import NamedModel
from litert.conformance.probe import find_probes
from litert.model.builder import ModelBuilder

_SHAPE = (1, 4, 4, 8)


def custom_op_models(names: Sequence[str]) -> list[NamedModel]:
    """Makes a model for each custom op, with one float input and one float output."""
    models = []
    for name in names:
        builder = ModelBuilder()
        x = builder.input("x", "float32", _SHAPE)
        builder.output(builder.custom(name, [x], [("y", "float32", _SHAPE)]))
        models.append(NamedModel(name, builder.build()))
    return models


def default_models() -> list[NamedModel]:
    """Makes the models of all probes."""
    return [
        NamedModel(probe.name, probe.build(), (probe.lowest, probe.highest))
        for probe in find_probes()
    ]
