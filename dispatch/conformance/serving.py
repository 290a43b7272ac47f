"""What a child process does for the checks of a dispatch library; arguments and answers as JSON has them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from dispatch.conformance.case import Case, make_data
from dispatch.conformance.checks import CHECKS
from dispatch.conformance.host import CheckedHost
from dispatch.conformance.subject import DispatchSubject
from dispatch.conformance.table import Table, load_table
from litert.abi.conformance.call_trace import CallTrace
from litert.abi.conformance.check_prints import mark_begins
from litert.abi.conformance.checks import run_checks, select
from litert.abi.definitions import ffi
from litert.core.element_type import ElementType
from litert.core.tensor_type import RankedTensorType
from litert.host.python_library.bootstrap import find_vendor


def check_dispatch(argument: Mapping[str, Any]) -> Iterator[Mapping[str, str]]:
    """Runs the checks of a dispatch library that `argument["done"]` does not have.

    Args:
      argument: `origin` and `manufacturer` of the library; `cases`, as the compiler's `write_cases` has them, with
        `expected`, a file for each output, or None; `tolerance`; `assets`, pairs of a name and a file, companions
        first; `allow_native_assets`; `rules`, as `select` has them; `done`, `stopped` and `trace`.

    Yields:
      As `litert.abi.conformance.checks.run_checks`.
    """
    trace = CallTrace(argument["trace"])
    assets = {name: _read(path) for name, path in argument["assets"]}
    cases = [_case(each, assets) for each in argument["cases"]]
    subject = DispatchSubject(lambda: _load(argument, trace), cases, argument["tolerance"])
    answers = run_checks(
        select(CHECKS, argument["rules"]), subject, argument["done"], argument["stopped"]
    )
    yield from mark_begins(answers)


def input_types(case: Mapping[str, Any], ends: str = "inputs") -> list[RankedTensorType]:
    """Types of a case's inputs, or of its `outputs`."""
    return [RankedTensorType.of(ElementType(kind), tuple(shape)) for kind, shape in case[ends]]


def input_data(case: Mapping[str, Any]) -> list[bytes]:
    """What a case's inputs are in the checks."""
    return [make_data(tensor_type, seed) for seed, tensor_type in enumerate(input_types(case))]


def _case(case: Mapping[str, Any], assets: Mapping[str, bytes]) -> Case:
    expected = case["expected"]
    return Case(
        case["name"],
        _read(case["byte_code"]),
        case["function"],
        input_types(case),
        input_types(case, "outputs"),
        input_data(case),
        None if expected is None else [_read(path) for path in expected],
        assets,
    )


def _load(argument: Mapping[str, Any], trace: CallTrace) -> Table:
    table, vendor = _open(argument, trace)
    if argument["allow_native_assets"]:
        table.options = table.host.options(vendor, {"allow_native_assets": "true"})
    return table


def _open(argument: Mapping[str, Any], trace: CallTrace) -> tuple[Table, str]:
    """A table, and whose options it reads."""
    manufacturer: str = argument["manufacturer"]
    origin: str = argument["origin"]
    if origin.endswith(".so"):
        return load_table(os.path.abspath(origin), trace), manufacturer
    spec = {
        "manufacturer": manufacturer,
        "origin": origin,
        "constant": "DISPATCH",
    }
    vendor = trace.call(f"the import of {origin}", find_vendor, spec)
    if isinstance(vendor, (str, os.PathLike)):  # a package whose table is in a shared library
        return load_table(os.fspath(vendor), trace), manufacturer
    from dispatch.native.export import export_table

    exported = export_table(vendor)
    get_api = ffi.cast("LiteRtStatus(*)(LiteRtDispatchApi*)", exported.get_api)
    register_asset = ffi.cast(
        "LiteRtStatus(*)(LiteRtDispatchDeviceContext, const char*, const LiteRtMemBuffer*)",
        exported.register_asset,
    )
    table = Table(get_api, exported.api, register_asset, CheckedHost(), trace, exported)
    table.error.listen()
    return table, vendor.vendor_id


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
