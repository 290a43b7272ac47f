"""Tests the compiler plugin as the host uses it; no kernel is built here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.plugin import CompilerPlugin, OpList
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.version import COMPILER_PLUGIN_API_VERSION
from litert.model.blob import MappedFile
from litert.model.builder import ModelBuilder
from litert.model.graph import Subgraph
from vendor_reference.compiler.plugin import PLUGIN
from vendor_reference.executable.byte_code import read_executable

KERNELS = Path(__file__).parent / "kernels"


def create(**assets: Path) -> CompilerPlugin:
    infos = [CustomOpInfo(op, str(path)) for op, path in assets.items()]
    return PLUGIN.create(EnvironmentOptions(), CompilerOptions(infos, check_kernels=False))


def sinh_model() -> Subgraph:
    b = ModelBuilder()
    b.output(b.custom("Sinh", [b.input("x", "float32", (3,))], [("y", "float32", (3,))]))
    return b.build().subgraphs[0]


def test_the_vendor_says_who_it_is() -> None:
    assert PLUGIN.soc_manufacturer == "Reference"
    assert PLUGIN.soc_models == ("EMU8", "EMU4", "EMU16")  # the first is the default


def test_an_unknown_soc_model_is_refused_with_those_there_are() -> None:
    with pytest.raises(LiteRtError) as error:
        PLUGIN.check_compiler_compatibility(COMPILER_PLUGIN_API_VERSION, "EMU9", CompilerOptions())
    assert error.value.status is Status.UNSUPPORTED
    assert "EMU9" in error.value.what and "EMU8, EMU4, EMU16" in error.value.hint


def test_an_option_that_the_vendor_does_not_have_is_refused() -> None:
    with pytest.raises(LiteRtError, match="no option 'speed'"):
        PLUGIN.create(EnvironmentOptions(), CompilerOptions(vendor_options={"speed": "high"}))


def test_partitions_become_one_module_with_a_call_each() -> None:
    plugin = create(Sinh=KERNELS / "sinh.cl")
    op_list = OpList()
    subgraph = sinh_model()
    plugin.partition("EMU8", subgraph, op_list)
    assert [s.op for s in op_list.selected] == subgraph.ops and not op_list.refusals
    result = plugin.compile("EMU16", [sinh_model(), sinh_model()])
    (module,) = result.byte_code
    assert [c.name for c in result.calls] == ["Partition_0", "Partition_1"]
    executable = read_executable(bytes(module))
    assert executable.soc_model == "EMU16" and len(executable.programs) == 1
    assert executable.functions[0].tasks[0].entry == "hyperbolic_sine"  # the only kernel


def test_the_same_input_gives_the_same_bytes() -> None:
    modules = [
        create(Sinh=KERNELS / "sinh.cl").compile("EMU8", [sinh_model()]).byte_code[0]
        for _ in range(2)
    ]
    assert bytes(modules[0]) == bytes(modules[1])


def test_files_that_an_asset_names_are_its_companions() -> None:
    plugin = create()
    path = KERNELS / "transpose_conv.json"
    companions = plugin.companions("Op", str(path), memoryview(path.read_bytes()))
    assert [c.relative_path for c in companions] == [
        "transpose_conv_by_struct.cl",
        "transpose_conv.h",
    ]
    assert [bytes(c.blob) for c in companions] == [
        (KERNELS / c.relative_path).read_bytes() for c in companions
    ]


def test_an_asset_that_names_nothing_has_no_companions() -> None:
    path = KERNELS / "sinh.cl"
    assert not create().companions("Sinh", str(path), memoryview(path.read_bytes()))


def test_a_constant_alone_is_refused() -> None:
    b = ModelBuilder()
    w = b.constant("w", np.ones(4, np.float16))
    b.output(b.op("DEQUANTIZE", [w], [("wf", "float32", (4,))]))
    with pytest.raises(LiteRtError) as error:
        create().compile("EMU8", b.build().subgraphs)
    assert error.value.status is Status.UNSUPPORTED


def test_a_whole_subgraph_with_an_op_that_the_npu_does_not_take_is_refused() -> None:
    b = ModelBuilder()
    x = b.custom("Sinh", [b.input("x", "float32", (3,))], [("y", "float32", (3,))])
    relu = b.op("RELU", [x], [("z", "float32", (3,))])
    b.output(b.custom("Cosh", [relu], [("c", "float32", (3,))]))
    with pytest.raises(LiteRtError) as error:
        create(Sinh=KERNELS / "sinh.cl").compile("EMU8", b.build().subgraphs)
    assert error.value.status is Status.UNSUPPORTED
    assert (
        error.value.what.startswith("RELU: a builtin op") and error.value.where == "op 1 of 'main'"
    )


def test_large_constants_reach_the_module_without_a_copy_in_memory(tmp_path: Path) -> None:
    weights = np.arange(3 << 20, dtype=np.float32)
    path = tmp_path / "weights"
    path.write_bytes(b"in front" * 8 + weights.tobytes())
    with MappedFile(path) as file:
        b = ModelBuilder()
        w = b.constant("w", file.blob(64), "float32", weights.shape)
        b.output(b.custom("Sinh", [w], [("y", "float32", (1,))]))
        (module,) = create(Sinh=KERNELS / "sinh.cl").compile("EMU8", b.build().subgraphs).byte_code
    assert module.file is not None  # the host copies the file in the operating system's kernel
    (constant,) = read_executable(module.view).constants
    assert bytes(constant.data) == weights.tobytes()
    module.file.close()


def test_asking_who_the_vendor_is_loads_no_compiler() -> None:
    code = (
        "import sys, vendor_reference.compiler.plugin;"
        "print([m for m in ('numpy', 'pyopencl', 'flatbuffers', 'vendor_reference.compiler.lowering')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_compiling_loads_neither_numpy_nor_opencl() -> None:
    code = (
        "import sys\n"
        "from litert.core.compiler_options import CompilerOptions, CustomOpInfo\n"
        "from litert.core.environment_options import EnvironmentOptions\n"
        "from litert.model.graph import *\n"
        "from litert.core.element_type import ElementType\n"
        "from litert.model.blob import Blob\n"
        "from vendor_reference.compiler.plugin import PLUGIN\n"
        f"info = CustomOpInfo('Sinh', {str(KERNELS / 'sinh.cl')!r})\n"
        "plugin = PLUGIN.create(EnvironmentOptions(), CompilerOptions([info], check_kernels=False))\n"
        "x, y = (Tensor(n, ElementType.FLOAT32, (3,), Buffer()) for n in 'xy')\n"
        "graph = Subgraph('', [x, y], [x], [y], [Op(OperatorCode(CUSTOM, 'Sinh'), [x], [y])])\n"
        "plugin.compile('EMU8', [graph])\n"
        "print([m for m in ('numpy', 'pyopencl', 'flatbuffers', 'tflite') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
