"""`python -m vendor_reference.cpu_layer`: prints the include directory for compiling CPU layers (`cc -I`)."""

from __future__ import annotations

import os


def include_folder() -> str:
    """Returns the include directory, which contains `litert_npu/cpu_layer.h`."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")


if __name__ == "__main__":
    print(include_folder())
