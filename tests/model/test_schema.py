from __future__ import annotations

from pathlib import Path

import pytest

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model import schema
from litert.model.schema_generator import generate, installed_source
from litert.model.schema_types import FieldKind, enum_name, table_schema


def test_the_schema_is_that_of_the_installed_package() -> None:
    text = Path(schema.__file__).read_text()
    assert text == generate(installed_source()), (
        "python -m litert.model.schema_generator > litert/model/schema.py makes it anew"
    )


def test_every_type_that_a_field_names_is_known() -> None:
    for name in schema.TABLES:
        for field in table_schema(name).fields.values():
            if field.kind is FieldKind.UNION:
                assert set(schema.UNIONS[field.type_name].values()) <= {"NONE", *schema.TABLES}
                number = table_schema(name).field(f"{field.name}_type")
                assert number.slot == field.slot - 1
            elif field.kind in (FieldKind.TABLE, FieldKind.TABLES):
                assert field.type_name in schema.TABLES


def test_no_table_holds_itself() -> None:
    """Checks that tables cannot nest recursively, which limits the depth of each file."""
    inside: dict[str, set[str]] = {}
    for name in schema.TABLES:
        inside[name] = set()
        for field in table_schema(name).fields.values():
            if field.kind is FieldKind.UNION:
                inside[name] |= set(schema.UNIONS[field.type_name].values()) - {"NONE"}
            elif field.kind in (FieldKind.TABLE, FieldKind.TABLES):
                inside[name].add(field.type_name)
    while inside:
        leaves = {name for name, held in inside.items() if not held & inside.keys()}
        assert leaves
        inside = {name: held for name, held in inside.items() if name not in leaves}


def test_all_element_types_of_a_file_are_ours() -> None:
    assert {*schema.ENUMS["TensorType"].values(), "NONE"} == {t.name for t in ElementType}


def test_defaults_are_the_schema_s() -> None:
    conv = table_schema("Conv2DOptions")
    assert conv.field("dilation_w_factor").default == 1
    assert conv.field("padding").type_name == "Padding"
    assert table_schema("AddOptions").field("pot_scale_int16").default is True
    assert table_schema("Operator").field("debug_metadata_index").default == -1
    assert table_schema("SignatureDef").slots[3] is None  # deprecated_tag


def test_an_enum_s_value_has_its_name() -> None:
    assert enum_name("Padding", 1) == "VALID"
    assert enum_name("Padding", 9) == "9"


def test_an_unknown_table_or_field_is_refused() -> None:
    with pytest.raises(LiteRtError) as error:
        table_schema("Conv9DOptions")
    assert error.value.status is Status.INVALID_ARGUMENT
    with pytest.raises(LiteRtError, match=r"stride_x.*stride_w"):
        table_schema("Conv2DOptions").field("stride_x")
