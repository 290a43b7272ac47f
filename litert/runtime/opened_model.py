"""A model's file or bytes, read, and what the rest of loading asks of it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass

from litert.model.blob import Blob, MappedFile
from litert.model.dispatch_op import is_dispatch_op
from litert.model.graph import Model
from litert.model.reader import read_model
from litert.model.stamp import STAMP_KEY


@dataclass(frozen=True, slots=True)
class OpenedModel:
    """A model that was read, and what it lies in.

    Attributes:
      model: whose constants are views of the source.
      source: its file, or its bytes.
      why_not_compiled: why compiling it came to nothing; "" where that was not tried.
    """

    model: Model
    source: MappedFile | bytes
    why_not_compiled: str = ""

    @property
    def whole(self) -> Blob:
        """All of it."""
        return Blob(self.source) if isinstance(self.source, bytes) else self.source.blob()

    @property
    def stock_source(self) -> str | bytes:
        """What stock's interpreter reads it from."""
        return self.source if isinstance(self.source, bytes) else _path_of_open(self.source)

    @property
    def has_npu_calls(self) -> bool:
        return any(map(is_dispatch_op, self.model.ops()))

    @property
    def is_compiled(self) -> bool:
        """Whether a compiler has made it, be it that all ops stayed on the CPU."""
        return self.model.find_metadata(STAMP_KEY) is not None or self.has_npu_calls

    def why_on_cpu(self, unless_tried: str) -> str:
        """Why a model that is not compiled is not, or what to do about it."""
        if self.why_not_compiled:
            return f"Nor was it when it was loaded: {self.why_not_compiled}."
        return unless_tried


def open_model(source: MappedFile | bytes, resources: ExitStack, graph: ExitStack) -> OpenedModel:
    """Reads a model.

    Args:
      source: its file, which `resources` then owns, or its bytes.
      resources: of the loaded model.
      graph: takes the graph apart, once the model is loaded.

    Raises:
      LiteRtError: INVALID_FLATBUFFER.
    """
    if isinstance(source, MappedFile):
        resources.enter_context(source)
    model = read_model(source)
    graph.callback(_take_apart, model)
    return OpenedModel(model, source)


def _path_of_open(file: MappedFile) -> str:
    """A path of the file that is open, whatever takes its name meanwhile, and in whatever letters that is."""
    path = f"/proc/self/fd/{file.fd}"
    return path if os.path.exists(path) else file.path


def _take_apart(model: Model) -> None:
    """Opens the graph's circles, which would keep the mapped file until the next garbage collection."""
    for op in model.ops():
        op.release()
