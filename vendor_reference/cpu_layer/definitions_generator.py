"""Generates `definitions.py`, which contains the declarations of `litert_npu/cpu_layer.h` for cffi.

python -m vendor_reference.cpu_layer.definitions_generator
"""

from __future__ import annotations

import os
import re

from litert.abi.headers import without_directives
from vendor_reference.cpu_layer.__main__ import include_folder

HEADER = os.path.join(include_folder(), "litert_npu", "cpu_layer.h")
TARGET = os.path.join(os.path.dirname(os.path.abspath(__file__)), "definitions.py")

_FUNCTION_BODY = re.compile(r"^static inline (?:.*\}|.*\n(?:.*\n)*?\})$", re.M)


def declarations() -> str:
    """Returns the C header for a parser that has no preprocessor; omits the functions for libraries."""
    with open(HEADER, encoding="utf-8") as file:
        text = re.sub("//.*", "", file.read())
    names = re.findall(r"^#define (LITERT_NPU_\w+) (\d+)$", text, re.M)
    text = without_directives(_FUNCTION_BODY.sub("", text))
    text = text.replace('extern "C" {', "").replace("LITERT_NPU_EXPORT", "")
    return "".join(f"#define {name} {value}\n" for name, value in names) + re.sub(
        "^}$", "", text, flags=re.M
    )


def generate(path: str) -> None:
    """Writes the generated Python module to `path`."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(declarations())
    ffi.set_source("vendor_reference.cpu_layer.definitions", None)
    ffi.emit_python_code(path)


if __name__ == "__main__":
    generate(TARGET)
