"""`litert-npu layer build`: compiles a layer ahead of time, for given ops and for the devices of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from litert.core.errors import LiteRtError
from litert.core.quoting import continued, name_text
from litert.core.status import Status
from vendor_reference.authoring.compiled_layer import LayerOptions, compile_layer, load_layer
from vendor_reference.authoring.subject import Subject
from vendor_reference.custom_layers.custom_layer import LayerType
from vendor_reference.drivers.device_choice import ChosenDevice, find_devices, prove_all
from vendor_reference.executable.binary_layer import (
    BinaryLayer,
    DeviceCode,
    PackedFile,
    open_digest,
    pack_binary_layer,
    program_digest,
)
from vendor_reference.executable.size_arguments import PREFIX, own_arguments
from vendor_reference.programs.compiler_process import compile_in_child
from vendor_reference.programs.program_text import ProgramText


@dataclass(frozen=True, slots=True)
class BuiltLayer:
    """A layer that was compiled ahead of time, and its bytes.

    Attributes:
      devices: Descriptions of the devices that the layer was compiled for.
      failures: Devices and drivers that the layer could not be compiled for, each with the reason.
      num_programs: Number of different programs; ops with different shapes or options can have different programs.
    """

    layer: BinaryLayer
    data: bytes
    devices: Sequence[str]
    failures: Sequence[str]
    num_programs: int

    def to_text(self, path: str) -> str:
        """Returns the result as text for people."""
        files = ", ".join(
            file.path + ("" if file.data is not None else " (left out)")
            for file in self.layer.files.values()
        )
        programs = "1 program" if self.num_programs == 1 else f"{self.num_programs} programs"
        lines = [f"{name_text(path)}: {programs}, {len(self.data)} bytes"]
        lines += [f"  for {device}" for device in self.devices]
        lines += [f"  not for {failure}" for failure in self.failures]
        return "\n".join(map(continued, [*lines, f"  files: {files}"]))


class _LayerProgram(NamedTuple):
    text: ProgramText
    needs_fp16: bool  # only devices with fp16 arithmetic run it
    sizes: Sequence[str] | None = None  # shapes that are arguments; None for fixed shapes
    num_sizes: int = 0


def build_layer(
    options: LayerOptions, op_name: str, subjects: Sequence[Subject], with_source: bool
) -> BuiltLayer:
    """Compiles a layer ahead of time for each op, and for each working device except simulators.

    Raises:
      LiteRtError: UNSUPPORTED, if the layer is not an OpenCL kernel, or if the source code is to be omitted but is
        the layer's only description. COMPILATION or NOT_FOUND, if no device can compile the layer. Another status,
        for any other problem with the layer.
    """
    files = _files(options, op_name, with_source)
    refusal: LiteRtError | None = None
    try:
        programs = _programs(options, op_name, subjects)
    except LiteRtError as error:
        if error.status is not Status.COMPILATION:
            raise
        refusal = error  # only the best device refuses: other devices may accept the layer
        unchecked = replace(options.compiler, check_kernels=False)
        programs = _programs(replace(options, compiler=unchecked), op_name, subjects)
    codes: list[DeviceCode] = []
    devices: list[str] = []
    failures = [str(proof) for proof in prove_all() if proof.problem]
    errors: list[LiteRtError] = []
    for device in find_devices():
        try:
            codes += _compile(device, programs)
            devices.append(str(device.info))
        except LiteRtError as error:
            if PREFIX in error.what:
                error = LiteRtError(error.status, error.what, error.where, _SIZES_HINT)
            failures.append(f"{device.info}: {error.what.strip()}")
            errors.append(error)
    if errors and not devices:
        raise _none_left(options.path, refusal or errors[0], failures)
    layer = BinaryLayer(next(iter(files)), files, codes)
    return BuiltLayer(layer, pack_binary_layer(layer), devices, failures, len(programs))


def _compile(device: ChosenDevice, programs: Mapping[str, _LayerProgram]) -> list[DeviceCode]:
    """Compiles all programs that a device can run, and returns their code."""
    texts = {
        digest: program.text
        for digest, program in programs.items()
        if device.info.has_fp16 or not program.needs_fp16
    }
    built = compile_in_child(device.installation.library, device.info, list(texts.values()))
    codes = []
    for digest, made in zip(texts, built, strict=True):
        program = programs[digest]
        kernels = own_arguments(made.kernels, program.num_sizes)
        codes.append(DeviceCode(digest, device.info.identity, kernels, made.binary, program.sizes))
    return codes


_SIZES_HINT = (
    "The kernel gets sizes that are known only at run time as arguments, not as macros: pass these arguments "
    "to the functions that the kernel calls, and write the kernel's name and parameters without macros."
)


def _none_left(path: str, first: LiteRtError, failures: Sequence[str]) -> LiteRtError:
    """Returns the only error itself, or one error that lists all of them."""
    if len(failures) == 1:
        return first
    lines = "".join(f"\n  {failure}" for failure in failures)
    return LiteRtError(
        first.status,
        (f"no device on this machine can compile the layer:{lines}\n"),
        path,
        first.hint,
    )


def _files(options: LayerOptions, op_name: str, with_source: bool) -> dict[str, PackedFile]:
    """Returns the description first, then sources and headers in the order in which programs use them."""
    layer, description = load_layer(options, op_name)
    if layer.type is not LayerType.OCL or any(f.packed_in is not None for f in layer.files()):
        raise LiteRtError(
            Status.UNSUPPORTED,
            "the file contains machine code, but layer build needs OpenCL source code",
            options.path,
            "Build the layer's description (.json, .xml) or its kernel (.cl).",
        )
    if not with_source and description.path in {file.path for file in layer.files()}:
        raise LiteRtError(
            Status.UNSUPPORTED,
            "--nosource cannot omit the source code, because the source file is also the layer's description",
            options.path,
            "Describe the layer in a .json file in the same folder, and build this .json file. litert-npu layer "
            "new --kind=json writes an example.",
        )
    packed: dict[str, PackedFile] = {}
    for layer_file in (description, *layer.files()):
        is_kept = with_source or layer_file is description
        data = memoryview(layer_file.data) if is_kept else None
        packed.setdefault(layer_file.path, PackedFile(layer_file.path, layer_file.digest, data))
    return packed


def _programs(
    options: LayerOptions, op_name: str, subjects: Sequence[Subject]
) -> dict[str, _LayerProgram]:
    """Returns the layer's programs by digest."""
    programs: dict[str, _LayerProgram] = {}
    for subject in subjects:
        with compile_layer(subject, options) as compiled:
            for_all = compiled.executable.programs_on(has_fp16=False)
            for index, program in enumerate(compiled.executable.programs):
                if any(source.asset.split("/")[0] == op_name for source in program.sources):
                    needs_fp16 = index not in for_all
                    if _is_open(subject):
                        text, opened = compiled.open_text(program)
                        made = _LayerProgram(text, needs_fp16, opened.sizes, opened.num_arguments)
                        programs[open_digest(program)] = made
                    else:
                        made = _LayerProgram(compiled.text(program), needs_fp16)
                        programs[program_digest(program)] = made
    return programs


def _is_open(subject: Subject) -> bool:
    """Returns whether a shape of an op is known only at run time."""
    tensors = [t for t in (*subject.op.inputs, *subject.op.outputs) if t is not None]
    return not all(tensor.type.layout.is_static for tensor in tensors)
