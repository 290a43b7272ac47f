"""Builds a shared library for a vendor written in Python, with the C compiler of this machine.

The library contains paths on this machine: of libpython, of packages, and of the vendor.
"""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from litert.core.errors import LiteRtError, file_error
from litert.core.progress import told
from litert.core.status import Status
from litert.model.atomic_file import folder_beside

SOURCES = os.path.dirname(os.path.abspath(__file__))
COMPILERS = ("cc", "gcc", "clang")
"""C compilers that are tried in this order, after `$CC`."""

_FLAGS = (
    "-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra",
    "-Wl,-z,nodelete",  # Python keeps pointers into it
)  # fmt: skip
_BUILT = "built.so"
_TRIALS = {
    "compiler_plugin": "LiteRtGetCompilerPluginVersion",
    "dispatch": "LiteRtDispatchGetApi",
}
"""For each kind of library, the function that a host calls first."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The Python interpreter that a library starts if the program has not started Python.

    Attributes:
      version: Python version, such as `3.11`.
      libpython: Path of the shared libpython; "" if there is none, so that only Python programs can load the
        library.
      program: Path of the Python interpreter, from which Python finds the interpreter's packages.
      search_path: Entries of `sys.path`, except those of the standard library.
    """

    version: str
    libpython: str
    program: str
    search_path: Sequence[str]

    @classmethod
    def of_this_process(cls) -> Interpreter:
        """Returns the Python interpreter that runs this code."""
        return cls(
            f"{sys.version_info.major}.{sys.version_info.minor}",
            find_libpython(),
            sys.executable,
            [os.path.abspath(path) for path in sys.path if _is_added(path)],
        )


def find_compiler() -> Sequence[str]:
    """Returns the command line of the C compiler, with the user's `$CFLAGS`."""
    named = os.environ.get("CC", "")
    flags = shlex.split(os.environ.get("CFLAGS", ""))
    for command in [shlex.split(named)] if named.strip() else [[name] for name in COMPILERS]:
        path = shutil.which(command[0])
        if path:
            return [path, *command[1:], *flags]
    tried = f"$CC is '{named}'" if named else f"none of {', '.join(COMPILERS)} was found"
    raise LiteRtError(
        Status.NOT_FOUND,
        f"no C compiler: {tried}",
        hint="Install a C compiler (Debian and Ubuntu: apt install gcc), or set CC to its path.",
    )


def find_libpython() -> str:
    """Returns the path of this interpreter's shared libpython; "" if there is none."""
    names = [sysconfig.get_config_var(name) for name in ("INSTSONAME", "LDLIBRARY")]
    for folder in _library_folders():
        for name in names:
            path = os.path.join(folder, name or "")
            if name and ".so" in name and os.path.isfile(path):
                return path
    return ""


@dataclass(frozen=True, slots=True)
class PlannedLibrary:
    """A library to build: its kind (`compiler_plugin` or `dispatch`), and the arguments for `bootstrap.load`."""

    kind: str
    output: str
    spec: Mapping[str, str]


def build_libraries(
    libraries: Sequence[PlannedLibrary],
    *,
    include_folder: str,
    interpreter: Interpreter,
    is_tried: bool,
) -> None:
    """Builds all libraries. If a library cannot be built, all existing files stay unchanged.

    Args:
      libraries: Libraries to build.
      include_folder: Directory with the headers of LiteRT's C interfaces.
      interpreter: Python interpreter that the libraries start.
      is_tried: Whether a program without Python loads and calls each library first, as a test.
    """
    if sys.platform != "linux":
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"the libraries can be built on Linux only, and this system is {sys.platform}",
        )
    compiler = find_compiler()
    with ExitStack() as stack:
        folders: list[str] = []
        for library in told("build", libraries):
            with _writing(library.output):
                folders.append(stack.enter_context(folder_beside(library.output)))
                _build(library, folders[-1], compiler, include_folder, interpreter)
            if is_tried:
                _try_library(library, folders[-1])
        _put_in_place(dict(zip(folders, libraries, strict=True)))


def _build(
    library: PlannedLibrary,
    folder: str,
    compiler: Sequence[str],
    include_folder: str,
    interpreter: Interpreter,
) -> None:
    with open(os.path.join(folder, "configuration.h"), "w", encoding="utf-8") as file:
        file.write(_configuration(library.spec, interpreter))
    parts = (library.kind, "start", "creation_guard")
    sources = [os.path.join(SOURCES, f"{name}.c") for name in parts]
    includes = [f"-I{path}" for path in (folder, SOURCES, include_folder)]
    built = os.path.join(folder, _BUILT)
    # Libraries come last: a C library before glibc 2.34 has dlopen and threads in separate
    # libraries.
    _compile([*compiler, *_FLAGS, *includes, *sources, "-o", built, "-ldl", "-lpthread"])


