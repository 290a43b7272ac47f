"""Builds each program for a device only once: a program is compiled if neither memory nor the disk cache has it.

The OpenCL compiler runs in a sandboxed child process, since a kernel's source code can make the compiler crash,
hang or read files. The main process loads only the compiled binaries.
"""

from __future__ import annotations

import logging
import re
import threading
import weakref
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace

import pyopencl as cl

from litert.core.checked_json import JsonNode
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host.sandbox import is_sandboxed
from litert.host.serving import ask_host, has_host
from vendor_reference.device.compiler import compile_text, load_binary
from vendor_reference.device.opencl_context import OpenClContext
from vendor_reference.drivers.driver import driver_of_device
from vendor_reference.executable.binary_layer import DeviceCode
from vendor_reference.programs.compiler_process import find_or_compile
from vendor_reference.programs.host_side import PROGRAMS
from vendor_reference.programs.program_cache import (
    COMPILED_PROGRAM,
    CompiledProgram,
    ProgramCache,
)
from vendor_reference.programs.program_text import ProgramText

_LOG = logging.getLogger(__name__)

_SPLICE = re.compile(r"(?:\\|\?\?/)[ \t\v\f]*(?:\r\n?|\n)")
"""Line continuations, which the compiler removes before it splits the text into words."""

_MAY_READ_FILES = re.compile("include|import|embed")
"""All preprocessor directives that read files; a directive's name cannot come from a macro."""


class DeviceProgram:
    """A program that was built for the device, with its source text and the compiler's output."""

    def __init__(self, builder: ProgramBuilder, text: ProgramText, built: CompiledProgram) -> None:
        self.text = text
        self.built = built
        self._builder = builder
        self._program = builder.load(text, built)
        self._kept = set(built.variants)

    def create_kernel(self, entry: str) -> cl.Kernel:
        """Returns a new kernel object of the program.

        If the kernel does not exist, raises NOT_FOUND with a list of the kernels.
        """
        if entry not in self.built.kernels:
            there = ", ".join(f"'{name}'" for name in sorted(self.built.kernels))
            raise LiteRtError(
                Status.NOT_FOUND,
                f"the source code has no kernel '{entry}', only {there}"
                if there
                else f"the source code has no kernel, but must have kernel '{entry}'",
                self.text.name,
            )
        return cl.Kernel(self._program, entry)

    def keep_variants(self, variants: Set[str]) -> None:
        """Caches the kernel variants that the driver has compiled for the work sizes of the last run."""
        new = variants - self._kept
        if self._builder.keeps_variants and new:
            self._kept |= new
            self.built = self._builder.keep(self.text, self.built, new)


class ProgramBuilder:
    """Builds the programs of one device; several threads may use it.

    Attributes:
      identity: Identity of the device.
      keeps_variants: Whether a program is stored in the cache again after a run with new work sizes.
    """

    def __init__(self, context: OpenClContext, library: str) -> None:
        """Stores the arguments.

        `library` is the path of the OpenCL driver's library, which the child process loads.
        """
        self._context = context.cl_context
        self._device = context.cl_device
        self._info = context.info
        self.identity = context.info.identity
        self.keeps_variants = driver_of_device(context.info).keeps_variants
        self._library = library
        self._cache = ProgramCache(self.identity)
        self._programs: weakref.WeakValueDictionary[ProgramText, DeviceProgram] = (
            weakref.WeakValueDictionary()
        )
        self._lock = threading.Lock()

    def build(self, texts: Sequence[ProgramText]) -> Sequence[DeviceProgram]:
        """Returns the programs of the given texts; builds the programs that are not in a cache."""
        with self._lock:
            found = {text: self._find(text) for text in texts}
            missing = [text for text, program in found.items() if program is None]
            builds = self._compile(missing) if missing else ()
            for text, built in zip(missing, builds, strict=True):
                found[text] = DeviceProgram(self, text, built)
            programs = [program for text in texts if (program := found[text])]
            self._programs.update((program.text, program) for program in programs)
            return programs

    def load_code(self, name: str, code: DeviceCode) -> DeviceProgram:
        """Loads a program that was compiled ahead of time; needs no source text."""
        built = CompiledProgram(code.kernels, bytes(code.binary))
        return DeviceProgram(self, ProgramText(name, "", ""), built)

    def load(self, text: ProgramText, built: CompiledProgram) -> cl._cl._Program:
        """Loads a program from its binary."""
        return load_binary(self._context, self._device, text, built.binary)

    def keep(
        self, text: ProgramText, built: CompiledProgram, variants: Set[str]
    ) -> CompiledProgram:
        """Stores a program in the cache again, with the kernel variants that were compiled after the build."""
        if is_sandboxed():
            return built  # a sandboxed process must not write to the cache
        if not text.text or _MAY_READ_FILES.search(_SPLICE.sub("", text.text)):
            return built  # compiled ahead, or unsafe to compile outside a sandbox
        try:
            # The driver reuses the variants that it has compiled, and writes all of them to the new binary.
            again = compile_text(self._context, self._device, text)
        except LiteRtError as error:
            _LOG.info("Cannot store the compiled variants of a program: %s", error)
            return built
        if again.kernels != built.kernels:
            return built
        built = replace(built, binary=again.binary, variants=built.variants | variants)
        self._cache.store(text, built)
        return built

    def _find(self, text: ProgramText) -> DeviceProgram | None:
        """Returns the program if it is cached in memory or on disk."""
        if program := self._programs.get(text):
            return program
        built = None if has_host() else self._cache.find(text)
        if built is None:
            return None
        try:
            return DeviceProgram(self, text, built)
        except LiteRtError as error:
            _LOG.warning("A kernel in the cache cannot be loaded, and is compiled again: %s", error)
            self._cache.remove(text)
            return None

    def _compile(self, texts: Sequence[ProgramText]) -> Iterator[CompiledProgram]:
        if has_host():
            return self._ask_host(texts)
        return find_or_compile(self._library, self._info, texts)

    def _ask_host(self, texts: Sequence[ProgramText]) -> Iterator[CompiledProgram]:
        """Requests programs from the host process, which finds them in its cache or compiles them."""
        programs = [[text.name, text.text, text.options] for text in texts]
        for plain in ask_host(PROGRAMS, {"identity": list(self.identity), "programs": programs}):
            node = JsonNode(plain, "$", "the host's answer", Status.RUNTIME_FAILURE)
            yield COMPILED_PROGRAM.read(node)
