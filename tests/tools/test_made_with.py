"""Tests how commands use the flags in a compiled file's manifest, which a stranger may have written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from litert_npu_tools.command_line import make_flags
from litert_npu_tools.compare_command import COMMAND
from litert_npu_tools.made_with import add_made_with

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.manifest import read_manifest, set_manifest
from litert.model.writer import write_model
from tests.tools.conftest import compiled_model


def made_with(told: dict[str, str], *given: str) -> tuple[list[str], dict[str, Any]]:
    """Returns vendor options and changed flags for a file whose manifest has the flags `told`."""
    model = compiled_model()
    manifest = read_manifest(model)
    assert manifest
    set_manifest(model, replace(manifest, flags=told))
    write_model(model, "told.tflite")
    flags = make_flags(COMMAND.flags)
    flags(["litert-npu", "--npu_custom_op_info=MyOp,my.cl", *given])
    before = flags.flag_values_dict()
    options = add_made_with(flags, "told.tflite")
    after = flags.flag_values_dict()
    changed = {name: value for name, value in after.items() if value != before[name]}
    assert (changed.pop("soc_manufacturer"), changed.pop("soc_model")) == ("Null", "NULL1")
    return options, changed


@pytest.fixture(autouse=True)
def here(in_folder: object) -> None:
    pass


def test_a_file_says_how_it_was_compiled() -> None:
    told = {"subgraphs": "0,1", "check_kernels": "false", "null_speed": "3", "other_speed": "4"}
    flags = {"subgraphs": ["0", "1"], "check_kernels": False}
    assert made_with(told) == (["--null_speed=3"], flags)
    assert made_with(told, "--subgraphs=2")[1] == {"check_kernels": False}


@pytest.mark.parametrize(
    "told",
    [
        {"extensions": "."},
        {"libs": "."},
        {"dispatch_library_path": "."},
        {"reference_function": "MyOp,evil.py:f"},
        {"plugin_in_process": "true"},
        {"html": "page.html"},
        {"bisect": "part"},
        {"sandbox": "off"},
        {"allow_native_assets": "true"},
        {"null_folder": "../here"},
        {"null_folder=../here": "x"},
    ],
    ids=str,
)
def test_no_file_names_what_is_loaded_read_or_written(told: dict[str, str]) -> None:
    assert made_with(told) == ([], {})


def test_a_value_that_no_flag_has_is_a_fault_of_the_file() -> None:
    with pytest.raises(
        LiteRtError,
        match="contains an invalid flag: --compiler_options_max_partitions=many: the flag needs",
    ) as error:
        made_with({"compiler_options_max_partitions": "many"})
    assert error.value.status is Status.INVALID_FLATBUFFER
    assert error.value.where == "told.tflite"
