"""Runs all transformations on a model, phase by phase.

The phases are front, inference, middle, back and emission. Each transformation runs on all subgraphs before the
next begins. Parts of the model that no transformation edits do not change. An error in a transformation, even in
user code, names the transformation, the line of its file, and the transformations that ran before.
"""

from __future__ import annotations

import operator
import os
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from compiler_plugin.plugin import DataLayout
from compiler_plugin.report import TransformationReport
from compiler_plugin.transform_options import Phase, TransformOptions
from compiler_plugin.transformations.clean_up import dump_model, emit, share_data, tidy
from compiler_plugin.transformations.counterparts import find_counterpart
from compiler_plugin.transformations.custom_ops import OpLibrary
from compiler_plugin.transformations.extension_folders import (
    ALL,
    LoadedTransformation,
    load_extensions,
)
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.graph_check import check_graph, describe_subgraph
from compiler_plugin.transformations.interface import make_channels_first, set_input_shapes
from compiler_plugin.transformations.layout_change.rule import CustomLayout
from compiler_plugin.transformations.mapping_file import read_mapping_file
from compiler_plugin.transformations.partial_inference import PartialInference
from compiler_plugin.transformations.sub_graph_replacement import (
    configure_replacements,
    find_unmatched,
)
from compiler_plugin.transformations.transformation import snake_case
from compiler_plugin.transformations.transformation_plan import plan_transformations
from litert.core.errors import LiteRtError, describe
from litert.core.progress import tell
from litert.core.status import Status
from litert.core.tracing import SpanKind, span
from litert.host.extensions import find_place
from litert.model.builtin_options import BUILTIN_NUMBERS
from litert.model.graph import Model, Subgraph


