"""Options that choose transformations; `apply_plugin` and `litert-npu transform` have a flag for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from litert.core.compiler_options import parse_shapes, write_shapes
from litert.core.option import Flag, Goes, Section, option

DEFAULT_FOLD_LIMIT = 1 << 20
DATA_LAYOUTS = ("NHWC", "NCHW")
WITHOUT_SELECTION = (
    "By default, all transformations of --extensions run, except those with enabled = False."
)
"""Sentence in the flag's help that says which transformations run by default."""


@dataclass(frozen=True, slots=True)
class TransformOptions:
    """Options that choose transformations and set their parameters.

    By default no transformation runs, and no module of transformations is imported.

    Attributes:
      extensions: Folders with the user's transformations; by default, all enabled transformations in the folders
        run.
      selection: Names of the transformations to run; within a phase, they run in this order. `all` stands for all
        enabled transformations; `front`, `middle` and `back` stand for all enabled transformations of a phase. An
        item `-NAME` excludes the transformation or phase NAME.
      config: JSON files that describe the sub-graphs to replace.
      ops_mapping: JSON file that declares custom ops and their attributes; "" for no file.
      static_shape: Whether the shapes of tensors are folded into constants; if so, the inputs of the output model
        cannot be resized.
      keep_layout: Whether partitions keep the NHWC layout, even if the vendor's plugin asks for NCHW.
      fold_limit: Largest number of bytes that constant folding may add to the file.
      dump_model_after: Name of the transformation after which the model is written to `dump_folder`; `all` writes
        the model after each transformation, and "" writes no model.
      dump_folder: Folder for the models that `dump_model_after` writes; the folder is created if it does not
        exist.
      input_shapes: Mapping from the names of the model's inputs to new shapes. The inputs get these shapes before
        transformations run. -1 means a size that is known only at run time.
      data_layout: Layout of the model's inputs and outputs that have four or five dimensions. `NHWC` keeps the
        layout of the model; `NCHW` adds a TRANSPOSE op at each of these inputs and outputs.
    """

    extensions: Sequence[str] = option(
        Flag(
            "extensions",
            (),
            "A folder with Python files: your ops in the subfolder ops, and your transformations "
            "in a subfolder for each phase (front, middle, back). May be repeated.",
            is_repeated=True,
        ),
        Section.TRANSFORMATIONS,
    )
    selection: Sequence[str] = option(
        Flag(
            "transformations",
            (),
            "Transformations to run, separated by commas. An item is the name of a transformation, "
            "a phase (front, middle, back), or the word all. An item -NAME excludes the "
            "transformation or phase NAME. Within a phase, the transformations run in the given "
            f"order. {WITHOUT_SELECTION}",
        ),
        Section.TRANSFORMATIONS,
        Goes.MANIFEST,
    )
    config: Sequence[str] = option(
        Flag(
            "transformations_config",
            (),
            "A JSON file that lists sub-graphs to replace, in the format of OpenVINO's Model "
            "Optimizer. May be repeated.",
            is_repeated=True,
        ),
        Section.TRANSFORMATIONS,
    )
    ops_mapping: str = option(
        Flag("ops_mapping", "", "A JSON file that declares custom ops and their attributes."),
        Section.TRANSFORMATIONS,
    )
    static_shape: bool = option(
        Flag(
            "static_shape",
            False,
            "Make the shapes of tensors fixed, except where they depend on the data of inputs, and "
            "replace values that the model computes from shapes by constants. The inputs of the "
            "output model cannot be resized any more.",
        ),
        Section.TRANSFORMATIONS,
        Goes.MANIFEST,
    )
    keep_layout: bool = option(
        Flag(
            "disable_nhwc_to_nchw",
            False,
            "Keep the NHWC layout in partitions (the parts of the model for the NPU), even if "
            "the vendor's plugin asks for NCHW.",
        ),
        Section.LAYOUT,
        Goes.MANIFEST,
    )
    fold_limit: int = option(
        Flag(
            "fold_limit",
            None,
            "Some transformations replace ops by constants (constant folding). This flag is the "
            "maximum number of bytes that these constants may add to the file; "
            f"{DEFAULT_FOLD_LIMIT} by default.",
            least=0,
        ),
        Section.TRANSFORMATIONS,
        default=DEFAULT_FOLD_LIMIT,
    )
    dump_model_after: str = option(
        Flag(
            "dump_model_after",
            "",
            "Name of a transformation, or all. After this transformation, or after each "
            "transformation, the model is written to --dump_folder.",
        ),
        Section.TRANSFORMATIONS,
    )
    dump_folder: str = ""
    input_shapes: Mapping[str, Sequence[int]] = option(
        Flag(
            "input_shape",
            (),
            "A new shape for an input of the model, for example input:1x224x224x3. -1 means a "
            "size that is known only at run time. May be repeated, once for each input.",
            is_repeated=True,
        ),
        Section.TRANSFORMATIONS,
        Goes.MANIFEST,
        default=MappingProxyType[str, Sequence[int]]({}),
        read=lambda texts: parse_shapes(texts, "input_shape", "shape", may_be_open=True),
        write=write_shapes,
    )
    data_layout: str = option(
        Flag(
            "data_layout",
            DATA_LAYOUTS[0],
            "Layout of the model's inputs and outputs that have four or five dimensions. NHWC "
            "keeps the layout of the model; NCHW adds a TRANSPOSE op at each input and output.",
            choices=DATA_LAYOUTS,
        ),
        Section.TRANSFORMATIONS,
        Goes.MANIFEST,
    )

    @property
    def is_asked(self) -> bool:
        """Returns whether any transformation may run."""
        is_interface_asked = self.input_shapes or self.data_layout != DATA_LAYOUTS[0]
        named = self.extensions or self.selection or self.config or self.ops_mapping
        return bool(named or is_interface_asked)


class Phase(str, Enum):
    """A phase of transformations; the value is the name of the phase's subfolder in an extension folder.

    The phases run in the order `FRONT`, `MIDDLE`, `BACK`. In `FRONT`, only the shapes of inputs and constants are
    known. After `FRONT`, all shapes that follow from the model are inferred. If the vendor's compiler gets
    partitions in the layout NCHW, `BACK` also runs on these partitions, after the change of layout.
    """

    FRONT = "front"
    MIDDLE = "middle"
    BACK = "back"
