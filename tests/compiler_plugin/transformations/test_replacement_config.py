"""Tests the reader of sub-graph replacement configurations, and that the published schema agrees with it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from copy import deepcopy
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler_plugin.transformations.replacement_config import (
    MatchKind,
    PortName,
    read_replacement_config,
)
from litert.core.errors import LiteRtError
from litert.core.status import Status

SCOPE: dict[str, Any] = {
    "id": "InceptionBlock",
    "match_kind": "scope",
    "instances": [".*InceptionV4/Mixed_5b", "tower_[0-9]+/"],
    "inputs": [
        [{"node": "Branch_0/Conv$", "port": 0}, {"node": "Branch_1/Conv$", "port": 0}],
        [{"node": "Branch_1/Mul$", "port": 1}],
    ],
    "outputs": [{"node": "concat$", "port": 0}],
    "custom_attributes": {"attr1_key": "attr1_value", "attr2_key": 123456, "list": [1, 2.5]},
    "op": "Inception",
}
POINTS: dict[str, Any] = {
    "id": "SSDPostprocessor",
    "match_kind": "points",
    "instances": {"start_points": ["boxes", "scores"], "end_points": ["detections"]},
    "include_inputs_to_sub_graph": False,
    "include_outputs_to_sub_graph": True,
    "custom_attributes": {},
}
GENERAL: dict[str, Any] = {
    "id": "TFYOLO",
    "match_kind": "general",
    "custom_attributes": {"classes": 20, "do_softmax": 0},
}
SCHEMA = json.loads(
    resources.files("compiler_plugin.transformations")
    .joinpath("replacement_config.schema.json")
    .read_text()
)
VALIDATOR = jsonschema.Draft202012Validator(
    SCHEMA, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
)


def read(path: Path, value: object) -> Any:
    path.write_text(json.dumps(value))
    return read_replacement_config(str(path))


def test_each_kind_of_description_is_read(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    scope, points, general = read(path, [SCOPE, POINTS, GENERAL])
    assert scope.match_kind is MatchKind.SCOPE and scope.op == "Inception"
    assert scope.scopes == (".*InceptionV4/Mixed_5b", "tower_[0-9]+")
    assert scope.inputs[1] == (PortName("Branch_1/Mul$", 1),) and len(scope.inputs[0]) == 2
    assert scope.outputs == (PortName("concat$", 0),)
    assert scope.custom_attributes == SCOPE["custom_attributes"]
    assert points.start_points == ("boxes", "scores") and points.end_points == ("detections",)
    assert (points.includes_start_points, points.includes_end_points) == (False, True)
    assert general.replacement_id == "TFYOLO" and general.custom_attributes["classes"] == 20
    assert general.where == f"{path}, $[2]"
    assert VALIDATOR.is_valid([SCOPE, POINTS, GENERAL])


Change = Callable[[dict[str, Any]], object]
WRONG: dict[str, tuple[dict[str, Any], Change, str]] = {
    "no_id": (SCOPE, lambda d: d.pop("id"), "$[0]: field 'id' is missing"),
    "empty_id": (SCOPE, lambda d: d.update(id=""), "$[0].id: the name is empty"),
    "id_of_another_type": (SCOPE, lambda d: d.update(id=7), "$[0].id: 7 is not a string"),
    "no_kind": (SCOPE, lambda d: d.pop("match_kind"), "field 'match_kind' is missing"),
    "kind": (SCOPE, lambda d: d.update(match_kind="scopes"), "unknown value 'scopes'"),
    "unknown_field": (SCOPE, lambda d: d.update(instance=[]), "unknown field 'instance'"),
    "no_instances": (SCOPE, lambda d: d.pop("instances"), "field 'instances' is missing"),
    "empty_instances": (SCOPE, lambda d: d.update(instances=[]), "0 elements, but must have 1"),
    "empty_scope": (SCOPE, lambda d: d.update(instances=["/"]), "the scope is empty"),
    "expression": (SCOPE, lambda d: d.update(instances=["a("]), "'a(' is not a valid regular expression"),
    "points_as_scope": (
        SCOPE, lambda d: d.update(instances=POINTS["instances"]), "is not an array",
    ),
    "scope_as_points": (
        POINTS, lambda d: d.update(instances=["model"]), '["model"] is not an object',
    ),
    "no_end_points": (
        POINTS, lambda d: d["instances"].pop("end_points"), "field 'end_points' is missing",
    ),
    "empty_start_points": (
        POINTS, lambda d: d["instances"].update(start_points=[]), "0 elements, but must have 1",
    ),
    "flag": (POINTS, lambda d: d.update(include_inputs_to_sub_graph=1), "1 is not true or false"),
    "flag_of_a_scope": (
        SCOPE, lambda d: d.update(include_inputs_to_sub_graph=False),
        "match_kind 'scope' has no start or end points",
    ),
    "inputs": (SCOPE, lambda d: d.update(inputs=[{"node": "a", "port": 0}]), "is not an array"),
    "empty_input": (SCOPE, lambda d: d.update(inputs=[[]]), "$[0].inputs[0]: the array has 0 elements"),
    "no_port": (SCOPE, lambda d: d["outputs"][0].pop("port"), "field 'port' is missing"),
    "negative_port": (SCOPE, lambda d: d["outputs"][0].update(port=-1), "-1 is not in the range 0"),
    "general_instances": (
        GENERAL, lambda d: d.update(instances=["a"]), "match_kind 'general' cannot have this field",
    ),
    "attributes": (GENERAL, lambda d: d.update(custom_attributes=[1]), "[1] is not an object"),
    "empty_op": (SCOPE, lambda d: d.update(op=""), "$[0].op: the name is empty"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
def test_reader_and_schema_refuse_the_same(
    tmp_path: Path, case: tuple[dict[str, Any], Change, str]
) -> None:
    description, change, what = case
    changed = deepcopy(description)
    change(changed)
    with pytest.raises(LiteRtError) as error:
        read(tmp_path / "c.json", [changed])
    assert error.value.status is Status.INVALID_ARGUMENT
    assert what in error.value.what and error.value.where == str(tmp_path / "c.json")
    assert not VALIDATOR.is_valid([changed])


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "the text is not JSON"), (b"[{]", "the text is not JSON"),
        (b"\xff\xfe[]", "the text is not UTF-8"), (b"{}", "not an array"),
        (b"[3]", "$[0]: 3 is not an object"), (b"[" * 100_000, "nested too deeply"),
        (b'[{"id": "a", "id": "b"}]', "occurs twice"), (b"null", "not an array"),
    ],
)  # fmt: skip
def test_what_is_no_configuration_is_refused(tmp_path: Path, data: bytes, what: str) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(data)
    with pytest.raises(LiteRtError) as error:
        read_replacement_config(str(path))
    assert what in error.value.what and str(path) in error.value.where


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LiteRtError) as error:
        read_replacement_config(str(tmp_path / "none.json"))
    assert error.value.status is Status.NOT_FOUND and "none.json" in error.value.where


VALUES = st.sampled_from(
    ["", "a", "a(", "/", "scope", "points", "general", 0, 1, -1, 2.5, True, False, 1 << 20, [], {}, ["a"],
     [["a"]], [{"node": "a", "port": 0}], {"node": "a", "port": 1}, POINTS["instances"], "\0"]
)  # fmt: skip


@given(data=st.data(), description=st.sampled_from([SCOPE, POINTS, GENERAL]))
@settings(max_examples=80, deadline=None)
def test_reader_and_schema_agree_on_descriptions_with_other_values(
    data: st.DataObject, description: dict[str, Any]
) -> None:
    changed: Any = deepcopy(description)
    for _ in range(data.draw(st.integers(1, 2))):
        holder: Any = changed
        keys = sorted({*changed, "inputs", "op", "include_inputs_to_sub_graph", "more"})
        key: Any = data.draw(st.sampled_from(keys))
        while isinstance(holder.get(key) if isinstance(holder, dict) else holder[key], list | dict):
            inner = holder[key]
            if not inner or key == "custom_attributes" or data.draw(st.booleans()):
                break
            holder = inner
            key = data.draw(
                st.sampled_from(sorted(inner) if isinstance(inner, dict) else range(len(inner)))
            )
        if data.draw(st.booleans()) and isinstance(holder, dict):
            holder.pop(key, None)
        else:
            holder[key] = deepcopy(data.draw(VALUES))
    with tempfile.TemporaryDirectory() as folder:
        try:
            read(Path(folder) / "c.json", [changed])
            is_read = True
        except LiteRtError:
            is_read = False
    assert is_read == VALIDATOR.is_valid([changed])
