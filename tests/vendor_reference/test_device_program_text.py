"""Tests how a program's text is composed of prelude, sources and headers, and keeps the user's files and lines."""

from __future__ import annotations

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.executable.executable import Program, Source
from vendor_reference.programs.program_text import compose_text


def compose(prelude: str, sources: dict[str, str], headers: dict[str, str] | None = None) -> str:
    files = {**sources, **(headers or {})}
    program = Program(
        prelude,
        [Source(name, name, "") for name in sources],
        "",
        [Source(name, name, "") for name in headers or {}],
    )
    return compose_text(program, lambda s: memoryview(files[s.file_name].encode())).text


def places(text: str) -> dict[str, tuple[str, int]]:
    """Returns the file and line of each marked word (`@word`), as a compiler counts them."""
    found: dict[str, tuple[str, int]] = {}
    name, number = "", 0
    for line in text.split("\n"):
        if line.startswith("#line "):
            _, count, quoted = line.split(" ", 2)
            name, number = quoted[1:-1].replace('\\"', '"').replace("\\\\", "\\"), int(count)
            continue
        for word in line.split():
            if word.startswith("@"):
                assert word not in found, "twice"
                found[word] = (name, number)
        number += 1
    return found


def test_each_source_keeps_its_file_and_lines() -> None:
    text = compose("#define A 1 @prelude", {"a.cl": "x\n@a2", "dir/b.cl": "@b1\n\n@b3\n"})
    assert places(text) == {
        "@prelude": ("defines of this op", 1),
        "@a2": ("a.cl", 2),
        "@b1": ("dir/b.cl", 1),
        "@b3": ("dir/b.cl", 3),
    }


@pytest.mark.parametrize("name", ['with "quotes".cl', "back\\slash.cl", "ä ö.cl"])
def test_any_file_name_survives(name: str) -> None:
    assert places(compose("", {name: "@here"})) == {"@here": (name, 1)}


def test_a_header_takes_the_place_of_its_include() -> None:
    text = compose(
        "",
        {"a.cl": '@a1\n  #  include "h.h" @a2 // why\n@a3'},
        {"h.h": "@h1\n@h2"},
    )
    assert places(text) == {
        "@a1": ("a.cl", 1),
        "@h1": ("h.h", 1),
        "@h2": ("h.h", 2),
        "@a2": ("a.cl", 2),
        "@a3": ("a.cl", 3),
    }
    assert "include" not in text


def test_a_header_is_looked_for_beside_its_includer_and_then_in_the_assets_folder() -> None:
    sources = {"k/a.cl": '#include "h.h"\n#include "top.h"\n#include "../k/deep/x.h"'}
    headers = {
        "k/h.h": "@beside",
        "top.h": "@top",
        "k/deep/x.h": '#include "y.h"\n@x',
        "k/deep/y.h": "@y",
        "h.h": "@wrong",
    }
    assert set(places(compose("", sources, headers))) == {"@beside", "@top", "@x", "@y"}


def test_a_header_whose_name_a_macro_has_is_included() -> None:
    source = (
        '#define H "a.h"\n#include H\n#undef H\n#define H "h.h"\n#include H\n#include OTHER\n@k'
    )
    text = compose("", {"k.cl": source}, {"a.h": "@a", "h.h": "@h"})
    assert list(places(text)) == ["@a", "@h", "@k"]
    assert text.count("#include") == 1 and "#include OTHER" in text and '#define H "h.h"' in text


def test_includes_in_comments_and_texts_are_not_included() -> None:
    source = (
        '// #include "h.h"\n'
        '/*\n#include "h.h"\n*/\n'
        '__constant char* s = "/*";\n#include "h.h"\n// a \\\n#include "h.h"\n'
        "char c = '\"';\n"
    )
    text = compose("", {"a.cl": source}, {"h.h": "@h"})
    assert list(places(text)) == ["@h"]


def test_a_header_with_pragma_once_comes_once_and_another_each_time() -> None:
    source = '#include "once.h"\n#include "each.h"\n#include "once.h"\n#include "each.h"\n'
    headers = {"once.h": " # pragma once\nonce", "each.h": "each"}
    text = compose("", {"a.cl": source}, headers)
    assert text.split().count("once") == 1 and text.split().count("each") == 2
    assert "pragma" not in text


def test_pragma_once_counts_for_all_sources() -> None:
    sources = {"a.cl": '#include "h.h"\n@a2', "b.cl": '#include "h.h"\n@b2'}
    assert list(places(compose("", sources, {"h.h": "#pragma once\n@h2"}))) == ["@h2", "@a2", "@b2"]


def test_headers_that_include_each_other_end() -> None:
    headers = {"a.h": '#include "b.h"\n@a', "b.h": '#include "a.h"\n@b'}
    assert set(places(compose("", {"k.cl": '#include "a.h"'}, headers))) == {"@a", "@b"}


def test_headers_that_double_each_other_end_in_an_error() -> None:
    filler = "x" * (1 << 20)
    headers = {f"h{i}.h": f'#include "h{i + 1}.h"\n' * 4 + filler for i in range(40)}
    with pytest.raises(LiteRtError) as error:
        compose("", {"k.cl": '#include "h0.h"'}, headers)
    assert error.value.status is Status.INVALID_ARGUMENT and "MiB" in error.value.what


def test_includes_without_end_are_an_error() -> None:
    headers = {f"h{i}.h": f'#include "h{i + 1}.h"\n' for i in range(5000)}
    with pytest.raises(LiteRtError) as error:
        compose("", {"k.cl": '#include "h0.h"'}, headers)
    assert "deep" in error.value.what


def test_an_include_of_nothing_known_is_left_to_the_compiler() -> None:
    text = compose("", {"k.cl": '#if 0\n#include "other.h"\n#endif\n@k4'})
    assert '#include "other.h"' in text
    assert places(text) == {"@k4": ("k.cl", 4)}


def test_line_ends_of_any_kind_count_alike() -> None:
    assert places(compose("", {"k.cl": "1\r\n2\r\n@k3\r4\r@k5"})) == {
        "@k3": ("k.cl", 3),
        "@k5": ("k.cl", 5),
    }


def test_bytes_that_are_no_utf8_may_stand_in_comments() -> None:
    program = Program("", [Source("k.cl", "k.cl", "")])
    text = compose_text(program, lambda _: memoryview(b"\xef\xbb\xbf// caf\xe9\n@k2")).text
    assert places(text) == {"@k2": ("k.cl", 2)}


def test_a_source_with_zero_bytes_is_refused() -> None:
    with pytest.raises(LiteRtError) as error:
        compose("", {"k.cl": "a\0b"})
    assert error.value.where == "k.cl"
