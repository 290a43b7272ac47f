"""The vendors' libraries that come with stock LiteRT's wheel: `ai_edge_litert/vendors/<vendor>/<kind>`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal


def stock_vendor_folder(vendor: str, kind: Literal["compiler", "dispatch"]) -> str:
    """The folder with a vendor's libraries, by the folder's or manufacturer's name; "" where there is none."""
    folders = stock_vendor_folders(kind)
    return next((f for name, f in folders.items() if plain_name(name) == plain_name(vendor)), "")


def stock_vendor_folders(kind: Literal["compiler", "dispatch"]) -> Mapping[str, str]:
    """The folders with libraries of a kind, by their vendors' names: `intel_openvino`. Nothing is imported."""
    from importlib.util import find_spec

    spec = find_spec("ai_edge_litert")
    found: dict[str, str] = {}
    for package in (spec and spec.submodule_search_locations) or ():
        vendors = os.path.join(package, "vendors")
        for name in sorted(os.listdir(vendors)) if os.path.isdir(vendors) else []:
            folder = os.path.join(vendors, name, kind)
            if os.path.isdir(folder):
                found.setdefault(name, folder)
    return found


def plain_name(name: str) -> str:
    """A vendor's name as flags, files and folders agree on it: without case, `_` and `-`."""
    return name.replace("_", "").replace("-", "").lower()


def is_option_of(manufacturer: str, option: str) -> bool:
    """Whether an option is a manufacturer's: `intel_openvino_graph_backends` is IntelOpenVINO's."""
    prefix, name = plain_name(manufacturer), plain_name(option)
    return name.startswith(prefix) and name != prefix


def options_of(manufacturer: str, options: Mapping[str, str]) -> dict[str, str]:
    """A manufacturer's among the options of several."""
    return {n: value for n, value in options.items() if is_option_of(manufacturer, n)}
