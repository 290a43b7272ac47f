"""`litert-npu opt --emit`: compiles IR text to a model file with one NPU call.

The compilation of the text's function resumes at the function's stage. The graph of the compiled file is one op
with the function's inputs and outputs; the host replaces this op by an NPU call, as it replaces the partitions of
a model.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory

from xdsl.dialects.builtin import ArrayAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from compiler_plugin.apply_options import ApplyOptions
from compiler_plugin.checks import check_output, write_output
from compiler_plugin.pipeline import apply_in_memory
from compiler_plugin.plugin import CompilerPlugin, OpList
from compiler_plugin.registry import RegisteredPlugin
from compiler_plugin.report import OpReport, Report
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.input_file import common_permissions
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.host.file_seal import user_seal
from litert.model.builder import ModelBuilder
from litert.model.graph import Model, Subgraph, Tensor
from litert.model.writer import to_bytes
from vendor_reference.compiler.cpu_layers import choose_cpu_layers
from vendor_reference.compiler.edited_ir import (
    EditedIr,
    check_constants,
    foreign_text,
    read_edited,
    settle_kernels,
)
from vendor_reference.compiler.emission.module_emission import Lowered, written_arguments
from vendor_reference.compiler.frontend.layer_functions import LayerFunctions
from vendor_reference.compiler.half_kernels import find_declared_half_ops
from vendor_reference.compiler.ir.attributes import SOURCE, set_after, soc_of
from vendor_reference.compiler.ir.kernel_attribute import KERNEL, read_kernel
from vendor_reference.compiler.ir.names import SymbolNames, functions_of, text_of
from vendor_reference.compiler.ir.shape_attributes import INPUT_NAMES, OUTPUT_SHAPES
from vendor_reference.compiler.ir.text import print_ir
from vendor_reference.compiler.ir.types import ranked_type
from vendor_reference.compiler.ir.verification import check_ir
from vendor_reference.compiler.job import Job
from vendor_reference.compiler.layers_of_code import (
    add_tensor,
    describe_code,
    subgraph_of_op,
    write_code,
)
from vendor_reference.compiler.levels.dialects import make_context
from vendor_reference.compiler.levels.vpuip import TaskOp
from vendor_reference.compiler.lowering import finish_lowering
from vendor_reference.compiler.pass_pipeline import (
    compile_passes,
    find_stage,
    parse_passes,
    run_passes,
)
from vendor_reference.compiler.passes.plan_memory import tell_sizes
from vendor_reference.compiler.plugin import ReferencePluginFactory
from vendor_reference.compiler.reference_plugin import ReferencePlugin
from vendor_reference.custom_layers.custom_layer import CustomLayer
from vendor_reference.executable.executable import Constant, Function, ShapeKind
from vendor_reference.soc import get_soc_model


@dataclass(frozen=True, slots=True)
class Compiled:
    """The result of compiling IR text to a file. `text` is the IR after the requested passes."""

    report: Report
    text: str


@common_permissions()
def compile_text(
    text: bytes,
    name: str,
    target: str,
    constants: Mapping[str, Constant],
    options: CompilerOptions,
    *,
    passes: str = "",
    soc_model: str = "",
    function: str = "",
    inputs: Sequence[str] = (),
) -> Compiled:
    """Compiles IR text and writes a compiled file.

    Args:
      text: IR text of any level.
      name: File name of the IR text, for messages.
      target: Path of the compiled file.
      constants: Constants, keyed by the names of the resources in the IR text.
      options: Build options, and the assets of the kernels in the IR text.
      passes: Names of the passes to run first, in the format of `transform_text`; the remaining passes of a
        compilation follow.
      soc_model: SoC model to compile for; "" to use the SoC model of the IR text.
      function: Name of the function to compile; "" for `main`, or for the only function of the IR text.
      inputs: Input files other than the IR text; the compiled file must not overwrite any of them.

    Raises:
      LiteRtError: If the IR text has an error, the line of which is in the message, or if the compilation fails as
        in `apply_plugin`. In both cases, no file is written.
    """
    start = time.perf_counter()
    models = {c.data.file.path for c in constants.values() if c.data.file is not None}
    check_output(target, [name, *inputs, *models])
    soc = get_soc_model(soc_model) if soc_model else None
    chosen = parse_passes(passes)
    with ExitStack() as stack:
        stack.enter_context(foreign_text(name))
        edited = read_edited(text, name, function, soc)
        folder = stack.enter_context(TemporaryDirectory(prefix="litert-npu-"))
        infos = [*options.custom_op_infos, *_write_sources(edited, folder)]
        codes, layers = write_code(edited, constants, folder, infos)
        infos += codes
        plugin = TextPlugin(replace(options, custom_op_infos=infos), edited, layers)
        printed = plugin.lower(chosen, constants)
        soc_name = soc_of(edited.ir.module).name
        apply_options = ApplyOptions(
            "Reference", soc_name, compiler=replace(options, custom_op_infos=infos)
        )
        registered = RegisteredPlugin(_TextPluginFactory(plugin), f"IR text {name}")
        model = to_bytes(plugin.model())
        applied = apply_in_memory(
            model, apply_options, target, plugin.show_tasks, registered=registered
        )
        compiled, report = stack.enter_context(applied)
        report.model_path = name
        report.assets = [
            replace(a, path=name if a.path.startswith(folder + os.sep) else a.path)
            for a in report.assets
        ]
        write_output(compiled, target, report, seal=user_seal(report.warnings.append))
    report.seconds = time.perf_counter() - start
    return Compiled(report, printed)


class TextPlugin(ReferencePlugin):
    """Compiles a model whose only op represents the function of an IR text."""

    def __init__(
        self,
        compiler_options: CompilerOptions,
        edited: EditedIr,
        layers_of_code: Mapping[Operation, str],
    ) -> None:
        super().__init__(compiler_options)
        self._edited = edited
        self._layers_of_code = layers_of_code
        self._lowered: Lowered | None = None

    def lower(self, passes: Sequence[ModulePass], constants: Mapping[str, Constant]) -> str:
        """Runs the given passes, then the remaining passes of a compilation.

        Returns the IR text after the given passes.
        """
        edited, module, notes = self._edited, self._edited.ir.module, list[str]()
        job = self._job(soc_of(module).name, find_declared_half_ops(self._layers))
        for function in edited.functions:
            _describe_layer(edited, function, job, notes)
        describe_code(edited, self._layers_of_code, job, notes)
        settle_kernels(edited, self._layers)
        check_constants(edited, constants, _CONSTANTS)
        for function in (edited.entry, *([edited.twin] if edited.twin else ())):
            tell_sizes(function)
        context = make_context()
        set_after(module, edited.stage)
        run_passes(context, module, passes, lambda done, m: check_ir(m, after=done))
        printed = print_ir(module, edited.ir.aliases)
        left = compile_passes(find_stage(module))
        run_passes(context, module, left, lambda done, m: check_ir(m, after=done))
        self._lowered = finish_lowering(module, constants, notes)
        return printed

    def model(self) -> Model:
        """Returns a model of one op, with the inputs and outputs of the function."""
        functions = functions_of(self._edited.ir.module)
        return _make_model(functions[self._function.name], self._function)

    def show_tasks(self, model: Model, report: Report) -> None:
        """Lists the function's tasks in a report, in place of the op that represents the function."""
        name = self._function.name
        tasks = self._function.tasks
        report.ops = [OpReport(0, i, task.op_name, name) for i, task in enumerate(tasks)]

    def partition(self, soc_model: str, subgraph: Subgraph, op_list: OpList) -> None:
        for op in subgraph.ops:
            op_list.push(op)

    @property
    def _function(self) -> Function:
        assert self._lowered is not None
        return self._lowered.executable.functions[0]

    def _lower(self, *_: object) -> Lowered:
        assert self._lowered is not None
        return self._lowered

    def _used_layers(self, partitions: Sequence[Subgraph]) -> Mapping[str, CustomLayer | None]:
        return {task.op_name: self._layers.get(task.op_name) for task in self._function.tasks}


