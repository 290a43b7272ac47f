"""Tests the known drivers: messages in their logs, causes of crashes, and what their sandboxes allow."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest

from vendor_reference.drivers.driver import driver_of_library, known_drivers

SUCCESS = """Compilation started
K.cl:2:6: warning: unused variable 'y'
    2 |  int y; x[0]=1;}
      |      ^
Compilation done
Linking started
Linking done
Device build started
Options used by backend compiler: -Wall -cl-kernel-arg-info
Device build done
remark: <unknown>:0:0: 9 instructions in function
Kernel "f" was successfully vectorized (8)
warning: kernel "g": Kernel can't be vectorized due to unsupported vec type hint
Kernel "g" was not vectorized
Done."""

FAILURE = """Compilation started
K.cl:5:36: error: use of undeclared identifier 'foo'; did you mean 'for'?
    5 | kernel void f(global float*x){x[0]=A(1);
      |                                    ^~~~
12:1:14: note: expanded from macro 'A'
    1 | #define A(x) foo(x)
      |              ^~~
K.cl:6:7: error: no matching function for call to 'clamp'
    6 |  x[1]=clamp(1,2);}
      |       ^~~~~
opencl-c.h:10097:22: note: candidate function not viable: requires 3 arguments, but 2 were provided
 10097 | half16 __ovld __cnfn clamp(half16, half, half);
       |                      ^     ~~~~~~~~~~~~~~~~~~
7:1:10: fatal error: 'nope.h' file not found
Compilation failed
"""

UNLINKED = """Failed to build device program
CompilerException Failed to lookup symbol f
JIT session error: Symbols not found: [ g ]
Failed to materialize symbols: { (main, { f }) }

"""

PASTED = """Compilation started
K.cl:4:8: error: invalid suffix 'ff' on floating constant
    4 |   o[0]=P(V);
      |        ^
<scratch space>:4:4: note: expanded from here
    4 | 0.1ff
      |    ^
Compilation failed
"""


@pytest.mark.parametrize(
    ("log", "clean"),
    [
        (SUCCESS, "warning: K.cl:2:6: unused variable 'y'"),
        (
            FAILURE,
            "error: K.cl:5:36: use of undeclared identifier 'foo'; did you mean 'for'?\n"
            "note: 12:1:14: expanded from macro 'A'\n"
            "error: K.cl:6:7: no matching function for call to 'clamp'\n"
            "error: 7:1:10: 'nope.h' file not found",
        ),
        (UNLINKED, "JIT session error: Symbols not found: [ g ]"),
        (PASTED, "error: K.cl:4:8: invalid suffix 'ff' on floating constant"),
        ("Compilation failed\nUnrecognized build options: -x \n", "Unrecognized build options: -x"),
        ("", ""),
    ],
    ids=["success", "failure", "unlinked", "pasted", "options", "empty"],
)
def test_intels_log_becomes_its_messages(log: str, clean: str) -> None:
    assert known_drivers()["intel"].clean_log(log) == clean


def test_pocls_log_becomes_its_messages() -> None:
    log = (
        "error: K.cl:5:36 <Spelling=/x.h:1:2>: not valid\n"
        "error: K.cl:6:8 <Spelling=<scratch space>:9:4>: not valid\n"
        "Device pthread failed to build the program\n"
    )
    clean = "error: K.cl:5:36: not valid\nerror: K.cl:6:8: not valid"
    assert known_drivers()["pocl"].clean_log(log) == clean


@pytest.mark.parametrize(
    ("driver", "text", "has"),
    [
        (
            "pocl",
            "float16 x = vload16(0, y);",
            "The kernel uses float16, and some vectors of 64 bytes or more",
        ),
        ("pocl", "ulong8 x;", "The kernel uses ulong8,"),
        ("pocl", "char16 x; float8 y; float float16s; // float16", ""),
        ("intel", "float16 x;", ""),
    ],
)
def test_a_crash_is_laid_to_what_the_kernel_has(driver: str, text: str, has: str) -> None:
    cause = known_drivers()[driver].crash_cause(text)
    assert cause.startswith(has) and bool(cause) == bool(has)


def test_a_sandbox_leaves_open_what_a_driver_uses(device: Any) -> None:
    needs = driver_of_library(device.library).sandbox_needs(device.library)
    assert os.path.dirname(device.library) in needs.folders
    assert all(os.path.isabs(folder) for folder in needs.folders)
    assert all(shutil.which(program) for program in needs.programs)
