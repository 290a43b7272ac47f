"""The child process's side of `compiler/kernel_check.py`: builds an executable's programs, and says how it went.

A kernel can make an OpenCL compiler crash or hang. What was built is kept. By hand:
`python -m vendor_reference.device.kernel_check_worker FOLDER`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from litert.core.errors import LiteRtError
from vendor_reference.device.asset_sources import AssetSources
from vendor_reference.device.program_text import compose_text
from vendor_reference.executable.byte_code import read_executable
from vendor_reference.executable.kernel_signature import SIGNATURES


def check(folder: str) -> Iterator[Mapping[str, object]]:
    """Builds the programs of the executable in a folder; yields what the kernels of each declare, and its log.

    Raises:
      LiteRtError: COMPILATION, with the compiler's log; NOT_FOUND, if there is no device.
    """
    files = Path(folder)
    programs = read_executable((files / "executable").read_bytes()).programs
    names = json.loads((files / "assets.json").read_bytes())
    sources = AssetSources(
        lambda name: memoryview((files / names[name]).read_bytes()) if name in names else None
    )
    from vendor_reference.device.opencl import import_pyopencl

    import_pyopencl()  # first: it sets what pyopencl reads when it is imported
    import pyopencl as cl

    from vendor_reference.device.compiler import compile_text
    from vendor_reference.device.opencl import describe_device, load_npu
    from vendor_reference.device.program_cache import ProgramCache

    device, _ = load_npu()
    context = cl.Context([device])
    cache = ProgramCache(describe_device(device).identity)
    for program in programs:
        declared = sources.find_declared(program)
        if declared is not None:
            yield {"kernels": SIGNATURES.dump(declared), "log": ""}
            continue
        text = compose_text(program, sources.read)
        built = cache.find(text)
        if built is None:
            built = compile_text(context, device, text)
            cache.store(text, built)
        yield {"kernels": SIGNATURES.dump(built.kernels), "log": built.log}


def main(arguments: Sequence[str]) -> None:
    """Prints a line of JSON for each program, as soon as it is built."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what native code prints is no answer
    try:
        for answer in check(arguments[0]):
            print(json.dumps(answer), file=answers, flush=True)
    except LiteRtError as error:
        print(json.dumps({"error": str(error)}), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
