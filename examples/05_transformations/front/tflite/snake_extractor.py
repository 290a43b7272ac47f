"""Decodes the bytes of Snake's options, the C struct `{float value; int32_t is_logarithm;}`."""

from __future__ import annotations

from math import exp

from compiler_plugin.transformations import Extractor, Node, Op, raw_fields, raw_options

FIELDS = raw_fields(("value", "float32"), ("is_logarithm", "int32"))


class SnakeExtractor(Extractor):
    """Reads the attribute `alpha` of Snake ops, whose options contain either alpha or its logarithm."""

    op = "Snake"

    def extract(self, node: Node) -> bool:
        """Sets `alpha` of a Snake op from its options; the host calls this method for each Snake op."""
        options = raw_options(node, FIELDS)
        alpha = exp(options["value"]) if options["is_logarithm"] else options["value"]
        Op.get_op_class_by_name("Snake").update_node_stat(node, {"alpha": alpha})
        return True
