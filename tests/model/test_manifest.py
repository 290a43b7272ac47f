"""Tests the manifest of a compiled file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.assets import Asset
from litert.model.blob import Blob, MappedFile
from litert.model.graph import Model
from litert.model.manifest import (
    Digest,
    Manifest,
    ShapeOutput,
    find_mismatches,
    read_manifest,
    set_manifest,
)

KERNEL, MODULE = Blob(b"kernel"), Blob(b"module")
MANIFEST = Manifest(
    soc_manufacturer="Reference",
    soc_model="EMU8",
    plugin_sdk_version="1.2",
    flags={"z": "1", "max_partitions": "2"},
    assets={"MyOp": Digest.of(KERNEL)},
    modules=(Digest.of(MODULE),),
    shape_outputs=(ShapeOutput("Partition_0", 0, 1),),
    native_assets=("MyOp",),
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
DIGESTS = st.builds(Digest, st.integers(0, 2**40), st.just("ab" * 32))


def document(**changes: Any) -> bytes:
    """Returns the manifest's JSON after changes."""
    return json.dumps(json.loads(MANIFEST.to_json()) | changes).encode()


def test_a_manifest_comes_back_as_it_was() -> None:
    model = Model()
    assert read_manifest(model) is None
    set_manifest(model, MANIFEST)
    assert read_manifest(model) == MANIFEST


@given(
    st.builds(
        Manifest, TEXT, TEXT, TEXT, st.dictionaries(TEXT, TEXT), st.dictionaries(TEXT, DIGESTS),
        st.lists(DIGESTS).map(tuple),
    )
)  # fmt: skip
def test_any_manifest_comes_back_as_it_was(manifest: Manifest) -> None:
    assert Manifest.from_json(manifest.to_json()) == manifest


def test_the_order_of_flags_does_not_change_the_bytes() -> None:
    other = Manifest("Reference", "EMU8", flags={"b": "1", "a": "2"})
    assert other.to_json() == Manifest("Reference", "EMU8", flags={"a": "2", "b": "1"}).to_json()


def test_members_that_a_later_version_adds_are_left_out() -> None:
    assert Manifest.from_json(document(colour="blue")) == MANIFEST


def test_a_later_version_is_refused_as_such() -> None:
    with pytest.raises(LiteRtError) as error:
        Manifest.from_json(document(version=2))
    assert error.value.status is Status.WRONG_VERSION


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"{}",
        b"[" * 100_000,
        b'{"version":1,"version":1}',
        b'{"version":' + b"9" * 10_000 + b"}",
        document(flags=[]),
        document(flags={"a": 1}),
        document(soc_model=None),
        b'{"\\ud800":1,"\\ud800":2}',
        document(version="\ud800"),
        document(soc_model="\ud800"),
        document(flags={"\ud800": ""}),
        document(modules={}),
        document(modules=[{"size": 1}]),
        document(modules=[{"size": -1, "sha256": "ab" * 32}]),
        document(modules=[{"size": True, "sha256": "ab" * 32}]),
        document(modules=[{"size": 1.5, "sha256": "ab" * 32}]),
        document(modules=[{"size": 1, "sha256": "AB" * 32}]),
        document(shape_outputs=[{"call_name": "f", "output": 2**64, "shape_output": 0}]),
    ],
    ids=lambda data: data[:20].decode(errors="replace"),
)
def test_a_damaged_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(LiteRtError) as error:
        Manifest.from_json(data, "model.bin")
    assert error.value.status is Status.INVALID_FLATBUFFER
    assert error.value.where == "model.bin" and error.value.hint
    str(error.value).encode()


def test_what_is_no_json_is_told_with_its_place() -> None:
    with pytest.raises(LiteRtError, match=r"expecting value, line 2, column 3 \(model\.bin\)"):
        Manifest.from_json(b'{"version":\n  }', "model.bin")
    with pytest.raises(LiteRtError, match=r"expecting value, line 2, column 3\. Compile"):
        Manifest.from_json(b'{"version":\n  }')


def test_a_key_that_is_twice_among_many_is_found_soon() -> None:
    keys = ",".join(f'"{number}":0' for number in (*range(300_000), 299_999))
    with pytest.raises(LiteRtError, match="'299999' occurs twice"):
        Manifest.from_json(f"{{{keys}}}".encode())


def test_a_file_as_it_was_written_has_no_mismatch() -> None:
    assert find_mismatches(MANIFEST, [Asset("MyOp", "", KERNEL)], [MODULE]) == []


def test_each_change_is_named() -> None:
    problems = find_mismatches(
        MANIFEST,
        [Asset("MyOp", "", Blob(b"kernfl")), Asset("Other", "", KERNEL)],
        [Blob(b"modules"), MODULE],
    )
    assert problems[0].startswith("asset 'MyOp' has changed: its SHA-256 digest is ")
    assert problems[1:] == [
        "asset 'Other' is in the file, but not in the manifest",
        "byte code module 0 has changed: it has 7 bytes, not 6",
        "byte code module 1 is in the file, but not in the manifest",
    ]
    assert find_mismatches(MANIFEST, [], []) == [
        "asset 'MyOp' is in the manifest, but not in the file",
        "byte code module 0 is in the manifest, but not in the file",
    ]


def test_what_is_above_the_limit_is_not_read() -> None:
    changed = [Asset("MyOp", "", Blob(b"kernfl"))]
    assert find_mismatches(MANIFEST, changed, [MODULE], size_limit=5) == []
    assert len(find_mismatches(MANIFEST, changed, [MODULE], size_limit=6)) == 1


def test_a_manifest_from_before_native_assets_has_none() -> None:
    old = json.loads(MANIFEST.to_json())
    del old["native_assets"]
    assert Manifest.from_json(json.dumps(old).encode()).native_assets == ()


@pytest.mark.parametrize("value", [3, [1], "MyOp"])
def test_native_assets_are_names(value: object) -> None:
    with pytest.raises(LiteRtError, match="native_assets"):
        Manifest.from_json(document(native_assets=value))


def test_a_large_file_has_a_digest(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as out:
        out.truncate((16 << 20) + 1)
    with MappedFile(tmp_path / "a") as file:
        digest = Digest.of(file.blob())
    assert digest.sha256 == hashlib.sha256(bytes((16 << 20) + 1)).hexdigest()
    assert str(digest) == f"16777217 bytes, sha256 {digest.sha256[:16]}"
    assert str(Digest(1, "ab" * 32)) == "1 byte, sha256 abababababababab"


def test_a_manifest_without_end_is_refused() -> None:
    with pytest.raises(LiteRtError, match="the manifest has 16777217 bytes") as error:
        Manifest.from_json(bytes((16 << 20) + 1), "model.bin")
    assert error.value.status is Status.INVALID_FLATBUFFER
