"""Tests how assets and the files that they name are read, and which files become companions."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import _cffi_backend
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.custom_layers.asset_reader import read_layer
from vendor_reference.custom_layers.custom_layer import CustomLayer, LayerType


def read(path: Path) -> CustomLayer:
    return read_layer("MyOp", str(path), memoryview(path.read_bytes()))


def describe(folder: Path, *sources: str) -> Path:
    path = folder / "layer.json"
    path.write_text(json.dumps({"version": 1, "sources": sources}))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "assets"
    (folder / "inc").mkdir(parents=True)
    (folder / "k.cl").write_text('#include "inc/a.h"\n__kernel void MyOp() {}')
    (folder / "inc" / "a.h").write_text('#include "b.h"\n#include "../top.h"')
    (folder / "inc" / "b.h").write_text("")
    (folder / "top.h").write_text("")
    (tmp_path / "outside.cl").write_text("secret")
    return folder


def test_a_cl_file_is_the_source_and_what_it_includes_are_headers(folder: Path) -> None:
    layer = read(folder / "k.cl")
    assert [(f.path, f.is_asset) for f in layer.sources] == [("k.cl", True)]
    assert [f.path for f in layer.headers] == ["inc/b.h", "top.h", "inc/a.h"]  # before their users
    assert not layer.kernel.arguments and layer.defines_options
    assert layer.asset_name(layer.sources[0]) == "MyOp"
    assert layer.asset_name(layer.headers[0]) == "MyOp/inc/b.h"


def test_sources_of_a_description_are_companions(folder: Path) -> None:
    layer = read(describe(folder, "./k.cl"))
    assert [layer.asset_name(f) for f in layer.files()] == [
        "MyOp/k.cl", "MyOp/inc/b.h", "MyOp/top.h", "MyOp/inc/a.h",
    ]  # fmt: skip


def test_headers_that_include_each_other_are_read_once(folder: Path) -> None:
    (folder / "inc" / "b.h").write_text('#include "a.h"\n#include "../k.cl"')
    assert sorted(f.path for f in read(folder / "k.cl").headers) == ["inc/a.h", "inc/b.h", "top.h"]


def test_an_include_that_does_not_exist_is_left_to_the_build(folder: Path) -> None:
    (folder / "k.cl").write_text('#ifdef NEVER\n#include "nowhere.h"\n#endif\n')
    assert not read(folder / "k.cl").headers


@pytest.mark.parametrize(
    "name", ["../outside.cl", "inc/../../outside.cl", "/etc/passwd", "..", "inc\\a.h", "C:k.cl", ""]
)
def test_a_source_path_cannot_leave_its_folder(folder: Path, name: str) -> None:
    with pytest.raises(LiteRtError) as error:
        read(describe(folder, name))
    assert error.value.status is Status.INVALID_ARGUMENT
    said = "contains a backslash" if "\\" in name else "is not in folder "
    assert said in error.value.what and "$.sources[0]" in error.value.where


@pytest.mark.parametrize("name", ["../outside.cl", "/etc/passwd"])
def test_an_include_cannot_leave_the_folder(folder: Path, name: str) -> None:
    (folder / "inc" / "b.h").write_text(f'#include "{name if name[0] == "/" else "../" + name}"')
    with pytest.raises(LiteRtError, match="in which all files of the layer must be"):
        read(folder / "k.cl")


def test_a_link_cannot_leave_the_folder(folder: Path) -> None:
    (folder / "link.cl").symlink_to("../outside.cl")
    with pytest.raises(LiteRtError, match=r"is a link to .*, which is not in folder "):
        read(describe(folder, "link.cl"))


def test_a_link_to_an_asset_brings_its_neighbours(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "linked.json"
    link.symlink_to(describe(folder, "k.cl"))
    assert [f.path for f in read(link).sources] == ["k.cl"]


def test_a_missing_source_is_named_with_its_element(folder: Path) -> None:
    with pytest.raises(LiteRtError) as error:
        read(describe(folder, "k.cl", "nowhere.cl"))
    assert error.value.status is Status.NOT_FOUND
    assert "contains no file 'nowhere.cl'" in error.value.what
    assert error.value.where.endswith("layer.json, $.sources[1]")


def test_a_folder_is_no_source(folder: Path) -> None:
    with pytest.raises(LiteRtError, match="contains no file 'inc'"):
        read(describe(folder, "inc"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("k.txt", "a file with the suffix '.txt'"),
        ("kernel", "a file without a suffix"),
        ("k.CU", "a file with the suffix '.cu'"),
    ],
)
def test_an_unknown_kind_of_asset_is_refused_with_those_known(
    tmp_path: Path, name: str, kind: str
) -> None:
    with pytest.raises(LiteRtError) as error:
        read_layer("MyOp", str(tmp_path / name), memoryview(b""))
    assert error.value.status is Status.INVALID_TOOL_CONFIG
    assert f"cannot read {kind} as a layer" in error.value.what
    assert {".bin", ".cl", ".json", ".so", ".xml"} <= set(
        error.value.hint.removesuffix(".").replace(",", "").split()
    )


def test_a_source_without_end_is_refused(folder: Path) -> None:
    with (folder / "inc" / "b.h").open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(LiteRtError, match="the source file is larger than 64 MiB") as error:
        read(folder / "k.cl")
    assert error.value.status is Status.INVALID_ARGUMENT


def test_a_shared_object_is_the_layer_s_only_file(tmp_path: Path) -> None:
    library = Path(_cffi_backend.__file__)
    layer = read_layer("MyOp", str(tmp_path / "k.so"), memoryview(library.read_bytes()))
    assert layer.type is LayerType.CPP and [file.path for file in layer.sources] == ["k.so"]
    with pytest.raises(LiteRtError, match="not a shared object") as error:
        read_layer("MyOp", str(tmp_path / "k.so"), memoryview(b"text"))
    assert error.value.status is Status.INVALID_ARGUMENT


def test_a_suffix_in_capitals_is_the_same(folder: Path) -> None:
    (folder / "K.CL").write_text("__kernel void MyOp() {}")
    assert read(folder / "K.CL").sources[0].path == "K.CL"


def test_a_binary_is_no_source(folder: Path) -> None:
    (folder / "k.cl").write_bytes(b"\x7fELF\0\0")
    with pytest.raises(LiteRtError, match="the file is not OpenCL source code"):
        read(folder / "k.cl")


@pytest.mark.parametrize("suffix", [".cl", ".json"])
@given(data=st.binary(max_size=100))
def test_any_bytes_are_a_layer_or_an_error(suffix: str, data: bytes) -> None:
    with suppress(LiteRtError):
        read_layer("MyOp", f"nowhere{suffix}", memoryview(data))


def test_headers_that_include_each_other_without_end_are_an_error(tmp_path: Path) -> None:
    for index in range(2000):
        (tmp_path / f"{index}.h").write_text(f'#include "{index + 1}.h"')
    (tmp_path / "k.cl").write_text('#include "0.h"')
    with pytest.raises(
        LiteRtError, match="the chain of files that include one another is too long"
    ):
        read(tmp_path / "k.cl")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An asset root: a folder of descriptions, and a folder of sources that they share."""
    root = tmp_path / "root"
    (root / "layers").mkdir(parents=True)
    (root / "common").mkdir()
    (root / "layers" / "own.cl").write_text('#include "../common/c.h"\n#include "common/d.h"')
    (root / "common" / "shared.cl").write_text('#include "c.h"')
    (root / "common" / "c.h").write_text("")
    (root / "common" / "d.h").write_text("")
    (tmp_path / "outside.cl").write_text("secret")
    return root


