"""Generates `schema.py` from the schema that stock LiteRT's package was generated from.

`python -m litert.model.schema_generator > litert/model/schema.py`, with `ai-edge-litert` installed.
The generator reads facts: names, slots, types and defaults, found in the text of
`ai_edge_litert/schema_py_generated.py`.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path

_SCALARS = {
    "Bool": "bool", "Int8": "byte", "Uint8": "ubyte", "Int16": "short", "Uint16": "ushort",
    "Int32": "int", "Uint32": "uint", "Int64": "long", "Uint64": "ulong", "Float32": "float",
}  # fmt: skip

# The generated code stores an enum's field as a number: the field's name determines the enum.
_FIELD_ENUMS = {
    **dict.fromkeys(
        ("type", "idx_out_type", "in_data_type", "out_data_type", "out_type", "output_type",
         "key_dtype", "value_dtype", "quantized_bias_type"), "TensorType",
    ),
    "format": "DimensionType",
    "padding": "Padding",
    "fused_activation_function": "ActivationFunctionType",
    "combiner": "CombinerType",
    "weights_format": "FullyConnectedOptionsWeightsFormat",
    "mode": "MirrorPadMode",
    "custom_options_format": "CustomOptionsFormat",
    "composite_attributes_format": "CustomOptionsFormat",
    "reduce_function": "ReduceWindowFunction",
    "comparison_direction": "StablehloComparisonDirection",
    "compare_type": "StablehloComparisonType",
    "algorithm": "RngAlgorithm",
    "LSTMOptions.kernel_type": "LSTMKernelType",
    "UnidirectionalSequenceLSTMOptions.kernel_type": "LSTMKernelType",
    "LSHProjectionOptions.type": "LSHProjectionType",
    "OperatorCode.builtin_code": "BuiltinOperator",
}  # fmt: skip
_NOT_ENUMS = {"OperatorCode.deprecated_builtin_code"}

_RENAMED = {
    "builtin_options2": "builtin_options_2",
    "builtin_options2_type": "builtin_options_2_type",
}

_HEADER = '''\
"""The TFLite schema as data; made by `schema_generator.py` from ai-edge-litert, not edited.

A table's text has its fields in the order of their slots: `name:type`, with `=default` where that is not zero.
Types are those of the schema's language: `int`, `[int]`, `string`, an enum, a table, `[Table]`, a union (its
number is the field before it). `_` is a slot that is no longer used.
"""

# fmt: off
# ruff: noqa: E501
'''


def generate(source: str) -> str:
    """Returns the text of `schema.py`, made from the text of `schema_py_generated.py`."""
    enums = _find_enums(source)
    unions = [name for name in enums if f"def {name}Creator(" in source]
    bases: dict[str, str] = {}
    tables = {
        name: _table(source, name, bases)
        for name in re.findall(r"^def (\w+)Start\(", source, re.M)
        if f"class {name}(object)" in source
    }
    assert set(bases) == {*enums} - {*unions, "StablehloPrecisionConfig"}, "an enum has no field"

    by_value = {name: {v: k for k, v in enum.items()} for name, enum in enums.items()}
    others = {name: by_value[name] for name in enums if name not in unions}
    return "\n".join(
        [
            _HEADER + _declaration("TABLES: dict[str, str]", tables),
            _declaration("UNIONS: dict[str, dict[int, str]]", {n: by_value[n] for n in unions}),
            f"ENUM_BASES: dict[str, str] = {bases!r}\n",
            _declaration("ENUMS: dict[str, dict[int, str]]", others),
            "BUILTIN_OPERATORS = ENUMS['BuiltinOperator']\n",
        ]
    )


def installed_source() -> str:
    """Returns the text of the installed `schema_py_generated.py`."""
    spec = importlib.util.find_spec("ai_edge_litert")
    assert spec is not None and spec.origin is not None, "ai-edge-litert is not installed"
    return (Path(spec.origin).parent / "schema_py_generated.py").read_text()


def _find_enums(source: str) -> dict[str, dict[str, int]]:
    classes = re.findall(r"^class (\w+)\(object\):\n((?:    \w+ = -?\d+\n)+)", source, re.M)
    return {
        name: {key: int(value) for key, value in re.findall(r"(\w+) = (-?\d+)", body)}
        for name, body in classes
    }


def _declaration(name: str, entries: Mapping[str, object]) -> str:
    lines = "".join(f"    {key!r}: {value!r},\n" for key, value in entries.items())
    return f"{name} = {{\n{lines}}}\n"


def _table(source: str, table: str, bases: dict[str, str]) -> str:
    match = re.search(rf"^class {table}\(object\):.*?^def {table}End\(", source, re.M | re.S)
    assert match
    body = match[0]
    size = re.search(r"StartObject\((\d+)\)", body)
    assert size
    fields = ["_"] * int(size[1])
    for camel, kind, slot, default in re.findall(
        rf"^def {table}Add(\w+)\(builder.*?Prepend(\w+?)Slot\((\d+), .*?, ([-\w.]+)\)$",
        body,
        re.M | re.S,
    ):
        name = _snake(camel)
        if kind == "UOffsetTRelative":
            text = f"{name}:{_reference(source, table, camel, body)}"
        else:
            base = _SCALARS[kind]
            enum = _FIELD_ENUMS.get(f"{table}.{name}") or _FIELD_ENUMS.get(name)
            if enum:
                assert bases.setdefault(enum, base) == base, f"{table}.{name} is not a {base}"
            else:
                assert kind != "Int8" or f"{table}.{name}" in _NOT_ENUMS, (
                    f"{table}.{name}: which enum?"
                )
            text = f"{name}:{enum or base}"
            if float(default if default not in ("False", "True") else default == "True"):
                text += f"={default}"
        fields[int(slot)] = text
    return " ".join(fields)


def _reference(source: str, table: str, camel: str, body: str) -> str:
    """Returns the type of a field that is an offset."""
    accessor = re.search(rf"    def {camel}\(self(, j)?\):\n(.*?)\n\n", body, re.S)
    assert accessor
    is_vector, code = bool(accessor[1]), accessor[2]
    if "_tab.Union(" in code:
        unpack = re.search(
            rf"^class {table}T\(object\):.*?= (\w+)Creator\(self\.\w+, \w+\.{camel}\(\)\)",
            source,
            re.M | re.S,
        )
        assert unpack
        return unpack[1]
    if "_tab.String(" in code:
        assert not is_vector, "a vector of strings: the reader has none"
        return "string"
    scalar = re.search(r"number_types\.(\w+)Flags, a \+", code)
    if scalar:
        return f"[{_SCALARS[scalar[1]]}]"
    target = re.search(r"obj = (\w+)\(\)", code)
    assert target
    return f"[{target[1]}]" if is_vector else target[1]


def _snake(camel: str) -> str:
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", camel).lower()
    return _RENAMED.get(name, name)


if __name__ == "__main__":
    print(generate(installed_source()), end="")
