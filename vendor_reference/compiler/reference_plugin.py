"""The reference vendor's compiler: compiles the partitions of a model to an executable for the emulated NPU."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from compiler_plugin.plugin import CallInfo, Companion, CompiledResult, CompilerPlugin, OpList
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob, MappedFile
from litert.model.graph import Subgraph
from vendor_reference.compiler.built_kernels import BuiltProgram
from vendor_reference.compiler.cpu_library import CpuLayerShapes
from vendor_reference.compiler.emission.module_emission import Lowered
from vendor_reference.compiler.entry_points import entries_by_build, entries_by_text
from vendor_reference.compiler.half_kernels import (
    find_half_ops,
    find_half_ops_in_text,
    find_packed_half_ops,
)
from vendor_reference.compiler.half_tensors import HalfPolicy
from vendor_reference.compiler.job import Job
from vendor_reference.compiler.kernel_check import build_programs
from vendor_reference.compiler.kernel_dump import dump_kernels
from vendor_reference.compiler.largest_shapes import Bounds, find_bounds
from vendor_reference.compiler.lowering import lower_partitions
from vendor_reference.compiler.op_selection import NO_LIBRARY, select_ops
from vendor_reference.compiler.op_times import OpTimes, expect_partition
from vendor_reference.compiler.overriding import find_layer, overriding_notes
from vendor_reference.compiler.parameter_use import find_parameter_notes
from vendor_reference.compiler.pass_pipeline import check_dump_options
from vendor_reference.compiler.reference_options import (
    AUTO,
    DEFAULT_OPS,
    NONE,
    REFERENCE_OPS,
    half_tensors,
)
from vendor_reference.custom_layers.asset_reader import read_layer
from vendor_reference.custom_layers.custom_layer import CustomLayer
from vendor_reference.custom_layers.layer_folders import find_layers
from vendor_reference.executable.byte_code import write_executable
from vendor_reference.executable.executable import Source
from vendor_reference.soc import get_soc_model


class ReferencePlugin(CompilerPlugin):
    """The compiler of one run, with the custom layers that the user's assets describe."""

    takes_ir = True

    def __init__(self, compiler_options: CompilerOptions) -> None:
        self._options = compiler_options
        check_dump_options(compiler_options.dump)
        self._layers: dict[str, CustomLayer] = {}
        self._notes: dict[str, None] = {}
        self._bounds: dict[str, tuple[int, ...]] = {}
        self._cpu_shapes = CpuLayerShapes(compiler_options.allow_native_assets)
        self._library = NO_LIBRARY
        self._cpu_ns: dict[str, int] = {}  # reasons of the ops that stay, by subgraph
        wanted = compiler_options.vendor_options.get(REFERENCE_OPS, DEFAULT_OPS)
        self._is_auto = wanted.strip().lower() == AUTO
        if wanted != NONE:
            # Imported here, since most compilations need no library.
            from vendor_reference.compiler.library.library_op import choose_ops

            self._library = choose_ops(wanted)
        for info in compiler_options.custom_op_infos:
            with MappedFile(info.asset_path) as file:
                self._layers[info.op_name] = self._read(info.op_name, info.asset_path, file.view)

    def custom_layers(
        self, paths: Sequence[str], op_names: Collection[str]
    ) -> Sequence[CustomOpInfo]:
        notes: list[str] = []
        options = self._options
        found = find_layers(paths, op_names, options.asset_root, options.allow_native_assets, notes)
        self._notes.update(dict.fromkeys(notes))
        self._layers.update({name: layer.layer for name, layer in found.items()})
        return [CustomOpInfo(name, layer.path) for name, layer in found.items()]

    def partition(self, soc_model: str, subgraph: Subgraph, op_list: OpList) -> None:
        bounds = find_bounds(subgraph, self._options.shape_bounds, self._layers, self._cpu_shapes)
        self._keep_bounds(bounds)
        times = self._op_times(soc_model) if self._is_auto else None
        selected = select_ops(subgraph, self._layers, self._library, bounds, times)
        self._notes.update(dict.fromkeys(overriding_notes(selected.taken, self._layers)))
        if self._library:
            times = times or self._op_times(soc_model)
            self._cpu_ns[subgraph.name] = sum(times.find(op).cpu for op in selected.refused)
        for op in selected.taken:
            op_list.push(op)
        for op, reason in selected.refused.items():
            op_list.refuse(op, reason)

    def compile(self, soc_model: str, partitions: Sequence[Subgraph]) -> CompiledResult:
        lowered = self._lower(soc_model, partitions)
        half_ops = find_packed_half_ops(lowered, self._layers)
        if half_ops:
            lowered = self._lower(soc_model, partitions, half_ops)
        if declared := self._find_half_ops(lowered):
            lowered = self._lower(soc_model, partitions, half_ops | declared)
        used = self._used_layers(partitions)
        notes = [*self._notes, *(note for layer in used.values() if layer for note in layer.notes)]
        notes += lowered.notes
        if self._options.dump.kernels:
            notes.append(self._dump_kernels(lowered))
        notes += find_parameter_notes((op for p in partitions for op in p.ops), self._layers)
        executable = None
        if not self._options.check_kernels:
            executable = entries_by_text(lowered.executable, self._layers)
        if executable is None:
            try:
                built = self._build(lowered)
                notes += dict.fromkeys(program.log for program in built if program and program.log)
                kernel_notes: list[str] = []
                executable = entries_by_build(lowered, built, self._layers, kernel_notes)
                notes += dict.fromkeys(kernel_notes)  # ops with the same kernel have the same note
            except LiteRtError as error:
                raise self._with_notes(error, notes) from error
        functions = executable.functions_on(has_fp16=False).values()
        times, cpu_ns = self._op_times(soc_model), max(self._cpu_ns.values(), default=0)
        calls = [
            CallInfo(
                f.name,
                shape_outputs=[output.output for output in f.dynamic_outputs],
                memory=lowered.memory.get(f.name),
                expected=expect_partition(partition, times, cpu_ns),
            )
            for f, partition in zip(functions, partitions, strict=True)
        ]
        native = [name for name, layer in used.items() if layer and layer.is_native]
        return CompiledResult([write_executable(executable)], calls, notes, native)

    def companions(self, op_name: str, asset_path: str, data: memoryview) -> Sequence[Companion]:
        layer = self._layers.get(op_name) or self._read(op_name, asset_path, data)
        files = {file.path: file.data for file in layer.files() if not file.is_asset}
        return [Companion(path, Blob(text)) for path, text in files.items()]

    def close(self) -> None:
        self._layers.clear()

    def _op_times(self, soc_model: str) -> OpTimes:
        """Returns the expected times of ops on a SoC model."""
        return OpTimes(
            get_soc_model(soc_model).costs,
            {**self._options.shape_bounds, **self._bounds},
            lambda op: op.is_custom or find_layer(op, self._layers) is not None,
        )

    def _lower(
        self, soc_model: str, partitions: Sequence[Subgraph], half_ops: Collection[str] = ()
    ) -> Lowered:
        return lower_partitions(self._job(soc_model, half_ops), partitions, self._options.dump)

    def _job(self, soc_model: str, half_ops: Collection[str] = ()) -> Job:
        """Returns the job to compile; `half_ops` are custom ops whose kernels declare halves."""
        options = self._options
        return Job(
            get_soc_model(soc_model),
            self._layers,
            self._library,
            {**options.shape_bounds, **self._bounds},
            HalfPolicy(half_tensors(options.vendor_options), half_ops),
            options.allow_native_assets,
            options.taps,
            options.replace_ir,
        )

    def _used_layers(self, partitions: Sequence[Subgraph]) -> Mapping[str, CustomLayer | None]:
        """Returns the layers of the ops; None for ops without a layer."""
        return {op.name: self._layers.get(op.name) for p in partitions for op in p.ops}

    def _find_half_ops(self, lowered: Lowered) -> set[str]:
        """Finds the ops whose kernels are written for halves, if the device was to decide."""
        if not any(function.needs_fp16 for function in lowered.executable.functions):
            return set()
        is_checked = self._options.check_kernels
        if not is_checked and entries_by_text(lowered.executable, self._layers) is not None:
            return find_half_ops_in_text(lowered, self._layers)
        try:
            return find_half_ops(lowered, self._build(lowered), self._layers)
        except LiteRtError:  # the check of kernels reports it, after they have been dumped
            return set()

    def _build(self, lowered: Lowered) -> Sequence[BuiltProgram | None]:
        assets = {
            layer.asset_name(file): file.asset_data
            for layer in self._layers.values()
            for file in layer.files()
        }
        return build_programs(replace(lowered.executable, programs=lowered.samples), assets)

    def _with_notes(self, error: LiteRtError, notes: Sequence[str]) -> LiteRtError:
        """Adds the notes about a layer to its build error: an empty define is a usual cause."""
        if error.status is not Status.COMPILATION:
            return error
        layers = [
            layer.file_name
            for layer in self._layers.values()
            if any(file.path in error.where for file in layer.files())
        ]
        said = [f"Note: {note}" for note in notes if note.startswith(tuple(layers))]
        hint = " ".join([error.hint, *said])
        return LiteRtError(error.status, error.what, error.where, hint)

    def _keep_bounds(self, bounds: Bounds) -> None:
        """Keeps the bounds of a subgraph: its partitions are compiled later, and separately."""
        for tensor, shape in bounds.shapes.items():
            if not tensor.type.layout.is_static:
                known = self._bounds.get(tensor.name, shape)
                if len(known) == len(shape):  # of tensors with one name, the largest bound
                    shape = tuple(map(max, known, shape))
                self._bounds[tensor.name] = shape

    def _read(self, op_name: str, path: str, data: memoryview) -> CustomLayer:
        return read_layer(op_name, path, data, self._options.asset_root)

    def _dump_kernels(self, lowered: Lowered) -> str:
        """Writes kernels for people to read, even if they do not build.

        Returns a sentence with the folder.
        """
        files = {
            (layer.asset_name(file), file.path): file.data
            for layer in self._layers.values()
            for file in layer.files()
        }
        folder = self._options.dump.folder

        def read(source: Source) -> memoryview:
            return memoryview(files[source.asset, source.file_name])

        return dump_kernels(folder, lowered.samples, lowered.titles, read)
