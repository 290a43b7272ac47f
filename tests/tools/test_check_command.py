"""Tests `litert-npu check`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from litert_npu_tools.check_command import CheckReport, Verdict, check_file

from litert.host.file_seal import user_seal
from litert.model.assets import Asset
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.byte_code_container import pack
from litert.model.file_digest import Seal
from litert.model.graph import Model
from litert.model.manifest import MANIFEST_KEY, read_manifest, set_manifest
from litert.model.stamp import STAMP_KEY, Stamp, set_stamp
from litert.model.writer import write_model
from tests.tools.conftest import LitertNpu, compiled_model
from vendor_reference.drivers.device_choice import find_devices

Capture = pytest.CaptureFixture[str]

ACME = """
from dispatch.api import Dispatch
from litert.core.errors import LiteRtError
from litert.core.status import Status

class Acme(Dispatch):
    vendor_id = "Acme"
    def device_context_create(self, options): raise AssertionError("the driver")
    def invoke(self, call): pass
    def check_device(self, soc_model):
        {body}

DISPATCH = Acme()
"""


def failures(report: CheckReport) -> list[str]:
    return [f.subject for f in report.findings if f.outcome is Verdict.FAILED]


def test_a_file_as_it_was_compiled_will_run(
    compiled: str, golden: Callable[[str, str], None]
) -> None:
    report = check_file(compiled)
    assert report.will_run
    golden("check.txt", report.to_text() + "\n")


def test_machine_code_is_said_to_be_allowed_or_not(compiled: str) -> None:
    model = compiled_model()
    manifest = read_manifest(model)
    assert manifest
    set_manifest(model, replace(manifest, native_assets=("MyOp",)))
    write_model(model, compiled)
    report = check_file(compiled)
    (found,) = [f for f in report.findings if f.subject == "native"]
    assert report.will_run and found.outcome is Verdict.UNKNOWN
    assert "'MyOp'" in found.text and "--allow_native_assets" in found.text


def test_the_exit_status_is_the_answer(
    compiled: str, in_folder: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    assert litert_npu("check", compiled, "--report=json") == 0
    assert json.loads(capsys.readouterr().out)["will_run"] is True
    (in_folder / compiled).write_bytes((in_folder / compiled).read_bytes()[:-30])
    assert litert_npu("check", compiled, "--report=json") == 1
    assert json.loads(capsys.readouterr().out)["will_run"] is False


@pytest.mark.parametrize("part", [b"kernel void", b"#define", b"byte code"])
def test_each_changed_part_is_named(compiled: str, in_folder: Path, part: bytes) -> None:
    path = in_folder / compiled
    path.write_bytes(path.read_bytes().replace(part, part.upper()))
    report = check_file(compiled)
    assert failures(report) == ["digests"] and "has changed" in report.to_text()


def write_sealed(path: str, seal: Seal | None) -> None:
    model = compiled_model()
    manifest = read_manifest(model)
    assert manifest
    set_manifest(model, replace(manifest, has_digest=True))
    write_model(model, path, seal=seal)


def found_about(report: CheckReport, subject: str) -> list[tuple[Verdict, str]]:
    return [(f.outcome, f.text) for f in report.findings if f.subject == subject]


def test_who_compiled_a_file_is_said(
    in_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    write_sealed("own.tflite", user_seal(told.append))
    write_sealed("nobodys.tflite", None)
    own = check_file("own.tflite")
    assert found_about(own, "maker") == [(Verdict.PASSED, "compiled by you on this machine")]
    assert found_about(own, "digests")[0][1] == "the file has not changed since its compilation"
    ((outcome, text),) = found_about(check_file("nobodys.tflite"), "maker")
    assert outcome is Verdict.UNKNOWN and "the file has no seal" in text
    monkeypatch.setenv("LITERT_NPU_DATA_DIR", str(tmp_path / "another user's"))
    report = check_file("own.tflite")
    assert report.will_run
    ((outcome, text),) = found_about(report, "maker")
    assert outcome is Verdict.UNKNOWN and "another user" in text and "are code" in text
    assert told == []


def test_a_user_without_a_key_compiles_and_checks(
    in_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sealed("own.tflite", user_seal(lambda text: pytest.fail(text)))
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("LITERT_NPU_DATA_DIR", str(tmp_path / "a file"))
    ((outcome, text),) = found_about(check_file("own.tflite"), "maker")
    assert outcome is Verdict.UNKNOWN and "the user has no key to check the seal" in text
    told: list[str] = []
    write_sealed("other.tflite", user_seal(told.append))
    ((outcome, text),) = found_about(check_file("other.tflite"), "maker")
    assert outcome is Verdict.UNKNOWN and "the file has no seal" in text
    assert len(told) == 1 and "the file is not sealed" in told[0]


def test_a_flipped_bit_anywhere_is_found(in_folder: Path) -> None:
    write_sealed("own.tflite", None)
    data = bytearray(Path("own.tflite").read_bytes())
    data[-1] ^= 1  # a bit of the padding at the end
    Path("own.tflite").write_bytes(data)
    report = check_file("own.tflite")
    assert failures(report) == ["digests"] and "its digest does not match" in report.to_text()


def no_stamp(model: Model) -> None:
    model.metadata = [entry for entry in model.metadata if entry.name != STAMP_KEY]


def other_stamp(model: Model) -> None:
    set_stamp(model, Stamp("Nobody", "N1"))


def damaged_manifest(model: Model) -> None:
    model.set_metadata(MANIFEST_KEY, Blob(b"{}"))


def no_byte_code(model: Model) -> None:
    model.byte_code.clear()


def unknown_op(model: Model) -> None:
    b = ModelBuilder()
    b.output(b.custom("NobodyKnowsIt", [b.input("x", "int8", ())], [("y", "int8", ())]))
    other = b.build()
    model.subgraphs += other.subgraphs
    model.operator_codes += other.operator_codes


@pytest.mark.parametrize(
    ("damage", "subjects"),
    [
        (no_stamp, ["stamp"]),
        (other_stamp, ["vendor", "manifest"]),
        (damaged_manifest, ["manifest"]),
        (no_byte_code, ["file", "digests"]),
        (unknown_op, ["cpu"]),
    ],
    ids=["no stamp", "other vendor", "manifest", "no byte code", "custom op on the CPU"],
)
def test_what_keeps_a_file_from_running_is_found(
    in_folder: Path, damage: Callable[[Model], None], subjects: list[str]
) -> None:
    model = compiled_model()
    damage(model)
    write_model(model, "damaged.tflite")
    report = check_file("damaged.tflite")
    assert failures(report) == subjects and not report.will_run


@pytest.mark.parametrize(
    ("is_compiled", "remedy"),
    [(True, "See in the report of apply_plugin why"), (False, "Compile the model for the NPU.")],
)
def test_a_custom_op_without_a_kernel_gets_the_remedy_that_is_left(
    in_folder: Path, is_compiled: bool, remedy: str
) -> None:
    b = ModelBuilder()
    b.output(b.custom("NobodyKnowsIt", [b.input("x", "int8", ())], [("y", "int8", ())]))
    model = b.build()
    if is_compiled:
        set_stamp(model, Stamp("Null", "N1"))
    write_model(model, "custom.tflite")
    (finding,) = [f for f in check_file("custom.tflite").findings if f.subject == "cpu"]
    assert remedy in finding.text


@pytest.mark.parametrize("content", [b"", b"hello", None], ids=["empty", "text", "missing"])
def test_a_file_that_is_no_model_will_not_run(in_folder: Path, content: bytes | None) -> None:
    if content is not None:
        (in_folder / "none.tflite").write_bytes(content)
    assert failures(check_file("none.tflite")) == ["file"]


def test_a_file_of_another_version_may_run(in_folder: Path) -> None:
    write_model(compiled_model(sdk_version="7.0.0"), "later.tflite")
    report = check_file("later.tflite")
    assert report.will_run
    assert Verdict.UNKNOWN in [f.outcome for f in report.findings if f.subject == "manifest"]


def test_a_model_for_the_cpu_needs_no_vendor(original: str) -> None:
    report = check_file(original)
    assert report.will_run and [f.subject for f in report.findings] == ["file", "cpu"]


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ('return "two NPUs"', Verdict.PASSED),
        ('return ""', Verdict.UNKNOWN),
        ('raise LiteRtError(Status.NOT_FOUND, "no /dev/npu0")', Verdict.FAILED),
        ("raise ValueError(soc_model)", Verdict.FAILED),
    ],
    ids=["there", "cannot tell", "not there", "raises"],
)
def test_the_vendor_says_whether_its_device_is_there(
    in_folder: Path, body: str, outcome: Verdict
) -> None:
    (in_folder / "LiteRtDispatch_Acme.py").write_text(ACME.format(body=body))
    write_model(compiled_model("Acme"), "acme.tflite")
    report = check_file("acme.tflite", str(in_folder))
    assert [f.outcome for f in report.findings if f.subject == "device"] == [outcome]
    assert report.will_run is (outcome is not Verdict.FAILED)


def test_a_soc_model_that_stock_was_not_told_is_not_looked_for(in_folder: Path) -> None:
    body = "raise AssertionError(soc_model)"
    (in_folder / "LiteRtDispatch_Acme.py").write_text(ACME.format(body=body))
    model = compiled_model("Acme")
    model.metadata = [entry for entry in model.metadata if entry.name != MANIFEST_KEY]
    set_stamp(model, Stamp("Acme", "ExampleSocModel"))
    write_model(model, "acme.tflite")
    report = check_file("acme.tflite", str(in_folder))
    assert [f.outcome for f in report.findings if f.subject == "device"] == [Verdict.UNKNOWN]
    assert report.will_run


def test_byte_code_that_the_device_cannot_read_keeps_a_file_from_running(in_folder: Path) -> None:
    body = """return "an NPU"
    def check_byte_code(self, byte_code, function_names):
        if bytes(byte_code).startswith(b"byte code") and function_names == ["Partition_0"]:
            raise LiteRtError(Status.INCOMPATIBLE_BYTE_CODE_VERSION, "too old")"""
    (in_folder / "LiteRtDispatch_Acme.py").write_text(ACME.format(body=body))
    model = compiled_model("Acme")
    write_model(model, "acme.tflite")
    assert failures(check_file("acme.tflite", str(in_folder))) == ["byte code"]
    model.byte_code[0].blob = Blob(b"newer code")
    model.metadata = [entry for entry in model.metadata if entry.name != MANIFEST_KEY]
    write_model(model, "newer.tflite")
    assert check_file("newer.tflite", str(in_folder)).will_run


@pytest.mark.parametrize("is_cut", [False, True])
def test_assets_that_byte_code_carries_are_looked_at(in_folder: Path, is_cut: bool) -> None:
    model = compiled_model(assets={})
    packed = pack(Blob(b"byte code"), [Asset("MyOp", "", Blob(b"source"))])
    model.byte_code[0].blob = Blob(packed[:-1] if is_cut else packed)
    model.metadata = [entry for entry in model.metadata if entry.name != MANIFEST_KEY]
    write_model(model, "model.tflite")
    report = check_file("model.tflite")
    (found,) = [f for f in report.findings if f.subject == "assets"]
    assert found.outcome is (Verdict.FAILED if is_cut else Verdict.PASSED)
    assert ("damaged" if is_cut else "MyOp") in found.text


def test_a_vendors_table_that_does_not_load_is_a_reason(in_folder: Path) -> None:
    (in_folder / "LiteRtDispatch_Acme.py").write_text("import nothing_of_that_name")
    write_model(compiled_model("Acme"), "acme.tflite")
    report = check_file("acme.tflite", str(in_folder))
    assert failures(report) == ["vendor"] and "nothing_of_that_name" in report.to_text()


def test_no_driver_is_loaded(in_folder: Path) -> None:
    model = compiled_model("Reference")
    set_stamp(model, Stamp("Reference", "EMU8"))
    write_model(model, "reference.tflite")
    code = (
        "import sys; from litert_npu_tools.check_command import check_file;"
        "print(check_file('reference.tflite').to_text());"
        "assert not {'pyopencl', 'ai_edge_litert', 'numpy'} & set(sys.modules), 'loaded'"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "EMU8, emulated on OpenCL" in result.stdout


def test_the_driver_that_would_run_the_file_is_named(in_folder: Path) -> None:
    model = compiled_model("Reference")
    set_stamp(model, Stamp("Reference", "EMU8"))
    write_model(model, "reference.tflite")
    for device in find_devices():
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LITERT_NPU_OPENCL", f"{device.info.platform_version}:{device.info.name}")
            report = check_file("reference.tflite")
        (found,) = [f for f in report.findings if f.subject == "device"]
        assert device.info.name in found.text and device.installation.library in found.text
