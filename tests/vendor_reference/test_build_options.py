"""Tests that only OpenCL's own build options, which read no files, are allowed at compile time and at load."""

from __future__ import annotations

from dataclasses import replace

import pytest

from litert.core.errors import LiteRtError
from tests.vendor_reference.executables import doubling
from vendor_reference.executable.build_options import find_option_mistake
from vendor_reference.executable.byte_code import read_executable, write_executable

ALLOWED = [
    "",
    "  -w\t-Werror ",
    "-DX -D Y=1 -DZ=a(b,c)",
    "-DMAX(a,b)=a>b?a:b",
    '-DNAME=\\"text\\"',
    "-cl-std=CL1.2 -cl-fast-relaxed-math -cl-mad-enable -cl-intel-greater-than-4GB-buffer-required",
    "-cl-std=CL3.0 -cl-denorms-are-zero -g -O2 -Wno-unused-variable -Werror=return-type",
]
REFUSED = {
    "-I /": "-I",
    "-I/": "-I/",
    "-w -include /etc/passwd": "-include",
    "-imacros/etc/passwd": "-imacros/etc/passwd",
    "-x c": "-x",
    "-Xclang -load": "-Xclang",
    "-Wl,-T/etc/passwd": "-Wl,-T/etc/passwd",
    "@/etc/passwd": "@/etc/passwd",
    "/etc/passwd": "/etc/passwd",
    "-DX=1 Y": "Y",
    '-DX="a -I/': "-I/",
    "-fplugin=/x.so": "-fplugin=/x.so",
    "-cl-std=/etc/passwd": "-cl-std=/etc/passwd",
    "--sysroot=/": "--sysroot=/",
    "-save-temps": "-save-temps",
    "-DX=__asm__": "-DX=__asm__",
    "-w -DX=__asm -w": "-DX=__asm",
    "-D X(a)=asm(a)": "X(a)=asm(a)",
}


@pytest.mark.parametrize("options", ALLOWED)
def test_opencls_own_options_are_allowed(options: str) -> None:
    assert find_option_mistake(options) == ""


@pytest.mark.parametrize(("options", "named"), REFUSED.items(), ids=list(REFUSED))
def test_others_are_refused_by_name(options: str, named: str) -> None:
    assert find_option_mistake(options).startswith(f"build option '{named}' is not allowed")


@pytest.mark.parametrize("options", ["-D", "-D -w", "-w -D"])
def test_a_define_has_a_name(options: str) -> None:
    assert find_option_mistake(options) == "NAME or NAME=value must follow build option -D"


def test_byte_code_with_others_is_refused_at_load() -> None:
    made = doubling()
    programs = [replace(program, build_options="-I /") for program in made.programs]
    data = write_executable(replace(made, programs=programs)).view
    with pytest.raises(LiteRtError, match="build option '-I' is not allowed") as error:
        read_executable(data)
    assert "build_options" in str(error.value)
