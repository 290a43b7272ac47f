"""What is asked of the transformations: the flags of `apply_plugin` and of `litert-npu transform`, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

DEFAULT_FOLD_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class TransformOptions:
    """Which transformations run, and how. By default none does, and nothing of them is imported.

    Attributes:
      extensions: folders of the user's; their enabled transformations run.
      selection: names of transformations, in the order in which those of one phase run; `all` is each enabled one,
        `front`, `middle` or `back` each enabled one of that phase; a `-` in front takes out what it names.
      config: files of JSON that describe sub-graphs to replace.
      ops_mapping: a file of JSON that declares ops; "" for none.
      static_shape: whether shapes count as constants: the model is resizable no more.
      keep_layout: whether partitions stay in NHWC, though their vendor asks for NCHW.
      fold_limit: how many bytes constant folding may add to the file.
      dump_model_after: name of a transformation after which the model is written; `all` for each; "" for none.
      dump_folder: where to; made if it is not there.
    """

    extensions: Sequence[str] = ()
    selection: Sequence[str] = ()
    config: Sequence[str] = ()
    ops_mapping: str = ""
    static_shape: bool = False
    keep_layout: bool = False
    fold_limit: int = DEFAULT_FOLD_LIMIT
    dump_model_after: str = ""
    dump_folder: str = ""

    @property
    def is_asked(self) -> bool:
        """Whether any transformation may run."""
        return bool(self.extensions or self.selection or self.config or self.ops_mapping)


class Phase(Enum):
    """A phase; its value is the name of its folder of extensions. They run in this order.

    In `FRONT` the shapes of inputs and constants are known, and no others. Then shapes are inferred: in `MIDDLE`
    all are known, as far as the model fixes them. `BACK` comes after the layout change, where there is one.
    """

    FRONT = "front"
    MIDDLE = "middle"
    BACK = "back"
