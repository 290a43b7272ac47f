"""Tests that includes in sources from byte code are expanded, or refused before they fill the memory."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from tests.vendor_reference.executables import source
from vendor_reference.executable.executable import Program
from vendor_reference.executable.source_text import expand_sources


def expanded(
    text: str | bytes, headers: Mapping[str, str | bytes], has_line_marks: bool = False
) -> str:
    """Expands the text of `k.cl`; `headers` are keyed by names without `.h`."""
    files = {"k.cl": text, **{f"{name}.h": header for name, header in headers.items()}}
    data = {name: t.encode() if isinstance(t, str) else t for name, t in files.items()}
    main, *others = (source(text, "MyOp", name) for name, text in data.items())
    program = Program("", [main], "", others)
    (found,) = expand_sources(program, lambda s: memoryview(data[s.file_name]), has_line_marks)
    return found


@pytest.mark.parametrize(
    ("text", "headers", "expected"),
    [
        ('#include "a.h"\nx', {"a": "a"}, "a\n\nx\n"),
        ('#define A "a.h"\n#include A\n', {"a": "a"}, '#define A "a.h"\na\n\n'),
        ('#include "a.h"\n#include "a.h"\n', {"a": "#pragma once\na"}, "\na\n\n\n"),
        ('#include "a.h"\n', {"a": '#include "b.h"\na', "b": '#include "a.h"\nb'}, "\nb\n\na\n\n"),
        ('#include "none.h"\n', {}, '#include "none.h"\n\n'),
        ("#include NONE\n", {}, "#include NONE\n\n"),
        ('// #include "a.h"\n"/*"\n', {"a": "a"}, '// #include "a.h"\n"/*"\n'),
        ("x\r\ny\rz", {}, "x\ny\nz\n"),
    ],
    ids=["a header", "by macro", "once", "a circle", "missing", "unknown macro", "comment", "ends of lines"],
)  # fmt: skip
def test_headers_stand_in_place_of_their_includes(
    text: str, headers: Mapping[str, str | bytes], expected: str
) -> None:
    assert expanded(text, headers) == expected


def test_lines_keep_their_numbers_and_files() -> None:
    marked = expanded('x\n#include "a.h"\ny\n', {"a": "a\n"}, has_line_marks=True)
    assert marked == '\n#line 1 "k.cl"\nx\n\n#line 1 "a.h"\na\n\n#line 2 "k.cl"\n\ny\n'


@pytest.mark.parametrize(
    ("text", "headers", "says"),
    [
        (b"a\0b", {}, "zero bytes"),
        ('#include "a.h"\n' * 9, {"a": b" " * (8 << 20)}, "larger than 64 MiB"),
        (
            '#include "h0.h"\n',
            {f"h{i}": f'#include "h{i + 1}.h"\n' for i in range(101)},
            "#include lines are nested more than 100 levels deep",
        ),
    ],
    ids=["no text", "too long", "too deep"],
)
def test_what_is_no_text_of_some_size_is_refused(
    text: str | bytes, headers: Mapping[str, str | bytes], says: str
) -> None:
    with pytest.raises(LiteRtError) as error:
        expanded(text, headers)
    assert error.value.status is Status.INVALID_ARGUMENT and says in error.value.what
