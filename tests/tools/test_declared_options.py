"""Tests that one declaration gives an option its flag, its field of `litert.Options` and its part of load keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest
from litert_npu_tools.apply_command_line import define_flags
from litert_npu_tools.command_line import make_flags
from litert_npu_tools.load_flags import LOAD_FLAGS

from compiler_plugin.apply_options import ApplyOptions
from compiler_plugin.isolation.hosting import Hosting
from compiler_plugin.native.exported.options import FLAGS
from compiler_plugin.transform_options import TransformOptions
from litert.core.compiler_options import CompilerOptions, CustomOpInfo, DumpOptions
from litert.core.environment_options import EnvironmentOptions
from litert.core.option import (
    Flag,
    Goes,
    Option,
    Section,
    given_flags,
    option,
    options_of,
    values_by_field,
)
from litert.options import Options
from litert.runtime.compile_key import make_key
from litert.runtime.load_candidates import Candidates

KINDS = (ApplyOptions, CompilerOptions, DumpOptions, TransformOptions, Hosting)
DECLARED = options_of(*KINDS)
AT_LOAD = [declared for declared in DECLARED if Goes.LOAD in declared.goes]
NO_FLAGS = {
    "compiler", "dump", "transform", "hosting",  # their fields have flags
    "vendor_options",  # each vendor declares its own
    "dump_folder",  # a field of DumpOptions has this flag
    "started",
}  # fmt: skip


def _flag(declared: Option) -> str:
    return declared.flag.name


def _another(value: Any) -> Any:
    """Returns another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, Mapping):
        return {"x": [2]}
    return value + 1 if isinstance(value, int) else "x" if isinstance(value, str) else ["x"]


def test_each_field_is_declared() -> None:
    names = [member.name for kind in KINDS for member in fields(kind)]
    assert set(names) - {declared.field for declared in DECLARED} == NO_FLAGS


@pytest.mark.parametrize("declared", DECLARED, ids=_flag)
def test_each_option_is_a_flag_with_its_default(declared: Option) -> None:
    flags = define_flags()
    assert declared.read_flag(flags[declared.flag.name].value) in (declared.default, [], {})


@pytest.mark.parametrize("declared", AT_LOAD, ids=_flag)
def test_an_option_for_loads_is_in_litert_s_and_in_the_flags_of_run(declared: Option) -> None:
    assert getattr(Options(), declared.field) == declared.default
    flag = next(flag for flag in LOAD_FLAGS if flag.name == declared.flag.name)
    assert flag._replace(help="") == declared.flag._replace(help="")


@pytest.mark.parametrize("declared", AT_LOAD, ids=_flag)
def test_what_is_compiled_is_kept_for_each_value(declared: Option, tmp_path: Path) -> None:
    (tmp_path / "x.cl").write_text("kernel")
    value: Any = _another(declared.default)
    if declared.field == "custom_op_infos":
        value = [CustomOpInfo("x", str(tmp_path / "x.cl"))]
    environment = EnvironmentOptions(compiler_cache_dir=str(tmp_path))
    changed = Options(**{declared.field: value})
    keys = [make_key(b"", o, Candidates((), ()), environment) for o in (Options(), changed)]
    assert keys[0] != keys[1]


def test_an_exported_plugin_reads_what_is_declared_for_it() -> None:
    assert set(FLAGS) == {_flag(d) for d in DECLARED if Goes.ENVIRONMENT in d.goes}
    assert all(Goes.ENVIRONMENT in d.goes for d in DECLARED if Goes.PAYLOAD in d.goes)


def test_an_option_without_a_vendor_in_it_holds_no_path_in_the_manifest() -> None:
    in_manifest = {_flag(d) for d in DECLARED if Goes.MANIFEST in d.goes}
    assert not in_manifest & {"asset_root", "custom_layers", "libs", "dump_folder", "extensions"}


def test_a_new_option_needs_its_declaration_alone() -> None:
    @dataclass(frozen=True, slots=True)
    class Mine:
        num_tiles: int = option(
            Flag("tiles", 4, "How many tiles there are.", least=1),
            Section.LAYERS,
            Goes.MANIFEST,
        )

    declared = options_of(Mine)
    flags = make_flags(option.flag for option in declared)
    assert flags(["program", "--tiles=6"], known_only=True) == ["program"]
    mine = Mine(**values_by_field(declared, flags.flag_values_dict()))
    assert mine == Mine(6)
    assert dict(given_flags(mine, Goes.MANIFEST)) == {"tiles": ["6"]}
    assert not dict(given_flags(mine, Goes.PAYLOAD)) and not dict(
        given_flags(Mine(), Goes.MANIFEST)
    )
