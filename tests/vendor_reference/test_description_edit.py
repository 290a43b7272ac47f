"""Tests that a local size is written into a description without changes to the other text."""

from __future__ import annotations

import json

import pytest

from litert.core.errors import LiteRtError
from vendor_reference.authoring.local_size_edit import set_local_size

JSON = {
    "in place of another": (
        '{"sources": ["a"],\n  "work_sizes": {"global": ["X"],  "local": ["8"]}}',
        [4],
        '{"sources": ["a"],\n  "work_sizes": {"global": ["X"],  "local": [4]}}',
    ),
    "behind the global one": (
        '{ "work_sizes" : {\n "global" : ["X", "Y"] } }',
        [4, 2],
        '{ "work_sizes" : {\n "global" : ["X", "Y"], "local": [4, 2] } }',
    ),
    "before the tensor": (
        '{"work_sizes": {"of": {"input": 0}}}',
        [4],
        '{"work_sizes": {"local": [4], "of": {"input": 0}}}',
    ),
    "into an empty object": ('{"work_sizes": {}}', [4], '{"work_sizes": {"local": [4]}}'),
    "where there are no sizes": (
        '{\n  "sources": ["a"]\n}\n',
        [4],
        '{\n  "sources": ["a"],\n  "work_sizes": {"local": [4]}\n}\n',
    ),
    "taken away": (
        '{"work_sizes": {"global": ["X"], "local": [8]}}',
        [],
        '{"work_sizes": {"global": ["X"]}}',
    ),
    "taken away from the front": (
        '{"work_sizes": {"local": [8], "global": ["X"]}}',
        [],
        '{"work_sizes": {"global": ["X"]}}',
    ),
    "beside local memory": (
        '{"arguments": [{"local": {"type": "int8", "size": 4}}], "work_sizes": {"global": [8]}}',
        [4],
        '{"arguments": [{"local": {"type": "int8", "size": 4}}], "work_sizes": {"global": [8], '
        '"local": [4]}}',
    ),
    "nothing to take away": ('{"sources": []}', [], '{"sources": []}'),
}


@pytest.mark.parametrize(("text", "sizes", "expected"), JSON.values(), ids=JSON)
def test_a_local_size_is_set_in_json(text: str, sizes: list[int], expected: str) -> None:
    assert set_local_size(text, ".json", "op", sizes) == expected


def test_json_that_misleads_is_written_anew() -> None:
    text = '{"description": "has \\"local\\": [1]", "work_sizes": {"local": [8]}}'
    edited = json.loads(set_local_size(text, ".json", "op", [4]))
    assert edited == {"description": 'has "local": [1]', "work_sizes": {"local": [4]}}


SEVERAL = """{
  "description": "no \\"layers\\": [here]",
  "layers": [
    {"name": "a", "sources": ["a.cl"], "work_sizes": {"global": ["X"]}},
    {"name": "b", "sources": ["b.cl"],
     "work_sizes": {"global": ["X"], "local": [2]}},
    {"sources": ["c.cl"], "name": "c"}
  ]
}
"""


@pytest.mark.parametrize(
    ("name", "sizes", "old", "new"),
    [
        ("a", [4], '["X"]}},', '["X"], "local": [4]}},'),
        ("b", [4], "[2]", "[4]"),
        ("b", [], ', "local": [2]', ""),
        ("c", [4], '"c"}', '"c",\n  "work_sizes": {"local": [4]}\n}'),
        ("c", [], "", ""),
    ],
)
def test_a_local_size_is_set_in_its_layer_of_several_in_json(
    name: str, sizes: list[int], old: str, new: str
) -> None:
    assert SEVERAL.count(old) == 1 or not old
    assert set_local_size(SEVERAL, ".json", name, sizes) == SEVERAL.replace(old, new)


LAYERS = """<!-- <WorkSizes local="1"/> -->
<CustomLayer name="a" type="SimpleGPU" version="1">
  <WorkSizes global="X" />
</CustomLayer>
<CustomLayer type='SimpleGPU' name='b'>
  <!-- <WorkSizes local="2"/> -->
  <WorkSizes local='8' global="X"/>
</CustomLayer>
<CustomLayer name="c">
  <Buffers/>
</CustomLayer>
"""

XML = {
    "behind the global one": (
        "a",
        [4],
        '<WorkSizes global="X" />',
        '<WorkSizes global="X" local="4"/>',
    ),
    "in place of another": (
        "b",
        [4, 2],
        "<WorkSizes local='8' global=\"X\"/>",
        '<WorkSizes global="X" local="4,2"/>',
    ),
    "taken away": ("b", [], "<WorkSizes local='8' global=\"X\"/>", '<WorkSizes global="X"/>'),
    "where there is no element": (
        "c",
        [4],
        "  <Buffers/>\n",
        '  <Buffers/>\n  <WorkSizes local="4"/>\n',
    ),
    "nothing to take away": ("c", [], "", ""),
}


@pytest.mark.parametrize(("name", "sizes", "old", "new"), XML.values(), ids=XML)
def test_a_local_size_is_set_in_its_layer(name: str, sizes: list[int], old: str, new: str) -> None:
    assert set_local_size(LAYERS, ".xml", name, sizes) == LAYERS.replace(old, new)


def test_a_file_s_only_layer_is_meant_whatever_its_name() -> None:
    text = '<CustomLayer name="a"><WorkSizes/></CustomLayer>'
    assert 'local="4"' in set_local_size(text, ".xml", "other", [4])


def test_what_has_no_place_for_a_local_size_is_refused() -> None:
    for text, suffix in (("", ".cl"), ("", ".xml"), (LAYERS, ".xml"), (SEVERAL, ".json")):
        with pytest.raises(LiteRtError):
            set_local_size(text, suffix, "d", [4])
