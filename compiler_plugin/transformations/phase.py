"""The phases that a model goes through: what is known of a graph, and who may change it."""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """A phase; its value is the name of its folder of extensions. They run in this order.

    In `FRONT` the shapes of inputs and constants are known, and no others. Then shapes are inferred: in `MIDDLE`
    all are known, as far as the model fixes them. `BACK` comes after the layout change, where there is one.
    """

    FRONT = "front"
    MIDDLE = "middle"
    BACK = "back"