class _TextPluginFactory(ReferencePluginFactory):
    """Makes the prepared plugin."""

    def __init__(self, plugin: TextPlugin) -> None:
        self._plugin = plugin

    def create(
        self, environment_options: EnvironmentOptions, compiler_options: CompilerOptions
    ) -> CompilerPlugin:
        return self._plugin


_CONSTANTS = "With --constants, pass the constants.json that the dump wrote, or a .npz file."


def _write_sources(edited: EditedIr, folder: str) -> list[CustomOpInfo]:
    """Writes the kernels in IR text to files, which become assets."""
    texts: dict[str, str] = {}
    infos = []
    for function in edited.functions:
        if SOURCE not in function.attributes:
            continue
        text, op_name = text_of(function.attributes[SOURCE]), _op_name(edited, function)
        if not text:
            raise edited.error(
                function, f"attribute {SOURCE} must be a string with the kernel's source code"
            )
        if texts.setdefault(op_name, text) != text:
            what = f"two functions for op '{op_name}' have different values of attribute {SOURCE}"
            raise edited.error(function, what, "Give both functions the same source code.")
    for number, (op_name, text) in enumerate(texts.items()):
        plain = re.sub(r"\W", "_", op_name, flags=re.ASCII)
        path = os.path.join(folder, f"{number or ''}{plain}.cl")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        infos.append(CustomOpInfo(op_name, path))
    return infos


