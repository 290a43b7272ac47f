"""Tests the attributes of every transformation, and the public names that authors import."""

from __future__ import annotations

import subprocess
import sys

import pytest

import compiler_plugin.transformations as house
from compiler_plugin.transformations import Transformation
from compiler_plugin.transformations.transformation import snake_case


@pytest.mark.parametrize(
    ("class_name", "name"),
    [
        ("FuseSwish", "fuse_swish"),
        ("Flatten", "flatten"),
        ("FoldNHWCTopK", "fold_nhwc_top_k"),
        ("TopKNormalize", "top_k_normalize"),
        ("SplitConv2DFilter", "split_conv2d_filter"),
        ("already_snake", "already_snake"),
    ],
)
def test_a_class_has_its_name_in_snake_case(class_name: str, name: str) -> None:
    assert snake_case(class_name) == name


class Sentence(Transformation):
    """What it does, in one
    sentence. And more.
    """  # fmt: skip

    def find_and_replace_pattern(self, graph: object) -> None:
        """Does nothing."""


class Silent(Sentence):
    def find_and_replace_pattern(self, graph: object) -> None:
        """Does nothing."""


def test_the_first_sentence_is_the_description() -> None:
    assert Sentence().description == "What it does, in one sentence"
    assert Silent().description == ""  # not inherited from the base class


def test_a_transformation_without_its_method_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="find_and_replace_pattern"):
        Transformation()  # type: ignore[abstract]


def test_every_public_name_is_there_and_the_lists_agree() -> None:
    assert set(house._MODULES) == set(house.__all__) <= set(dir(house))
    assert all(getattr(house, name) is not None for name in house.__all__)
    with pytest.raises(AttributeError, match="Nothing"):
        house.Nothing  # noqa: B018


def test_nothing_is_imported_before_it_is_used() -> None:
    code = (
        "import sys, compiler_plugin.transformations as t;"
        "print(sorted(n for n in sys.modules if n.startswith(t.__name__ + '.')), 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "False"]
