"""Versions of this project and of the vendor interfaces that this project implements."""

from typing import NamedTuple


class ApiVersion(NamedTuple):
    """LiteRT's `LiteRtApiVersion`; its text form looks like `0.1.0`."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


SDK_VERSION = "0.2.0"
COMPILER_PLUGIN_API_VERSION = ApiVersion(0, 1, 0)
DISPATCH_API_VERSION = ApiVersion(0, 1, 0)