def read_below(root: Path, path: Path) -> CustomLayer:
    return read_layer("MyOp", str(path), memoryview(path.read_bytes()), str(root))


def test_sources_may_lie_anywhere_in_the_asset_root_and_are_named_from_there(root: Path) -> None:
    layer = read_below(root, describe(root / "layers", "own.cl", "../common/shared.cl"))
    assert [f.path for f in layer.sources] == ["layers/own.cl", "common/shared.cl"]
    assert [f.path for f in layer.headers] == ["common/c.h", "common/d.h"]


def test_an_asset_in_the_root_is_named_from_there_too(root: Path) -> None:
    layer = read_below(root, root / "layers" / "own.cl")
    assert [(f.path, f.is_asset) for f in layer.sources] == [("layers/own.cl", True)]
    assert layer.asset_name(layer.sources[0]) == "MyOp"


@pytest.mark.parametrize("name", ["../../outside.cl", "/etc/passwd", "../layers/../../outside.cl"])
def test_a_source_path_cannot_leave_the_asset_root(root: Path, name: str) -> None:
    with pytest.raises(LiteRtError, match="in which all files of the layer must be"):
        read_below(root, describe(root / "layers", name))


def test_a_link_cannot_leave_the_asset_root(root: Path) -> None:
    (root / "layers" / "link.cl").symlink_to("../../outside.cl")
    with pytest.raises(LiteRtError, match=r"is a link to .*, which is not in folder "):
        read_below(root, describe(root / "layers", "link.cl"))


def test_an_asset_outside_of_the_root_keeps_its_own_folder(root: Path, folder: Path) -> None:
    assert [f.path for f in read_below(root, describe(folder, "k.cl")).sources] == ["k.cl"]
    with pytest.raises(LiteRtError, match="in which all files of the layer must be"):
        read_below(root, describe(folder, "../root/common/shared.cl"))


@pytest.mark.parametrize("name", ["nowhere", "common/c.h"])
def test_an_asset_root_is_a_folder(root: Path, name: str) -> None:
    with pytest.raises(LiteRtError) as error:
        read_below(root / name, root / "layers" / "own.cl")
    assert error.value.status is Status.NOT_FOUND
    assert "--asset_root is not a folder" in error.value.what and name in error.value.where
