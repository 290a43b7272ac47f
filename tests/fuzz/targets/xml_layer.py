"""Custom layer configurations, `.xml`."""

from __future__ import annotations

from random import Random

from tests.fuzz.mutation import damage_text
from tests.fuzz.target import Target, write_input
from tests.vendor_reference.test_mvcl_reader import KERNEL, LAYER
from tests.vendor_reference.test_xml_reader import FULL, SEED
from vendor_reference.custom_layers.asset_reader import read_layer

_KERNEL = b"__kernel void example_relu_kernel(__global const float* x, __global float* y) { y[0] = x[0]; }"
_BESIDE = {
    "custom_layer_kernel.cl": _KERNEL,
    "h.cl": b"#define H 1\n",
    "k.cl": _KERNEL,
    "norm.cl": KERNEL.encode(),
    "types.h": b"#define value_t half\n",
}
_SEEDS = [
    SEED.encode(),
    FULL.replace("sub/k.cl", "k.cl").encode(),
    SEED.encode("utf-16"),
    LAYER.encode(),
]
_WORDS = (
    "<", ">", "/>", "</", "<!--", "-->", "<![CDATA[", "]]>", "<!DOCTYPE", "<?xml", "&#0;", "&lt;", "&", '"', "'",
    "<CustomLayer ", "<Source filename=", "../x", "type=", "global=", "B*F", "((((", "1/0", "*" * 40, "\0", "=",
    "MVCL", "arg-name=", "I.X", "local_data",
)  # fmt: skip


def _damage(data: bytes, random: Random) -> bytes:
    return damage_text(data, random, _WORDS)


def _run(data: bytes) -> None:
    read_layer("ReLU", write_input("layer.xml", data, _BESIDE), memoryview(data))


TARGET = Target(lambda: _SEEDS, _run, _damage, test_runs=500)
