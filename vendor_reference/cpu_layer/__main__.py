"""`python -m vendor_reference.cpu_layer`: prints the folder to compile CPU layers with, `cc -I`."""

from __future__ import annotations

import os


def include_folder() -> str:
    """The folder that has `litert_npu/cpu_layer.h`."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")


if __name__ == "__main__":
    print(include_folder())
