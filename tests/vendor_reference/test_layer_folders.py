"""Tests folders with layers for any model: which files are read, and which layers are found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from tests.vendor_reference.cpu_layers import library
from vendor_reference.custom_layers.layer_folders import find_layers


def write_xml(path: Path, *names: str) -> Path:
    path.write_text("".join(
        f'<CustomLayer name="{name}" type="SimpleGPU" version="1">'
        '<Kernel entry="k"><Source filename="k.cl"/></Kernel>'
        '<Buffers><Tensor arg-index="0" type="output" port-index="0"/></Buffers></CustomLayer>'
        for name in names
    ))  # fmt: skip
    (path.parent / "k.cl").write_text("__kernel void k() {}")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "layers"
    (folder / "deeper").mkdir(parents=True)
    write_xml(folder / "several.xml", "Sinh", "Cosh")
    write_xml(folder / "another.xml", "RELU")
    write_xml(folder / "deeper" / "tanh.xml", "Tanh")
    (folder / "README.md").write_text("no description")
    return folder


def found(*paths: Path, names: str = "Sinh,Cosh,RELU,Tanh", root: str = "") -> dict[str, str]:
    layers = find_layers([str(path) for path in paths], names.split(","), root, False, [])
    assert all(layer.layer.op_name == name for name, layer in layers.items())
    return {name: Path(layer.path).name for name, layer in layers.items()}


def test_all_descriptions_of_a_folder_count_but_not_those_below(folder: Path) -> None:
    assert found(folder) == {"RELU": "another.xml", "Sinh": "several.xml", "Cosh": "several.xml"}


def test_only_the_layers_of_the_models_ops_are_found(folder: Path) -> None:
    assert found(folder, names="Cosh,Other") == {"Cosh": "several.xml"}
    assert found(folder, names="sinh,Relu") == {}  # names are compared exactly


def test_a_name_in_other_capitals_is_noted(folder: Path) -> None:
    notes: list[str] = []
    assert not find_layers([str(folder)], ["sinh", "Tanh"], "", False, notes)
    assert notes == [
        f"{folder / 'several.xml'}: layer 'Sinh' is not used for op 'sinh', because upper and lower case "
        "must match."
    ]


def test_files_and_folders_may_be_mixed_and_named_twice(folder: Path) -> None:
    assert found(folder, folder / "several.xml", folder / "deeper") == {
        "RELU": "another.xml", "Sinh": "several.xml", "Cosh": "several.xml", "Tanh": "tanh.xml",
    }  # fmt: skip


def test_two_files_for_one_op_are_an_error_that_names_both(folder: Path) -> None:
    write_xml(folder / "other.xml", "Sinh")
    with pytest.raises(LiteRtError) as error:
        found(folder)
    assert error.value.status is Status.INVALID_TOOL_CONFIG
    assert "two files contain a layer for op 'Sinh': " in error.value.what
    assert "other.xml and " in error.value.what and "several.xml" in error.value.what
    assert found(folder, names="Cosh") == {"Cosh": "several.xml"}  # no op is 'Sinh'


def test_one_bad_description_fails_the_folder(folder: Path) -> None:
    (folder / "bad.xml").write_text("<CustomLayer/>")
    with pytest.raises(LiteRtError, match="<CustomLayer>: attribute 'name'"):
        found(folder, names="Other")


def test_a_library_in_a_folder_counts_with_consent(folder: Path, tmp_path: Path) -> None:
    library(tmp_path, types='"Tanh", "Exp"').rename(folder / "layers.so")
    ops, notes = ["Exp", "Sinh"], list[str]()
    assert find_layers([str(folder)], ops, "", True, notes).keys() == {"Exp", "Sinh"} and not notes
    assert find_layers([str(folder)], ops, "", False, notes).keys() == {"Sinh"}
    assert notes == [
        f"{folder}/layers.so is ignored, because it is machine code, which may run only with "
        "--allow_native_assets."
    ]
    with pytest.raises(
        LiteRtError, match="machine code, which may run only with --allow_native_assets"
    ):
        find_layers([str(folder / "layers.so")], ops, "", False, notes)


@pytest.mark.parametrize(
    ("file_name", "name"), [("Tanh.json", ""), ("any.json", "Tanh"), ("Sinh.json", "Tanh")]
)
def test_a_json_description_is_for_the_ops_of_its_name_or_of_its_files(
    folder: Path, file_name: str, name: str
) -> None:
    fields = {"name": name} if name else {}
    (folder / file_name).write_text(json.dumps({"version": 1, "sources": ["k.cl"], **fields}))
    assert found(folder, names="Tanh") == {"Tanh": file_name}


def test_each_layer_of_a_json_description_is_for_its_op(folder: Path) -> None:
    layers = [{"name": name, "sources": ["k.cl"]} for name in ("Tanh", "Exp")]
    (folder / "layers.json").write_text(json.dumps({"version": 1, "layers": layers}))
    names = "Tanh,Exp,RELU"
    assert found(folder, names=names) == {
        "RELU": "another.xml", "Tanh": "layers.json", "Exp": "layers.json",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "status", "says"),
    [
        ("nowhere", Status.NOT_FOUND, "no such file or folder"),
        ("empty", Status.NOT_FOUND, "the folder contains no layer descriptions"),
        (
            "k.cl",
            Status.INVALID_TOOL_CONFIG,
            "--custom_layers cannot use this file, because the file does not name an op",
        ),
        (
            "README.md",
            Status.INVALID_TOOL_CONFIG,
            "--custom_layers cannot use this file, because the file does not name an op",
        ),
    ],
)
def test_a_path_that_is_no_description_is_refused(
    folder: Path, name: str, status: Status, says: str
) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(LiteRtError) as error:
        found(folder / name)
    assert error.value.status is status and says in error.value.what
    assert name in error.value.where
    assert "--" in error.value.hint


def test_sources_may_lie_in_the_asset_root(folder: Path) -> None:
    text = (folder / "another.xml").read_text().replace("k.cl", "../common.cl")
    (folder / "another.xml").write_text(text)
    (folder.parent / "common.cl").write_text("__kernel void k() {}")
    with pytest.raises(
        LiteRtError, match=r"is not in folder .*, in which all files of the layer must be"
    ):
        found(folder / "another.xml")
    assert found(folder / "another.xml", root=str(folder.parent)) == {"RELU": "another.xml"}
