"""Tests that the page of the Python API is generated from docstrings and has each name that users import."""

from __future__ import annotations

from importlib import import_module

import pytest

from docs.site.python_api import SECTIONS, TARGET, TEXTS, document


def test_the_page_of_the_python_api_is_up_to_date(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--golden"):
        TARGET.write_text(document())
    assert TARGET.read_text() == document(), "`make golden` writes it"
    assert TEXTS.keys() == SECTIONS.keys()


@pytest.mark.parametrize("module", ["litert", "compiler_plugin.transformations"])
def test_each_name_that_a_package_offers_is_on_the_page(module: str) -> None:
    listed = {name for modules in SECTIONS.values() for name in modules.get(module, ())}
    assert listed == set(import_module(module).__all__)
