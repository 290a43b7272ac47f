"""Compiles a layer for one op exactly as `apply_plugin` does, so that tools can show and run the result."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.report import Report
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.assets import Asset, read_assets
from litert.model.atomic_file import temporary_folder
from litert.model.blob import Blob, MappedFile
from litert.model.dispatch_op import is_dispatch_op
from litert.model.reader import read_model
from litert.model.writer import write_model
from vendor_reference.authoring.subject import Subject
from vendor_reference.custom_layers.asset_reader import DescriptionReader, find_reader, read_layer
from vendor_reference.custom_layers.companion_files import AssetFiles
from vendor_reference.custom_layers.custom_layer import CustomLayer, LayerFile
from vendor_reference.drivers.device_choice import choose_device
from vendor_reference.executable.byte_code import read_executable
from vendor_reference.executable.executable import (
    CpuTask,
    Executable,
    Function,
    KernelTask,
    Program,
)
from vendor_reference.executable.size_arguments import OpenProgram
from vendor_reference.programs.asset_sources import AssetSources
from vendor_reference.programs.program_text import ProgramText, compose_open_text, compose_text

_VENDOR = "Reference"
_MOST_BESIDE = 1000


@dataclass(frozen=True, slots=True)
class LayerOptions:
    """The path of a layer's asset, and compile options.

    The shape bounds in the options apply to the op's dynamic tensors.
    """

    path: str
    compiler: CompilerOptions
    soc_model: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class CompiledLayer:
    """A layer that was compiled for one op, in a compiled file with only this op.

    Attributes:
      function: Function that this machine's device runs for the NPU call; the function has the inputs and outputs
        of the subject's model.
      assets: Assets that are embedded in the compiled file, including companion files.
    """

    subject: Subject
    options: LayerOptions
    report: Report
    byte_code: Blob
    executable: Executable
    function: Function
    assets: Sequence[Asset]

    @property
    def task(self) -> KernelTask | CpuTask:
        """Returns the task that runs the user's code.

        All other tasks only reorder and convert tensors for this task.
        """
        programs = self.executable.programs
        return next(
            task
            for task in self.function.tasks
            if isinstance(task, CpuTask)
            or (isinstance(task, KernelTask) and programs[task.program].sources)
        )

    def find_kernel(self) -> tuple[KernelTask, Program]:
        """Returns the task that runs the user's kernel, and the program that contains the kernel.

        Raises:
          LiteRtError: UNSUPPORTED, if the layer is not an OpenCL kernel.
        """
        task = self.task
        if isinstance(task, KernelTask):
            return task, self.executable.programs[task.program]
        what = "this command needs a layer with an OpenCL kernel, but the layer is code for the CPU"
        raise LiteRtError(Status.UNSUPPORTED, what, self.options.path)

    def text(self, program: Program) -> ProgramText:
        """Returns the source text of a program exactly as the OpenCL compiler gets it.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the program's source code was omitted from a binary layer.
        """
        return compose_text(program, self._sources().read)

    def open_text(self, program: Program) -> tuple[ProgramText, OpenProgram]:
        """Returns a program's source text for all shapes, in which the kernel takes sizes as arguments."""
        return compose_open_text(program, self._sources().read)

    def _sources(self) -> AssetSources:
        return AssetSources({asset.name: asset.blob.view for asset in self.assets}.get)


@contextmanager
def compile_layer(subject: Subject, options: LayerOptions) -> Iterator[CompiledLayer]:
    """Compiles a layer for an op; the temporary files of the compilation are removed when the context ends.

    Raises:
      LiteRtError: UNSUPPORTED, with the reason, if the NPU does not accept the op; another status, for any other
        problem with the layer.
    """
    with temporary_folder() as folder:
        model_path, output_path = os.path.join(folder, "op.tflite"), os.path.join(folder, "npu")
        write_model(subject.model, model_path)
        report = apply_plugin(model_path, output_path, _apply_options(subject, options))
        if report.cpu_ops or len(report.calls) != 1:
            reasons = dict.fromkeys(f"op '{op.name}': {op.reason}" for op in report.cpu_ops)
            what = f"with the layer {options.path}, the NPU cannot run {'; '.join(reasons) or 'the op'}"
            raise LiteRtError(Status.UNSUPPORTED, what)
        with read_model(output_path) as compiled:
            calls = [op for op in compiled.ops() if is_dispatch_op(op)]
            module = compiled.byte_code[0]
            executable = read_executable(module.blob.view)
            name = next(name for op, name in module.users if op is calls[0])
            function = _function_here(executable, name)
            assets = read_assets(compiled)
            yield CompiledLayer(subject, options, report, module.blob, executable, function, assets)


def load_layer(options: LayerOptions, op_name: str) -> tuple[CustomLayer, LayerFile]:
    """Reads a layer from its asset; returns the layer, and the asset as a file of the layer."""
    with MappedFile(options.path) as file:
        layer = read_layer(op_name, options.path, file.view, options.compiler.asset_root)
        return layer, AssetFiles(options.path, options.compiler.asset_root).asset(file.view)


def described_names(path: str, asset_root: str) -> Sequence[str]:
    """Returns the layer names in an asset.

    The result is empty if the asset contains no names, or if the names are only in its machine code.
    """
    reader = find_reader(path)
    if not isinstance(reader, DescriptionReader) or reader.runs_to_tell:
        return ()
    with MappedFile(path) as file:
        return reader.layer_names(AssetFiles(path, asset_root), file.view)


def find_layer_files(path: str, asset_root: str, op_name: str) -> Sequence[str]:
    """Returns the paths of an asset and of all files that are named or included in it.

    If the asset cannot be read, returns all files in the asset's folder, since a change to one of these files may
    repair the asset.
    """
    try:
        layer, _ = load_layer(LayerOptions(path, CompilerOptions(asset_root=asset_root)), op_name)
    except LiteRtError:
        with os.scandir(os.path.dirname(os.path.realpath(path))) as entries:
            beside = sorted(entry.path for entry in entries if entry.is_file())
        return [path, *beside[:_MOST_BESIDE]]
    root = AssetFiles(path, asset_root).root
    return [path, *(os.path.join(root, file.path) for file in layer.files())]


def _apply_options(subject: Subject, options: LayerOptions) -> ApplyOptions:
    tensors = subject.model.subgraphs[0].tensors
    names = {tensor.name for tensor in tensors if not tensor.type.layout.is_static}
    bounds = {n: b for n, b in options.compiler.shape_bounds.items() if n in names}
    infos = [CustomOpInfo(subject.op.name, options.path)]
    compiler = replace(options.compiler, custom_op_infos=infos, shape_bounds=bounds)
    return ApplyOptions(_VENDOR, options.soc_model, compiler=compiler)


def _function_here(executable: Executable, name: str) -> Function:
    """Returns the function of that name that this machine's device runs.

    Looks for a device only if the choice needs one.
    """
    function, with_fp16 = (executable.functions_on(has_fp16)[name] for has_fp16 in (False, True))
    if function is with_fp16:
        return function
    return with_fp16 if choose_device().info.has_fp16 else function
