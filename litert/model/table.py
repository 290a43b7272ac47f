"""A schema table by name: fields as they lie in a file, decoded when asked for, or made from values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Table:
    """One table of the TFLite schema, such as `Conv2DOptions`; its values do not change.

    Field names are the schema's: `stride_w`. A table's field is a `Table`, a vector a tuple (of bytes: a
    `memoryview`), a union the `Table` it holds.
    """

    type_name: str

    @classmethod
    def make(cls, type_name: str, **fields: Any) -> Table:
        """A table with these fields; the others have the schema's defaults.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for a table or field that the schema does not have.
        """
        raise NotImplementedError

    def get(self, field: str) -> Any:
        """A field's value; the schema's default (None for tables and vectors) where it is absent."""
        raise NotImplementedError

    def fields(self) -> Mapping[str, Any]:
        """The fields that are present, in the schema's order."""
        raise NotImplementedError

    def with_fields(self, **changes: Any) -> Table:
        """The same table with other values in some fields."""
        raise NotImplementedError