def _put_in_place(libraries: Mapping[str, PlannedLibrary]) -> None:
    """Moves built files, by directory, to their places; if one move fails, the other places are restored."""
    with ExitStack() as undo:
        for folder, library in libraries.items():
            former = os.path.join(folder, "former")
            with _writing(library.output):
                with suppress(FileNotFoundError):
                    shutil.copy2(library.output, former, follow_symlinks=False)
                os.replace(os.path.join(folder, _BUILT), library.output)
            if os.path.lexists(former):
                undo.callback(os.replace, former, library.output)
            else:
                undo.callback(os.unlink, library.output)
        undo.pop_all()  # everything succeeded


@contextmanager
def _writing(output: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise file_error(error, "cannot write", output) from error


def _try_library(library: PlannedLibrary, folder: str) -> None:
    """Loads a built library in a program without Python, and calls it."""
    program = os.path.join(folder, "trial")
    _compile([*find_compiler(), os.path.join(SOURCES, "trial.c"), "-o", program, "-ldl"])
    built = os.path.abspath(os.path.join(folder, _BUILT))
    problem = _run([program, built, _TRIALS[library.kind]])
    if problem is not None:
        raise LiteRtError(
            Status.DYNAMIC_LOADING,
            f"the library was built, but the test program in C cannot use it:\n{problem}",
            library.output,
        )


def _compile(command: Sequence[str]) -> None:
    problem = _run(command)
    if problem is not None:
        is_full = os.strerror(errno.ENOSPC) in problem
        raise LiteRtError(
            Status.COMPILATION,
            "the C compiler failed" + (f":\n{problem}" if problem else ""),
            command[0],
            "Make room, or write elsewhere."
            if is_full
            else "Set CC to another compiler: gcc or clang.",
        )


def _run(command: Sequence[str]) -> str | None:
    """Returns the standard error of a command that failed; None if the command succeeded."""
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    return done.stderr.strip() if done.returncode else None


def _configuration(spec: Mapping[str, str], interpreter: Interpreter) -> str:
    """Returns the header with the constants of the sources."""
    values = {
        "MANUFACTURER": spec["manufacturer"],
        "PYTHON_VERSION": interpreter.version,
        "LIBPYTHON": interpreter.libpython,
        "PYTHON_PROGRAM": interpreter.program,
        "BOOTSTRAP": _bootstrap(spec, interpreter),
    }
    return "".join(f"#define {name} {_c_text(value)}\n" for name, value in values.items())


def _bootstrap(spec: Mapping[str, str], interpreter: Interpreter) -> str:
    """Returns the code that the library runs first.

    The interpreter may be any Python of the right version, with any packages.
    """
    return f"""
try:
    import site, sys
    for path in {list(interpreter.search_path)!r}:
        if path not in sys.path:
            site.addsitedir(path) if path.endswith("-packages") else sys.path.append(path)
    import math
    from litert.host.python_library.bootstrap import load
except BaseException as error:
    problem = f"{{type(error).__name__}}: {{error}}. "
    if "math" in sys.modules:
        problem += (
            f"Python {{sys.executable}} lacks litert-npu: install it there, "
            "or set LITERT_NPU_PYTHON to the interpreter that has the vendor's packages."
        )
    else:
        problem += (
            f"The standard library of Python {{sys.executable}} does not fit the libpython that "
            f"is started. Set "
            "LITERT_NPU_PYTHON and LITERT_NPU_LIBPYTHON to the interpreter and the libpython of "
            "one installation."
        )
else:
    problem = load({dict(spec)!r}, symbols, functions, close)
"""


def _c_text(text: str) -> str:
    """Returns a C string literal; all characters except plain ones are octal numbers."""
    plain = (
        chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in text.encode()
    )
    return '"' + "".join(plain) + '"'


def _is_added(path: str) -> bool:
    """Returns whether an entry of `sys.path` is neither the standard library nor a script's directory."""
    if not os.path.isdir(path or ".") or os.path.abspath(path) == sysconfig.get_path("scripts"):
        return False
    standard = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    return path not in standard and os.path.basename(path) != "lib-dynload"


def _library_folders() -> Iterator[str]:
    libdir, libpl, multiarch = sysconfig.get_config_vars("LIBDIR", "LIBPL", "MULTIARCH")
    for folder in filter(None, (libdir, os.path.join(sys.base_prefix, "lib"), libpl)):
        if multiarch:
            yield os.path.join(folder, multiarch)
        yield folder
