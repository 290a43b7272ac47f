"""Takes a model through the phases: front, inference, middle, back, emission.

Each transformation runs on all subgraphs before the next begins. What no transformation touches stays as it is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from compiler_plugin.plugin import DataLayout
from compiler_plugin.report import TransformationReport
from compiler_plugin.transformations.configured_replacements import (
    configure_replacements,
    find_unmatched,
)
from compiler_plugin.transformations.dumping import dump_model
from compiler_plugin.transformations.emission import emit, tidy
from compiler_plugin.transformations.extensions import (
    ALL,
    Extensions,
    LoadedTransformation,
    load_extensions,
)
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.layout_change.custom import CustomLayout
from compiler_plugin.transformations.mapping_file import read_mapping_file
from compiler_plugin.transformations.misnamed_ops import find_misnamed
from compiler_plugin.transformations.op_library import OpLibrary
from compiler_plugin.transformations.options import TransformOptions
from compiler_plugin.transformations.partial_inference import PartialInference
from compiler_plugin.transformations.phase import Phase
from compiler_plugin.transformations.running import Journal, naming, run_transformation, settle
from compiler_plugin.transformations.selection import plan_transformations
from compiler_plugin.transformations.transformation import snake_case
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Model


@dataclass(slots=True)
class Transformations:
    """The transformations that are to run on a model, and what they have done so far.

    Attributes:
      options: what was asked.
      extensions: all that was loaded.
      planned: those that run, in order.
      ops: that the extensions and the mapping file know.
      journal: what they have done.
    """

    options: TransformOptions
    extensions: Extensions
    planned: Sequence[LoadedTransformation]
    ops: OpLibrary
    journal: Journal
    _fold_limit: int = field(init=False)
    _op_names: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self._fold_limit = self.options.fold_limit
        self._op_names = {cls.op for cls in self.extensions.ops}

    @classmethod
    def load(cls, options: TransformOptions) -> Transformations:
        """Loads, chooses and orders transformations.

        Raises:
          LiteRtError: of extensions and configurations that cannot be loaded, names that nothing has, and rules
            that contradict each other.
        """
        extensions = load_extensions(options.extensions)
        extensions.transformations.extend(
            configure_replacements(extensions.transformations, options.config)
        )
        planned = plan_transformations(extensions.transformations, options.selection)
        _check_dump(options, planned)
        mapping = read_mapping_file(options.ops_mapping) if options.ops_mapping else None
        ops = OpLibrary(extensions.ops, extensions.extractors, mapping)
        return cls(options, extensions, planned, ops, Journal(planned))

    @property
    def notes(self) -> Sequence[str]:
        """What was left alone, and what transformations look for that no model so far has had, in sentences."""
        return [
            *self.extensions.notes,
            *find_unmatched(self.planned),
            *find_misnamed(self.planned, self.reports(), self._op_names),
        ]

    def reports(self) -> list[TransformationReport]:
        """What each has done so far, in the order in which they run."""
        return self.journal.reports()

    def run(self, model: Model) -> None:
        """Takes all subgraphs of a model through the phases.

        Args:
          model: is changed; after an error it is not to be used.

        Raises:
          LiteRtError: naming the transformation, the line of its file and what ran before it.
        """
        self._op_names.update(op.name for op in model.ops())
        with self.ops.in_use():
            inferences = [PartialInference(subgraph) for subgraph in model.subgraphs]
            graphs = [
                Graph(
                    model,
                    subgraph,
                    inference,
                    ops=self.ops,
                    stage=Phase.FRONT,
                    static_shape=self.options.static_shape,
                )
                for subgraph, inference in zip(model.subgraphs, inferences, strict=True)
            ]
            self._run_phase(Phase.FRONT, graphs)
            for graph, inference in zip(graphs, inferences, strict=True):
                graph.stage = Phase.MIDDLE
                with self._naming("partial inference", graph):
                    if self.options.static_shape:
                        inference.make_static(graph)
                    if graph.edit_count:
                        settle(graph)
            self._run_phase(Phase.MIDDLE, graphs)
            self._run_phase(Phase.BACK, graphs)
            for graph in graphs:
                with self._naming("emission", graph):
                    emit(graph)
            tidy(graphs)

    @property
    def custom_layouts(self) -> Mapping[str, CustomLayout]:
        """What the user's ops say of their layout, by name."""
        return {cls.op: cls.layout for cls in self.extensions.ops if cls.layout is not None}

    def run_in_partition(self, model: Model, layout: DataLayout) -> None:
        """Takes a vendor's partition, whose layout has changed, through the back phase.

        Args:
          model: whose only subgraph is the partition.
          layout: that it is in.

        Raises:
          LiteRtError: as `run`.
        """
        if not any(item.phase is Phase.BACK for item in self.planned):
            return
        with self.ops.in_use():
            (subgraph,) = model.subgraphs
            inference = PartialInference(subgraph, layout)
            graph = Graph(
                model,
                subgraph,
                inference,
                ops=self.ops,
                stage=Phase.BACK,
                layout=layout,
                static_shape=self.options.static_shape,
            )
            self._run_phase(Phase.BACK, [graph])
            with self._naming("emission", graph):
                emit(graph)
            tidy([graph])

    def _run_phase(self, phase: Phase, graphs: Sequence[Graph]) -> None:
        before = [graph.edit_count for graph in graphs]
        for graph in graphs:
            graph.stage = phase
        for item in self.planned:
            if item.phase is phase:
                for graph in graphs:
                    graph.fold_limit = self._fold_limit  # one for the whole file
                    run_transformation(item, graph, self.journal)
                    self._fold_limit = graph.fold_limit
                self._dump(item, graphs)
        for graph, edits in zip(graphs, before, strict=True):
            if graph.edit_count != edits:
                with self._naming(f"the end of the {phase.value} phase", graph):
                    graph.clean_up()
                    settle(graph)

    def _naming(self, step: str, graph: Graph) -> AbstractContextManager[None]:
        folders = [item.origin.folder for item in self.extensions.transformations]
        return naming(step, graph, self.journal, list(dict.fromkeys(folders)))

    def _dump(self, item: LoadedTransformation, graphs: Sequence[Graph]) -> None:
        """Writes the model as it stands, if that was asked for; no partition, which is the vendor's to show."""
        if (
            not graphs
            or graphs[0].layout != "NHWC"
            or snake_case(self.options.dump_model_after) not in (ALL, item.name)
        ):
            return
        name = f"{self.planned.index(item) + 1:02}_{item.name}.tflite"
        with self._naming(f"the dump after {item.name}", graphs[0]):
            dump_model(graphs, os.path.join(self.options.dump_folder, name))


def _check_dump(options: TransformOptions, planned: Sequence[LoadedTransformation]) -> None:
    name = snake_case(options.dump_model_after)
    names = [item.name for item in planned]
    if name and name not in (ALL, *names):
        raise LiteRtError(
            Status.NOT_FOUND,
            f"no transformation '{options.dump_model_after}' runs",
            "--dump_model_after",
            f"Those that run are {', '.join(names)}." if names else "None runs.",
        )