class Transformations:
    """The transformations that run on a model, with the number of matches and the run time of each.

    Attributes:
      options: Options that the user gave.
      extensions: Transformations, ops and extractors that were loaded.
      planned: Transformations that run, in order.
      ops: Ops that the extensions and the mapping file define.
    """

    def __init__(self, options: TransformOptions) -> None:
        """Loads transformations, selects those that run and puts them in order.

        Raises:
          LiteRtError: If an extension or configuration cannot be loaded, a name is unknown, or rules contradict
            each other.
        """
        self.options = options
        self.extensions = load_extensions(options.extensions)
        loaded = self.extensions.transformations
        loaded.extend(configure_replacements(loaded, options.config))
        self.planned = plan_transformations(loaded, options.selection)
        _check_dump(options, self.planned)
        mapping = read_mapping_file(options.ops_mapping) if options.ops_mapping else None
        self.ops = OpLibrary(self.extensions.ops, self.extensions.extractors, mapping)
        self._matches: Counter[str] = Counter()
        self._seconds: dict[str, float] = defaultdict(float)
        self._ran: dict[str, None] = {}
        self._fold_limit = options.fold_limit
        self._has_images = True
        self._op_names = {cls.op for cls in self.extensions.ops}

    @property
    def notes(self) -> Sequence[str]:
        """Sentences about ignored files, and about transformations that have matched nothing so far."""
        no_images = "--data_layout=NCHW has no effect: no input or output of the model has four or five dimensions"
        return [
            *self.extensions.notes,
            *([] if self._has_images else [no_images]),
            *find_unmatched(self.planned),
            *find_misnamed(self.planned, self.reports(), self._op_names),
        ]

    def reports(self) -> list[TransformationReport]:
        """Returns the number of matches and the run time of each transformation so far, in execution order."""
        return [
            TransformationReport(
                item.name,
                item.phase.value,
                self._matches[item.name],
                self._seconds[item.name],
                "" if item.origin.is_builtin else item.origin.path,
            )
            for item in self.planned
        ]

    def run(self, model: Model) -> None:
        """Runs all phases on all subgraphs of a model. After an error, the model must not be used.

        Raises:
          LiteRtError: If a transformation fails. The error names the transformation, the line of its file, and the
            transformations that ran before.
        """
        self._op_names.update(op.name for op in model.ops())
        with self.ops.in_use():
            inferences = [PartialInference(subgraph) for subgraph in model.subgraphs]
            graphs = [
                self._graph(model, *pair, Phase.FRONT)
                for pair in zip(model.subgraphs, inferences, strict=True)
            ]
            shapes = self.options.input_shapes
            if shapes:
                set_input_shapes(graphs, shapes)
            self._run_phase(Phase.FRONT, graphs)
            for graph, inference in zip(graphs, inferences, strict=True):
                graph.stage = Phase.MIDDLE
                step = f"shape inference{' with --input_shape' if shapes else ''}"
                with self._naming(step, graph):
                    if self.options.static_shape:
                        inference.make_static(graph)
                    if graph.edit_count:
                        _settle(graph)
            if self.options.data_layout == "NCHW":
                self._has_images = make_channels_first(graphs)
                for graph in graphs:
                    _settle(graph)
            self._run_phase(Phase.MIDDLE, graphs)
            self._run_last(graphs)

    @property
    def custom_layouts(self) -> Mapping[str, CustomLayout]:
        """The declared layout of each user-defined op, by op name."""
        return {cls.op: cls.layout for cls in self.extensions.ops if cls.layout is not None}

    def run_in_partitions(self, models: Sequence[Model], layout: DataLayout) -> None:
        """Runs the back phase on the partitions of a vendor, after their layout has changed.

        Args:
          models: A model for each partition; each model contains only its partition.
          layout: Layout of the partitions.

        Raises:
          LiteRtError: Any error of `run`.
        """
        if not any(item.phase is Phase.BACK for item in self.planned):
            return
        before = {buffer for model in models for buffer in model.buffers}
        with self.ops.in_use():
            for model in models:
                (subgraph,) = model.subgraphs
                inference = PartialInference(subgraph, layout)
                self._run_last([self._graph(model, subgraph, inference, Phase.BACK, layout)])
        every = (buffer for model in models for buffer in model.buffers)
        made = [buffer for buffer in every if buffer not in before]
        share_data([subgraph for model in models for subgraph in model.subgraphs], made)

    def _graph(
        self,
        model: Model,
        subgraph: Subgraph,
        inference: PartialInference,
        stage: Phase,
        layout: DataLayout = "NHWC",
    ) -> Graph:
        static = self.options.static_shape
        return Graph(
            model,
            subgraph,
            inference,
            ops=self.ops,
            stage=stage,
            layout=layout,
            static_shape=static,
        )

    def _run_last(self, graphs: Sequence[Graph]) -> None:
        """Runs the back phase and emission."""
        self._run_phase(Phase.BACK, graphs)
        for graph in graphs:
            with self._naming("writing custom ops", graph):
                emit(graph)
        tidy(graphs)

    def _run_phase(self, phase: Phase, graphs: Sequence[Graph]) -> None:
        before = [graph.edit_count for graph in graphs]
        for graph in graphs:
            graph.stage = phase
        for item in self.planned:
            if item.phase is phase:
                for graph in graphs:
                    graph.fold_limit = self._fold_limit  # one for the whole file
                    self._run_one(item, graph)
                    self._fold_limit = graph.fold_limit
                self._dump(item, graphs)
        for graph, edits in zip(graphs, before, strict=True):
            if graph.edit_count != edits:
                with self._naming(f"the end of the {phase.value} phase", graph):
                    graph.clean_up()
                    _settle(graph)

    def _run_one(self, item: LoadedTransformation, graph: Graph) -> None:
        """Runs a transformation if its conditions allow it, and checks the graph afterwards."""
        transformation = item.transformation
        start, edits = time.perf_counter(), graph.edit_count
        subject = f"transformation '{item.name}' of {item.origin.path}"
        with (
            self._naming(subject, graph, [item.origin.folder]),
            span(SpanKind.TRANSFORMATION, item.name, phase=item.phase.value),
        ):
            if all([condition(graph) for condition in transformation.graph_condition]):
                result = transformation.find_and_replace_pattern(graph)
                self._matches[item.name] += _count_matches(result, graph.edit_count != edits)
                if transformation.force_clean_up:
                    graph.clean_up()
                if transformation.force_shape_inference:
                    for node in graph.nodes:
                        graph.touch(node)
                if graph.edit_count != edits:
                    _settle(graph)
        self._ran[item.name] = None
        self._seconds[item.name] += time.perf_counter() - start
        tell("transform", len(self._ran), len(self.planned))

    @contextmanager
    def _naming(
        self, subject: str, graph: Graph, folders: Sequence[str] | None = None
    ) -> Iterator[None]:
        """Converts exceptions to errors that name the transformation or step, and the extension's line."""
        try:
            yield
        except BaseException as error:  # an extension's code may raise anything
            if folders is None:
                every = [item.origin.folder for item in self.extensions.transformations]
                folders = list(dict.fromkeys(every))
            raise _named_error(error, subject, graph, folders, list(self._ran)) from error

    def _dump(self, item: LoadedTransformation, graphs: Sequence[Graph]) -> None:
        """Writes the model after a transformation if `--dump_model_after` requests this, but not partitions."""
        if (
            not graphs
            or graphs[0].layout != "NHWC"
            or snake_case(self.options.dump_model_after) not in (ALL, item.name)
        ):
            return
        name = f"{self.planned.index(item) + 1:02}_{item.name}.tflite"
        with self._naming(f"--dump_model_after, after transformation '{item.name}'", graphs[0]):
            dump_model(graphs, os.path.join(self.options.dump_folder, name))


