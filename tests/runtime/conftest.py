"""Fixtures: the test vendor's dispatch table, and a function that loads models for this vendor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dispatch.loader import find_dispatch
from litert.compiled_model import CompiledModel
from litert.environment import Environment
from litert.options import Options
from tests.runtime.npu_models import VENDORS

Load = Callable[..., CompiledModel]


@pytest.fixture
def vendor() -> Any:
    """The test vendor's dispatch table."""
    table: Any = find_dispatch("Test", str(VENDORS))
    table.failing.clear()
    return table


@pytest.fixture
def environment() -> Environment:
    """An environment that finds the test vendor."""
    return Environment.create(dispatch_library_path=str(VENDORS))


@pytest.fixture
def load(environment: Environment) -> Iterator[Load]:
    """A function that loads models from bytes; the fixture closes these models after the test."""
    models: list[CompiledModel] = []

    def make(data: bytes, options: Options | None = None) -> CompiledModel:
        model = CompiledModel.from_buffer(data, environment=environment, options=options)
        models.append(model)
        return model

    yield make
    for model in models:
        model.close()