def _op_name(edited: EditedIr, function: FuncOp) -> str:
    """Returns the name of the op that a function's kernel is for."""
    if KERNEL not in function.attributes:
        return str(function.sym_name.data)
    spec = edited.checked(function, lambda: read_kernel(function.attributes))
    return spec.op_name or spec.title


def _describe_layer(edited: EditedIr, function: FuncOp, job: Job, notes: list[str]) -> None:
    """Adds attributes from a layer's asset to the layer's function; attributes of the IR text take precedence."""
    name = function.sym_name.data
    calls = [op for op in edited.ir.module.walk() if _calls(op, name)]
    if not function.is_declaration or KERNEL in function.attributes or not calls:
        return
    asset = job.layers.get(name)
    types = _layer_types(function)
    if types is None:
        return
    if asset is None:
        raise edited.error(
            function,
            f"the IR text calls function '{name}', but the function has no kernel",
            f"Add the attribute {KERNEL} or {SOURCE} to the function, or give an asset: "
            f"--npu_custom_op_info={name},FILE.",
        )
    subgraph = subgraph_of_op(name, *types)
    (op,) = subgraph.ops
    said = set(function.attributes)
    chosen = choose_cpu_layers(job, [subgraph], notes)
    layers = LayerFunctions([], chosen, job.halves, notes)
    layers.symbol(op, asset, has_fp16=False)
    described = layers.made[-1].attributes
    function.attributes.update(
        {key: value for key, value in described.items() if key not in function.attributes}
    )
    if len(layers.made) > 1 and OUTPUT_SHAPES not in said:
        what = "a separate kernel of the asset computes the shape of a result"
        hint = f"Declare a function for that kernel, and add the function to {OUTPUT_SHAPES}."
        raise edited.error(function, what, hint)


def _calls(op: Operation, name: str) -> bool:
    if not isinstance(op, (CallOp, TaskOp)) or op.callee is None:
        return False
    return bool(op.callee.root_reference.data == name)


def _layer_types(
    function: FuncOp,
) -> tuple[Sequence[RankedTensorType], Sequence[RankedTensorType]] | None:
    """Returns a layer's input and output types; None for a function of shapes, and for run-time shapes."""
    inputs, outputs = function.function_type.inputs.data, function.function_type.outputs.data
    if not outputs:  # on buffers, the outputs are the last arguments
        said = function.attributes.get("IE.output_layouts")
        count = len(said.data) if isinstance(said, ArrayAttr) else 1
        inputs, outputs = inputs[:-count], inputs[-count:]
    try:
        return [ranked_type(t) for t in inputs], [ranked_type(t) for t in outputs]
    except (AttributeError, AssertionError):
        return None


def _make_model(function: FuncOp, made: Function) -> Model:
    """Makes a model of one op.

    `made` is the function that the compiler itself makes for `function` of the IR text.
    """
    written = written_arguments(function)
    inputs = [a for a in function.body.block.args if a not in written]
    outputs = [a for a in function.body.block.args if a in written]
    said = function.attributes.get(INPUT_NAMES)
    names = [text_of(name) for name in said.data] if isinstance(said, ArrayAttr) else []
    dynamic = {d.output: made.shapes[d.shape].pattern for d in made.dynamic_outputs}
    read = {s.index: s.pattern for s in made.shapes if s.kind is ShapeKind.INPUT}
    num_outputs = len(made.outputs) - len(made.dynamic_outputs)
    if not num_outputs:
        what = "the function needs at least one result"
        raise LiteRtError(Status.UNSUPPORTED, what, f"function '{made.name}'")
    b, taken = ModelBuilder("compiled from IR text"), SymbolNames()

    def tensor(kind: str, index: int, value: SSAValue, pattern: Sequence[int] | None) -> Tensor:
        known = names[index] if kind == "input" and index < len(names) else value.name_hint
        tensor_type = made.inputs[index] if kind == "input" else made.outputs[index]
        shape = tuple(pattern or tensor_type.shape)
        shown = RankedTensorType.of(tensor_type.element_type, shape)
        make = b.input if kind == "input" else b.tensor
        return add_tensor(make, taken.new(known or kind), shown)

    operands = [tensor("input", i, value, read.get(i)) for i, value in enumerate(inputs)]
    results = [
        tensor("output", i, value, dynamic.get(i)) for i, value in enumerate(outputs[:num_outputs])
    ]
    b.custom(made.name, operands, results)
    b.output(*results)
    b.signature("serving_default")
    return b.build()