def _settle(graph: Graph) -> None:
    """Infers edited nodes, and checks the whole graph."""
    graph.infer()
    check_graph(graph)


def _named_error(
    error: BaseException, subject: str, graph: Graph, folders: Sequence[str], ran: Sequence[str]
) -> LiteRtError:
    status, what, where = Status.INVALID_TRANSFORMATION, describe(error), ""
    hint = find_counterpart(error)
    if isinstance(error, LiteRtError):
        status, what, where, hint = error.status, error.what, error.where, error.hint
    elif isinstance(error, KeyboardInterrupt):  # shows which transformation does not terminate
        status, what = Status.CANCELLED, "interrupted"
    subgraphs = graph.model.subgraphs
    index = f"subgraph {subgraphs.index(graph.subgraph)}" if len(subgraphs) > 1 else ""
    line = next((place for folder in folders if (place := find_place(error, folder))), "")
    if (
        line
        and not hint
        and status is Status.INVALID_TRANSFORMATION
        and not isinstance(error, LiteRtError)
    ):
        hint = "Fix the code at this line."
    path = line.rpartition(":")[0]
    if path and subject.endswith(path):
        subject, line = subject.removesuffix(path) + line, ""
    file = where.partition(", ")[0]
    if file and subject.endswith(f" of {file}"):  # `where` begins with the same file
        subject, where = subject.removesuffix(file) + where, ""
    if graph.subgraph.name and where == describe_subgraph(graph):  # `where` has the name already
        index = ""
    places = [subject, line and f"at {line}", index, where]
    before = (
        f"Transformations that ran before: {', '.join(ran)}."
        if ran
        else "No transformation had run before this error."
    )
    return LiteRtError(status, what, ", ".join(filter(None, places)), f"{hint} {before}".lstrip())


def _count_matches(result: object, is_changed: bool) -> int:
    if result is None:
        return int(is_changed)
    try:
        count = operator.index(result)  # type: ignore[arg-type]
    except TypeError:
        count = -1
    if count < 0:
        raise LiteRtError(
            Status.INVALID_TRANSFORMATION,
            "the function find_and_replace_pattern must return a number of matches or None, but returns "
            f"{result!r:.100}",
            hint="Return a whole number, 0 or greater; or return None.",
        )
    return count


def _check_dump(options: TransformOptions, planned: Sequence[LoadedTransformation]) -> None:
    name = snake_case(options.dump_model_after)
    names = [item.name for item in planned]
    if name and name not in (ALL, *names):
        raise LiteRtError(
            Status.NOT_FOUND,
            f"no transformation that runs has the name '{options.dump_model_after}'",
            "--dump_model_after",
            f"These transformations run: {', '.join(names)}."
            if names
            else "No transformations run.",
        )


def find_misnamed(
    planned: Iterable[LoadedTransformation],
    reports: Iterable[TransformationReport],
    known: Collection[str],
) -> Iterator[str]:
    """Yields sentences about transformations that search for the op name of another framework, such as `Conv2D`.

    A foreign op name is not an error, because a custom op may have this name. Only user transformations without
    matches are reported. `known` has the op names in the model and in the user's classes.
    """
    builtin = {_plain(name): name for name in BUILTIN_NUMBERS}
    for item, report in zip(planned, reports, strict=True):
        if item.origin.is_builtin or report.matches:
            continue
        for name in dict.fromkeys(item.transformation.wanted_ops()):
            meant = builtin.get(_plain(name), name)
            if meant != name and name not in known:
                yield (
                    f"transformation '{item.name}' searches for op {name}, but the model has no such op; in "
                    f"TFLite, the op's name is {meant} ({item.origin.path})"
                )


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
