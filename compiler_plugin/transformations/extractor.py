"""Extractors: what the bytes of an op's options mean, as attributes of its node.

    class FooExtractor(Extractor):
        op = "Foo"

        def extract(self, node):
            options = flexbuffer_options(node)
            Foo.update_node_stat(node, {"axis": options["axis"]})
            return True

TFLite's own operators need none: their options are attributes, by the schema. An op whose options are a FlexBuffer
needs one only where attributes are to be other than its entries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.custom_options import find_flexbuffer_options
from litert.model.raw_options import RawField, read_raw_fields

if TYPE_CHECKING:
    from compiler_plugin.transformations.node import Node


class Extractor(ABC):
    """Finds attributes for the ops of one name.

    Attributes:
      op: the name: a custom code, or a builtin operator's, whose nodes may get further attributes.
      enabled: whether it is asked; an op has one extractor that is.
    """

    op: ClassVar[str] = ""
    enabled: ClassVar[bool] = True

    @abstractmethod
    def extract(self, node: Node) -> bool:
        """Sets attributes of a node, mostly by `update_node_stat` of its op's class.

        Args:
          node: as it is in the model; shapes of what ops write are not known yet.

        Returns:
          Whether the node is as it should be; False leaves it to who comes next: the op's class if it is enabled,
          then the standard (options by name).
        """


def flexbuffer_options(node: Node) -> Mapping[str, Any]:
    """A custom op's options by name; empty where it has no options.

    Raises:
      LiteRtError: INVALID_FLATBUFFER, for options that are no FlexBuffer map.
    """
    found = find_flexbuffer_options(node.custom_options)
    if isinstance(found, Mapping):
        return found
    if not len(node.custom_options):
        return {}
    raise LiteRtError(
        Status.INVALID_FLATBUFFER,
        f"the {len(node.custom_options)} bytes of options are no FlexBuffer map",
        hint="Read a C struct by raw_options, with the fields it has.",
    )


def raw_options(node: Node, fields: Sequence[RawField]) -> Mapping[str, Any]:
    """A custom op's options that are a C struct; `raw_fields` says where its fields lie.

    Raises:
      LiteRtError: INVALID_ARGUMENT, for options that have not all of the fields.
    """
    return read_raw_fields(node.custom_options, fields)


def standard_options(node: Node, fields: Sequence[RawField] | None) -> Mapping[str, Any]:
    """What a custom op's options say without an extractor.

    Args:
      node: a custom op.
      fields: of the C struct that they are; None for a FlexBuffer, whose entries count if it is a map.
    """
    if fields is not None:
        return raw_options(node, fields)
    found = find_flexbuffer_options(node.custom_options)
    return found if isinstance(found, Mapping) else {}
