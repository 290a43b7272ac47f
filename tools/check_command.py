"""`litert-npu check`: checks whether a compiled file can run on this machine, without loading a driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from dispatch.loader import find_dispatch, find_origin
from dispatch.vendor import Vendor
from litert.core.counts import count_text, list_text
from litert.core.errors import LiteRtError, file_error
from litert.core.input_file import check_input
from litert.core.status import Status
from litert.core.version import SDK_VERSION, ApiVersion
from litert.host.file_seal import find_maker
from litert.model.assets import read_assets
from litert.model.byte_code_container import carried_assets, unpack
from litert.model.dispatch_op import is_dispatch_op
from litert.model.file_digest import find_digest
from litert.model.graph import Model
from litert.model.manifest import MANIFEST_KEY, find_mismatches, read_manifest
from litert.model.reader import read_model
from litert.model.stamp import STAMP_KEY, UNSAID_SOC_MODEL, Stamp, read_stamp
from litert.model.stock_checks import check_for_stock
from litert.model.stock_custom_ops import find_not_runnable

from .command import Command
from .command_line import DISPATCH_LIBRARY_PATH, REPORT, FlagValues
from .console import PrintedReport, counts_text, name_text

_Value = TypeVar("_Value")


class Verdict(str, Enum):
    """The outcome of one check of a file. Only FAILED means that the file cannot run."""

    PASSED = "ok"
    UNKNOWN = "?"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class FileFinding:
    """The result of one check.

    Attributes:
      subject: The thing that was checked, such as `stamp`.
      outcome: Outcome of the check. Only the outcome FAILED means that the file cannot run.
      text: Details of the result.
    """

    subject: str
    outcome: Verdict
    text: str


@dataclass(frozen=True, slots=True)
class CheckReport(PrintedReport):
    """All checks of one file.

    Attributes:
      path: Path of the file.
      findings: Results of the checks, in order.
    """

    answers = ("will_run",)

    path: str
    findings: Sequence[FileFinding]

    @property
    def will_run(self) -> bool:
        """Whether the file can run on this machine, because no check failed."""
        return not any(finding.outcome is Verdict.FAILED for finding in self.findings)

    def lines(self) -> Iterator[str]:
        """Yields a line for each check, and a last line that says whether the file can run here."""
        for f in self.findings:
            yield f"  {f.outcome.value:6}  {f.subject:9} {name_text(f.text)}"
        yield f"{self.path} {'will run here' if self.will_run else 'will not run here'}."


def check_file(path: str, dispatch_library_path: str = "") -> CheckReport:
    """Checks a file, its vendor, the device and all digests; no driver is loaded."""
    checks = _Checks()
    model = checks.ask("file", lambda: read_model(path))
    if model is not None:
        with model:
            _check_model(checks, model, dispatch_library_path)
    return CheckReport(path, checks.findings)


class _Checks:
    """Findings, in the order of the checks."""

    def __init__(self) -> None:
        self.findings: list[FileFinding] = []

    def add(self, subject: str, outcome: Verdict, text: str) -> None:
        self.findings.append(FileFinding(subject, outcome, text))

    def ask(self, subject: str, question: Callable[[], _Value]) -> _Value | None:
        """Returns the result of `question`; if that raises an error, adds a failed finding and returns None."""
        try:
            return question()
        except LiteRtError as error:
            self.add(subject, Verdict.FAILED, str(error))
            return None


def _check_model(checks: _Checks, model: Model, dispatch_library_path: str) -> None:
    for warning in model.warnings:
        checks.add("file", Verdict.UNKNOWN, warning)
    num_calls = sum(is_dispatch_op(op) for op in model.ops())
    modules = count_text(len(model.byte_code), "byte code module")
    if not num_calls:
        checks.add("file", Verdict.PASSED, "the file has no NPU calls: all ops run on the CPU")
    elif sum(len(module.users) for module in model.byte_code) < num_calls:
        checks.add("file", Verdict.FAILED, "an NPU call has no byte code. Compile the model again.")
    else:
        checks.add("file", Verdict.PASSED, f"{count_text(num_calls, 'NPU call')}, {modules}")
    carried = checks.ask("assets", lambda: carried_assets(model))
    if carried:
        assets = list_text("asset", [asset.name for asset in carried])
        checks.add("assets", Verdict.PASSED, f"the byte code contains the {assets}")
    if num_calls:
        _check_vendor(checks, model, dispatch_library_path)
    _check_maker(checks, model, has_code=bool(num_calls))
    _check_manifest(checks, model)
    _check_cpu(checks, model)


def _check_vendor(checks: _Checks, model: Model, dispatch_library_path: str) -> None:
    stamp = checks.ask("stamp", lambda: _read_stamp(model))
    if stamp is None:
        return
    checks.add("stamp", Verdict.PASSED, f"for {stamp.soc_manufacturer} {stamp.soc_model}")
    table = checks.ask(
        "vendor", lambda: find_dispatch(stamp.soc_manufacturer, dispatch_library_path)
    )
    if table is None:
        return
    origin = find_origin(stamp.soc_manufacturer, dispatch_library_path)
    build = f", build {table.build_id}" if table.build_id else ""
    checks.add(
        "vendor", Verdict.PASSED, f"{origin}: dispatch API {ApiVersion(*table.api_version)}{build}"
    )
    checks.ask("byte code", lambda: _check_byte_code(Vendor(table), model))
    if stamp.soc_model == UNSAID_SOC_MODEL:
        told = (
            "the file does not name the SoC model for which it was compiled, because stock LiteRT's "
            "compiler was called without a SoC model"
        )
        checks.add("device", Verdict.UNKNOWN, told)
        return
    device = checks.ask("device", lambda: Vendor(table).call("check_device", stamp.soc_model))
    if device:
        checks.add("device", Verdict.PASSED, str(device))
    elif device is not None:
        checks.add(
            "device", Verdict.UNKNOWN, "the vendor cannot check the device without its driver"
        )


def _check_byte_code(vendor: Vendor, model: Model) -> None:
    """Asks the vendor whether its device can read each byte code module and the functions in it."""
    for module in model.byte_code:
        code, _ = unpack(module.blob, "byte code")
        names = [name for _, name in module.users]
        vendor.call("check_byte_code", code.view, names)


def _read_stamp(model: Model) -> Stamp:
    stamp = read_stamp(model)
    if stamp is None:
        raise LiteRtError(
            Status.INVALID_FLATBUFFER,
            f"the file has NPU calls, but no metadata entry {STAMP_KEY}, which names their vendor",
            hint="Compile the model again.",
        )
    return stamp


def _check_maker(checks: _Checks, model: Model, *, has_code: bool) -> None:
    """Compares a whole file with its digest, and adds a finding about the maker of the file."""
    source = model.source
    assert source is not None
    maker = checks.ask("digests", lambda: find_maker(source, source.path))
    if maker is None:
        return
    digest = find_digest(source.view)
    if digest is not None and digest.is_taken:
        checks.add("digests", Verdict.PASSED, "the file has not changed since its compilation")
    if maker.is_user:
        checks.add("maker", Verdict.PASSED, "compiled by you on this machine")
    elif has_code:
        text = (
            f"the maker of the file is unknown: {maker.why_not}. Kernels in the file are code: "
            "outside a sandbox, they run with your privileges"
        )
        checks.add("maker", Verdict.UNKNOWN, text)


def _check_manifest(checks: _Checks, model: Model) -> None:
    try:
        manifest = read_manifest(model)
    except LiteRtError as error:
        checks.add("manifest", Verdict.FAILED, str(error))
        return
    assets, modules = read_assets(model), [module.blob for module in model.byte_code]
    if manifest is None:
        if assets or modules:
            text = (
                f"the file has no metadata entry {MANIFEST_KEY}, so another compiler made the file, and "
                "its contents cannot be checked"
            )
            checks.add("manifest", Verdict.UNKNOWN, text)
        return
    if manifest.native_assets:
        names = ", ".join(f"'{name}'" for name in manifest.native_assets)
        text = (
            f"the assets for {names} contain machine code, which runs only with litert-npu run "
            "--allow_native_assets or Options(allow_native_assets=True)"
        )
        checks.add("native", Verdict.UNKNOWN, text)
    made_by = f"made by litert-npu {manifest.sdk_version}; this is {SDK_VERSION}"
    same = manifest.sdk_version == SDK_VERSION
    checks.add("manifest", Verdict.PASSED if same else Verdict.UNKNOWN, made_by)
    stamp = checks.ask("manifest", lambda: read_stamp(model))
    if stamp and stamp != Stamp(manifest.soc_manufacturer, manifest.soc_model):
        text = (
            f"metadata entry {MANIFEST_KEY} is for {manifest.soc_manufacturer} {manifest.soc_model}, but metadata "
            f"entry {STAMP_KEY} is for {stamp.soc_manufacturer} {stamp.soc_model}. Compile the model again."
        )
        checks.add("manifest", Verdict.FAILED, text)
    mismatches = find_mismatches(manifest, assets, modules)
    for mismatch in mismatches:
        checks.add("digests", Verdict.FAILED, f"{mismatch}. Compile the model again.")
    if not mismatches:
        parts = (
            f"{count_text(len(assets), 'asset')} and {count_text(len(modules), 'byte code module')}"
        )
        checks.add("digests", Verdict.PASSED, f"{parts} have not changed since the compilation")


def _check_cpu(checks: _Checks, model: Model) -> None:
    cpu_ops = [op for op in model.ops() if not is_dispatch_op(op)]
    unknown = find_not_runnable(model)
    version = checks.ask("cpu", _interpreter_version)
    if version is None or not checks.ask("cpu", lambda: _is_opened(model)):
        return
    if unknown:
        text = f"custom ops without a CPU kernel: {counts_text(unknown)}"
        remedy = (
            "See in the report of apply_plugin why these ops are not on the NPU"
            if model.find_metadata(STAMP_KEY) is not None
            else "Compile the model for the NPU"
        )
        checks.add("cpu", Verdict.FAILED, f"{text}. {remedy}.")
    else:
        checks.add(
            "cpu", Verdict.PASSED, f"{count_text(len(cpu_ops), 'op')}, by ai-edge-litert {version}"
        )


def _is_opened(model: Model) -> bool:
    """Returns True if stock LiteRT's interpreter can open a model, and raises an error otherwise."""
    from litert.runtime.trial_opening import check_opens  # here: it imports NumPy

    assert model.source is not None
    check_for_stock(model, model.source.path)
    check_opens(model.source, model.source.path)
    return True


def _interpreter_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ai-edge-litert")
    except PackageNotFoundError:
        raise LiteRtError(
            Status.NOT_FOUND,
            "ai-edge-litert, which runs the ops on the CPU, is not installed",
            hint="Install the package: pip install ai-edge-litert.",
        ) from None
    except OSError as error:
        raise file_error(
            error, "cannot read the list of installed packages", "ai-edge-litert"
        ) from error


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    check_input(arguments[0])
    report = check_file(arguments[0], flags.dispatch_library_path)
    report.show(flags.report)
    return 0 if report.will_run else 1


COMMAND = Command(
    "FILE\nChecks whether a compiled file can run on this machine. For this, the command checks "
    "the vendor, the versions, the device and all digests (hashes). The command loads no driver. "
    "The exit status is 0 if the file can run, and 1 if not.",
    (DISPATCH_LIBRARY_PATH, REPORT),
    _run,
    num_arguments=1,
)
