"""The vendor libraries in stock LiteRT's wheel: `ai_edge_litert/vendors/<vendor>/<kind>`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal

from litert.core.vendor_names import plain_name


def stock_vendor_folder(vendor: str, kind: Literal["compiler", "dispatch"]) -> str:
    """Returns the directory of a vendor's libraries ("" for none); `vendor` is any of the vendor's names."""
    folders = stock_vendor_folders(kind)
    return next((f for name, f in folders.items() if plain_name(name) == plain_name(vendor)), "")


def stock_vendor_folders(kind: Literal["compiler", "dispatch"]) -> Mapping[str, str]:
    """Returns the directories with libraries of a kind, by vendor name such as `intel_openvino`.

    The search does not import any package.
    """
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


def available_vendors(vendors: Sequence[str], kind: Literal["compiler", "dispatch"]) -> str:
    """Returns the end of an error about a missing vendor: `; available vendors: A; in stock LiteRT's wheel: B`."""
    text = f"; available vendors: {', '.join(vendors) or 'none'}"
    if wheel := ", ".join(stock_vendor_folders(kind)):
        text += f"; in stock LiteRT's wheel: {wheel}"
    return text
