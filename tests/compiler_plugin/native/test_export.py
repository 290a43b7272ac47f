"""Tests a Python plugin through the C interface, called as a host does, on models that stock LiteRT loaded."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.native.export import export_plugin
from compiler_plugin.native.exported.options import read_options, write_flags
from litert.abi.definitions import ffi
from litert.core.compiler_options import CompilerOptions, CustomOpInfo, DumpOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.graph import Model, Subgraph
from litert.model.writer import write_model
from tests.compiler_plugin.native.exported import (
    NULL,
    OP_LIST,
    Exported,
    TakingFactory,
    TakingPlugin,
    refuse_together,
)
from tests.compiler_plugin.native.stock_host import StockHost, StockModel


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """A model with RELU, TANH, RELU in a chain."""
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4))
    for index, name in enumerate(("RELU", "TANH", "RELU")):
        x = b.op(name, [x], [(f"t{index}", "float32", (1, 4))])
    b.output(x)
    write_model(b.build(), tmp_path / "chain.tflite")
    return tmp_path / "chain.tflite"


@pytest.fixture
def partitions(tmp_path: Path) -> Path:
    """A model with two partitions as subgraphs, as a host passes them: one MyOp; Other and RELU."""
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4))
    b.output(b.custom("MyOp", [x], [("y", "float32", (1, 4))]))
    other = b.subgraph("other")
    v = other.input("v", "float32", (1, 4))
    w = other.custom("Other", [v], [("w", "float32", (1, 4))])
    other.output(other.op("RELU", [w], [("z", "float32", (1, 4))]))
    write_model(b.build(), tmp_path / "partitions.tflite")
    return tmp_path / "partitions.tflite"


def c_text(text: str) -> Any:
    return ffi.new("char[]", text.encode())


def test_who_the_vendor_is_is_told_without_a_plugin() -> None:
    functions = export_plugin(TakingFactory())
    assert ffi.string(functions["LiteRtGetCompilerPluginSocManufacturer"]()) == b"Taking"
    version = ffi.new("LiteRtApiVersion*")
    assert functions["LiteRtGetCompilerPluginVersion"](version) == 0
    assert (version.major, version.minor, version.patch) == (0, 1, 0)


@pytest.mark.parametrize(
    "vendor", [TakingFactory, object(), None], ids=["a class", "an object", "nothing"]
)
def test_what_is_no_plugin_is_not_exported(vendor: Any) -> None:
    with pytest.raises(LiteRtError, match=r"PLUGIN (is the class|has type)") as error:
        export_plugin(vendor, "vendor.py")
    assert error.value.status is Status.DYNAMIC_LOADING and error.value.where == "vendor.py"


def test_what_the_factory_says_reaches_the_host() -> None:
    with Exported(TakingFactory()) as exported:
        number, text, bits = ffi.new("size_t*"), ffi.new("char**"), ffi.new("LiteRtHwAccelerators*")
        plugin = exported.plugin
        assert exported.call("GetNumCompilerPluginSupportedSocModels", plugin, number) == 0
        models: list[bytes] = []
        for index in range(number[0]):
            assert exported.call("GetCompilerPluginSupportedSocModel", plugin, index, text) == 0
            models.append(ffi.string(text[0]))
        assert models == [b"T1", b"T2"]
        index_oob = exported.call("GetCompilerPluginSupportedSocModel", plugin, 2, text)
        assert index_oob == Status.INDEX_OOB
        assert exported.call("GetCompilerPluginSDKVersion", plugin, text) == 0
        assert ffi.string(text[0]) == b"1.2"
        assert exported.call("GetCompilerPluginSupportedHardware", plugin, bits) == 0
        assert bits[0] == 4
        transformations = ffi.new("LiteRtTransformation**")
        name = "CompilerPluginRegisterAllTransformations"
        assert exported.call(name, plugin, transformations, number) == 0 and number[0] == 0


@pytest.mark.parametrize("size", [1408, 1104, 1048])
def test_what_the_vendor_takes_is_pushed_by_partition(size: int, chain: Path) -> None:
    with Exported(TakingFactory(), StockHost(size)) as exported:
        assert exported.partition(chain) == (0, [(0, 1), (2, 2)])
        assert exported.partition(chain) == (0, [(0, 1), (2, 2)])


SOC_MODELS = {
    "none": (NULL, "T1"),
    "one": (c_text("T2"), "T2"),
    "what stock's tool says where none is given": (c_text("ExampleSocModel"), "T1"),
}


@pytest.mark.parametrize(("given", "used"), SOC_MODELS.values(), ids=SOC_MODELS)
def test_the_vendor_compiles_for_the_soc_model(given: Any, used: str, partitions: Path) -> None:
    factory = TakingFactory()
    with Exported(factory) as exported:
        status, result = exported.compile(partitions, given)
        assert status == 0
        exported.call("DestroyCompiledResult", result)
    names = "['Partition_0', 'Partition_1']"
    assert factory.plugin.seen == ["create", f"compile {used} {names}", "close"]


def test_an_unknown_soc_model_is_refused(chain: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Exported(TakingFactory()) as exported:
        status, pushed = exported.partition(chain, c_text("T3"))
    assert (status, pushed) == (Status.INVALID_TOOL_CONFIG, [])
    assert "no SoC model 'T3'" in caplog.text and "T1, T2" in caplog.text


def test_a_result_lives_until_it_is_destroyed(partitions: Path) -> None:
    with Exported(TakingFactory()) as exported:
        first, second = exported.compile(partitions), exported.compile(partitions)
        assert (first[0], second[0]) == (0, 0)
        exported.call("DestroyCompiledResult", first[1])
        assert [m.byte_code for m in exported.modules(second[1])] == [b"MyOp;Other RELU"]
        assert exported.calls(second[1]) == [("Partition_0", 0), ("Partition_1", 0)]
        number = ffi.new("size_t*")
        gone = exported.call("GetNumCompiledResultCalls", first[1], number)
        assert gone == Status.INVALID_ARGUMENT
        exported.call("DestroyCompiledResult", second[1])
        exported.call("DestroyCompiledResult", NULL)


def test_there_is_no_executable_for_jit(partitions: Path) -> None:
    with Exported(TakingFactory()) as exported:
        _, result = exported.compile(partitions)
        handle = ffi.new("LiteRtJitExecutable*")
        status = exported.call("GetCompiledResultHandle", result, 0, handle)
        assert status == Status.UNSUPPORTED


def test_without_a_result_there_are_no_modules() -> None:
    with Exported(TakingFactory()) as exported:
        number = ffi.new("size_t*", 7)
        assert exported.call("CompiledResultNumByteCodeModules", NULL, number) == 0
        assert number[0] == 0


def test_assets_go_with_the_byte_code_of_their_ops(
    partitions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("my.cl", "other, too.cl", "unused.cl"):
        (tmp_path / name).write_text(f"source of {name}")
    infos = f"MyOp,{tmp_path}/my.cl;Other,{tmp_path}/other, too.cl; Unused,{tmp_path}/unused.cl"
    monkeypatch.setenv("LITERT_NPU_CUSTOM_OP_INFO", infos)
    plugin = TakingPlugin(refuse=refuse_together)
    with Exported(TakingFactory(plugin)) as exported:
        status, result = exported.compile(partitions)
        assert status == 0
        modules = exported.modules(result)
        assert exported.calls(result) == [("Partition_0", 0), ("Partition_1", 1)]
    assert [[a.name for a in module.assets] for module in modules] == [
        ["MyOp", "MyOp/part.h"],
        ["Other", "Other/part.h"],
    ]
    assert bytes(modules[1].assets[0].blob) == b"source of other, too.cl"
    assert [info.op_name for info in plugin.options.custom_op_infos] == ["MyOp", "Other", "Unused"]


def test_options_come_from_the_environment_and_from_the_host(
    chain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "LITERT_NPU_OPTIONS", "taking_speed=1; --check_kernels=false;acme_speed=2;asset_root=/a"
    )
    host, factory = StockHost(), TakingFactory()
    text = c_text("taking_speed=3\nshape_bounds=x:2x4\ntaking_loud\n")
    lines = c_text('size = 4\nname = "a b"\n')
    host.payloads = {"litert_npu": text, "taking": lines}
    with Exported(factory, host, ffi.cast("LiteRtOptions", 16)) as exported:
        assert exported.partition(chain)[0] == 0
    options = factory.plugin.options
    assert options.vendor_options == {
        "taking_speed": "3",
        "taking_loud": "true",
        "taking_size": "4",
        "taking_name": "a b",
    }
    assert not options.check_kernels and options.asset_root == "/a"
    assert options.shape_bounds == {"x": [2, 4]}


BAD_OPTIONS = {
    "check_kernels=perhaps": "the value of option 'check_kernels' is 'perhaps', but must be true or false",
    "asset_root=a;asset_root=b": "option 'asset_root' is given twice",
    "compiler_options_max_partitions=-1": "is '-1', but must be a whole number of at least 0",
    "npu_custom_op_info=MyOp": "has no comma",
    "npu_custom_op_info=A,b;npu_custom_op_info=A,c": "custom op 'A' was given two assets",
    "shape_bounds=x": "which is not a bound",
    "chek_kernels=false": "there is no option 'chek_kernels' ($LITERT_NPU_OPTIONS). Did you mean 'check_kernels'?",
    "takin_speed=1": "there is no option 'takin_speed' ($LITERT_NPU_OPTIONS). Did you mean 'taking_speed'?",
}


@pytest.mark.parametrize(("text", "words"), BAD_OPTIONS.items(), ids=BAD_OPTIONS)
def test_wrong_options_are_refused(
    text: str, words: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LITERT_NPU_OPTIONS", text)
    exported = Exported(TakingFactory())
    assert exported.created == Status.INVALID_TOOL_CONFIG and not exported.plugin
    assert words in caplog.text


@pytest.mark.parametrize("text", ["reference_ops=all", "intel_openvino_graph_backends=cpu", "x=1"])
def test_options_of_others_are_theirs(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """This also holds for vendors with similar names."""
    monkeypatch.setattr(TakingFactory, "soc_manufacturer", "Preference")
    monkeypatch.setenv("LITERT_NPU_OPTIONS", text)
    with Exported(TakingFactory()) as exported:
        assert exported.created == Status.OK


def test_an_asset_that_is_not_there_is_named(
    chain: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LITERT_NPU_CUSTOM_OP_INFO", "MyOp,/nowhere/my.cl")
    with Exported(TakingFactory()) as exported:
        assert exported.compile(chain)[0] == Status.NOT_FOUND
    assert "asset file of op 'MyOp'" in caplog.text and "/nowhere/my.cl" in caplog.text


def test_what_is_given_for_a_model_that_is_not_so_is_told(
    chain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "my.cl").touch()
    monkeypatch.setenv("LITERT_NPU_CUSTOM_OP_INFO", f"MyOp,{tmp_path / 'my.cl'}")
    monkeypatch.setenv("LITERT_NPU_OPTIONS", "shape_bounds=x:8x4;shape_bounds=nowhere:8")
    with Exported(TakingFactory()) as exported:
        assert exported.partition(chain)[0] == 0
    assert "an asset is given for op 'MyOp', but the subgraph has no such op" in caplog.text
    assert "the shape bound of tensor 'x' is ignored" in caplog.text
    assert (
        "a shape bound is given for tensor 'nowhere', but the subgraph has no such tensor"
        in caplog.text
    )


def refuse_relu_behind_tanh(partitions: Sequence[Subgraph]) -> None:
    if any(partition.inputs[0].name == "t1" for partition in partitions):
        raise LiteRtError(Status.UNSUPPORTED, "this RELU is too much")


def test_what_the_vendor_would_refuse_is_not_offered(
    chain: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with Exported(TakingFactory(TakingPlugin(refuse=refuse_relu_behind_tanh))) as exported:
        assert exported.partition(chain) == (0, [(0, 1)])
    assert "Taking takes 1 of 3 ops, in 1 partitions" in caplog.text
    assert "leaves 1 op (RELU) on the CPU: this RELU is too much" in caplog.text
    assert "leaves 1 op (TANH) on the CPU: no TANH here" in caplog.text


def test_an_output_whose_shape_a_run_tells_is_refused(
    chain: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with Exported(TakingFactory(TakingPlugin(shape_outputs=[0]))) as exported:
        assert exported.partition(chain) == (0, [])
        assert exported.compile(chain)[0] == Status.UNSUPPORTED
    assert "known only at run time, and this host's NPU calls cannot return a shape" in caplog.text


def test_an_op_that_the_host_does_not_show_in_full_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4))
    y = b.op("L2_NORMALIZATION", [x], [("y", "float32", (1, 4))])
    b.output(b.op("RELU", [y], [("z", "float32", (1, 4))]))
    write_model(b.build(), tmp_path / "m.tflite")
    plugin = TakingPlugin(("L2_NORMALIZATION", "RELU"))
    with Exported(TakingFactory(plugin)) as exported:
        assert exported.partition(tmp_path / "m.tflite") == (0, [(1, 1)])
    assert (
        "does not pass these options of the op to plugins: fused_activation_function" in caplog.text
    )


def test_the_limit_of_partitions_holds(chain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITERT_NPU_OPTIONS", "compiler_options_max_partitions=1")
    with Exported(TakingFactory()) as exported:
        assert exported.partition(chain) == (0, [(0, 1)])


def raise_value_error(partitions: Sequence[Subgraph]) -> None:
    raise ValueError("the compiler has a bug")


def raise_exit(partitions: Sequence[Subgraph]) -> None:
    raise SystemExit(3)


def raise_status(partitions: Sequence[Subgraph]) -> None:
    raise LiteRtError(Status.COMPILATION, "kernel 'k' does not build", "k.cl:3")


FAILURES = {
    raise_value_error: (Status.COMPILATION, "ValueError: the compiler has a bug"),
    raise_exit: (Status.COMPILATION, "SystemExit"),
    raise_status: (
        Status.COMPILATION,
        "kernel 'k' does not build (k.cl:3; vendor 'Taking', in compile)",
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_what_the_vendor_raises_is_a_status_and_words(
    failure: Any, chain: Path, caplog: pytest.LogCaptureFixture
) -> None:
    status, words = FAILURES[failure]
    plugin = TakingPlugin(refuse=failure)
    with Exported(TakingFactory(plugin)) as exported:
        assert exported.partition(chain) == (status, [])
        assert exported.compile(chain) == (status, NULL)
        plugin.refuse = lambda partitions: None
        assert exported.partition(chain)[0] == 0  # the plugin still works after the error
    assert words in caplog.text


def test_wrong_pointers_are_refused(chain: Path, partitions: Path) -> None:
    with Exported(TakingFactory()) as exported:
        plugin, wrong = exported.plugin, ffi.cast("LiteRtCompilerPlugin", 0x1234)
        subgraph, number = StockModel(chain).subgraph(exported.host), ffi.new("size_t*")
        _, result = exported.compile(partitions)
        data, name = ffi.new("void**"), ffi.new("char**")
        version = ffi.new("LiteRtApiVersion*")[0]
        wrong_calls: list[tuple[Any, ...]] = [
            ("GetCompilerPluginVersion", NULL),
            ("CreateCompilerPlugin", NULL, ffi.new("LiteRtCompilerPlugin*"), NULL, NULL),
            ("CreateCompilerPlugin", exported.host.context, NULL, NULL, NULL),
            ("GetNumCompilerPluginSupportedSocModels", NULL, number),
            ("GetNumCompilerPluginSupportedSocModels", plugin, NULL),
            ("GetCompilerPluginSupportedSocModel", wrong, 0, name),
            ("GetCompilerPluginSDKVersion", plugin, NULL),
            ("GetCompilerPluginSupportedHardware", plugin, NULL),
            ("CompilerPluginCheckCompilerCompatibility", version, NULL, NULL, NULL, NULL),
            ("CompilerPluginRegisterAllTransformations", plugin, NULL, number),
            ("CompilerPluginPartition", plugin, NULL, NULL, OP_LIST),
            ("CompilerPluginPartition", plugin, NULL, subgraph, NULL),
            ("CompilerPluginPartition", wrong, NULL, subgraph, OP_LIST),
            ("CompilerPluginCompile", plugin, NULL, NULL, ffi.new("LiteRtCompiledResult*")),
            ("CompilerPluginCompile", plugin, NULL, StockModel(chain).handle, NULL),
            ("CompiledResultNumByteCodeModules", result, NULL),
            ("GetCompiledResultByteCode", result, 0, NULL, number),
            ("GetCompiledResultCallInfo", result, 0, data, number, NULL),
            ("GetNumCompiledResultCalls", NULL, number),
            ("GetNumCompiledResultCalls", ffi.cast("LiteRtCompiledResult", plugin), number),
        ]
        for function, *arguments in wrong_calls:
            assert exported.call(function, *arguments) == Status.INVALID_ARGUMENT, function
        assert exported.call("GetCompiledResultByteCode", result, 1, data, number) == (
            Status.INDEX_OOB
        )
        exported.call("DestroyCompilerPlugin", NULL)
        exported.call("DestroyCompilerPlugin", wrong)


def test_several_plugins_do_not_know_of_each_other(chain: Path) -> None:
    first, second = TakingFactory(), TakingFactory(TakingPlugin(("TANH",)))
    with Exported(first) as one:
        with Exported(second) as other:
            assert other.partition(chain) == (0, [(1, 1)])
        assert one.partition(chain) == (0, [(0, 1), (2, 2)])
    assert second.plugin.seen[-1] == "close"
    with Exported(first) as again:
        assert again.partition(chain)[0] == 0


def test_a_host_of_another_version_is_the_vendors_to_refuse() -> None:
    class Picky(TakingFactory):
        def check_compiler_compatibility(self, host_version: Any, *_: Any) -> None:
            if host_version != (0, 1, 0):
                raise LiteRtError(
                    Status.UNSUPPORTED_COMPILER_VERSION, f"no host of version {host_version}"
                )

    with Exported(Picky()) as exported:
        version = ffi.new("LiteRtApiVersion*", (0, 1, 0))
        check = "CompilerPluginCheckCompilerCompatibility"
        assert exported.call(check, version[0], exported.plugin, NULL, NULL, NULL) == 0
        version.minor = 2
        status = exported.call(check, version[0], exported.plugin, NULL, NULL, c_text("T1"))
        assert status == Status.UNSUPPORTED_COMPILER_VERSION


def test_what_our_host_hands_over_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITERT_NPU_OPTIONS", "asset_root=/other;taking_a=1")
    options = CompilerOptions(
        check_kernels=False,
        allow_native_assets=True,
        asset_root="/a; b=c",
        custom_layers=[],
        shape_bounds={"x:0": [2, 4], "z": [1]},
        dump=DumpOptions("/dump", "all", kernels=True),
    )
    lines = write_flags(options).decode().splitlines()
    infos = [CustomOpInfo("MyOp", "my.cl")]
    expected = replace(options, custom_op_infos=infos, vendor_options={"taking_a": "1"})
    assert read_options("Taking", lines, infos) == expected
    assert write_flags(CompilerOptions()) == b""
    with pytest.raises(LiteRtError, match="line break"):
        write_flags(CompilerOptions(asset_root="/a\nallow_native_assets=true"))


@pytest.mark.parametrize("by_environment", [False, True])
def test_layers_for_any_model_are_found_among_files(
    partitions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_environment: bool
) -> None:
    for name in ("MyOp", "Other", "RELU"):
        (tmp_path / f"{name}.cl").write_text(name)
    flags = f"custom_layers={tmp_path};npu_custom_op_info=Other,{tmp_path}/RELU.cl"
    if by_environment:
        monkeypatch.setenv("LITERT_NPU_CUSTOM_LAYERS", str(tmp_path))
        flags = flags.partition(";")[2]
    monkeypatch.setenv("LITERT_NPU_OPTIONS", flags)
    with Exported(TakingFactory()) as exported:
        assert exported.partition(partitions) == (0, [(0, 1)])
        status, result = exported.compile(partitions)
        assert status == 0
        (module,) = exported.modules(result)
    assets = {a.name: bytes(a.blob) for a in module.assets if not a.companion_path}
    assert assets == {"Other": b"RELU", "MyOp": b"MyOp"}


def test_a_vendor_that_works_in_nchw_gets_it(tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4, 6, 3))
    filters = b.constant("w", np.ones((2, 1, 1, 3), np.float32))
    bias = b.constant("b", np.zeros(2, np.float32))
    b.output(
        b.op(
            "CONV_2D", [x, filters, bias], [("y", "float32", (1, 4, 6, 2))], stride_w=1, stride_h=1
        )
    )
    write_model(b.build(), tmp_path / "m.tflite")
    shapes: list[object] = []

    def look(partitions: Sequence[Subgraph]) -> None:
        ops = [op for op in partitions[0].ops if op.name == "CONV_2D"]
        shapes.append([t.shape for t in (ops[0].inputs[0], *ops[0].outputs) if t])

    plugin = TakingPlugin(("CONV_2D",), refuse=look)
    plugin.data_layout = "NCHW"
    with Exported(TakingFactory(plugin)) as exported:
        assert exported.partition(tmp_path / "m.tflite") == (0, [(0, 1)])
        assert exported.compile(tmp_path / "m.tflite")[0] == 0
    assert shapes == [[(1, 3, 4, 6), (1, 2, 4, 6)]] * 2


def test_a_vendor_s_own_transformations_are_said_to_be_left_out(
    chain: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Transforming(TakingPlugin):
        def transform(self, model: Model) -> dict[str, int]:
            raise AssertionError("no host of C's can")

    with Exported(TakingFactory(Transforming())) as exported:
        assert exported.partition(chain)[0] == 0
    assert "the plugin's transformations run only in litert-npu's apply_plugin" in caplog.text


@pytest.mark.parametrize(("size", "count"), [(1408, 1), (1104, 1), (1048, 0)])
def test_a_host_that_can_build_is_given_a_transformation_where_there_are_assets(
    size: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LITERT_NPU_CUSTOM_OP_INFO", "MyOp,my.cl")
    with Exported(TakingFactory(), StockHost(size)) as exported:
        transformations, number = ffi.new("LiteRtTransformation**"), ffi.new("size_t*")
        name = "CompilerPluginRegisterAllTransformations"
        assert exported.call(name, exported.plugin, transformations, number) == 0
        assert number[0] == count
        for index in range(count):
            assert transformations[0][index].pattern
            assert b"dequantized" in ffi.string(transformations[0][index].name)


def test_a_release_without_the_newest_slots_is_enough(chain: Path) -> None:
    with Exported(TakingFactory(), StockHost(1048)) as exported:
        assert exported.partition(chain) == (0, [(0, 1), (2, 2)])
        assert exported.compile(chain)[0] == 0
