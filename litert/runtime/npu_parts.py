"""What a compiled file holds for the NPU, and the vendor's session for it. Nothing here is read but digests."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from dispatch.api import Dispatch
from dispatch.isolation.limits import Limits
from dispatch.loader import find_dispatch
from dispatch.mem_buffer import MemBuffer
from dispatch.session import Session
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tracing import SpanKind, measured
from litert.model.assets import Asset, read_assets
from litert.model.blob import Blob
from litert.model.byte_code_container import unpack
from litert.model.dispatch_op import (
    DispatchOptions,
    find_byte_code,
    is_dispatch_op,
    read_dispatch_options,
)
from litert.model.graph import Model
from litert.model.manifest import Manifest, find_mismatches
from litert.model.stamp import Stamp, read_stamp

_LOG = logging.getLogger(__name__)


class NpuParts(NamedTuple):
    """The NPU's part of a compiled file.

    Attributes:
      stamp: whom the file is for.
      manifest: None in a file that another compiler has made.
      assets: the model's, and those that byte code carries, in the order in which they are registered:
        companions first.
      modules: byte code by offset and size in the file; without the container that it may lie in.
    """

    stamp: Stamp
    manifest: Manifest | None
    assets: Sequence[Asset]
    modules: Mapping[tuple[int, int], Blob]

    def byte_code(self, options: DispatchOptions) -> Blob:
        """The module that the options of one of the model's calls name."""
        return self.modules[options.bytecode_offset, options.bytecode_size]

    def shape_outputs(self, call_name: str) -> Mapping[int, int]:
        """For a call's outputs of dynamic shape, the output that holds the shape."""
        declared = self.manifest.shape_outputs if self.manifest else ()
        return {s.output: s.shape_output for s in declared if s.call_name == call_name}


@measured(SpanKind.LOAD, "read NPU parts")
def read_npu_parts(
    model: Model, manifest: Manifest | None, file: Blob, where: str, size_limit: int | None
) -> NpuParts | None:
    """Finds the NPU's part of a file, and checks it; None, if the model has no NPU calls.

    Args:
      model: as it was read from `file`.
      manifest: its own; None where it has none.
      file: the whole file.
      where: the file's name, for errors.
      size_limit: greatest size in bytes of parts that are compared with their digests; None for any.
    """
    calls = [
        read_dispatch_options(bytes(op.custom_options or b""), where)
        for op in model.ops()
        if is_dispatch_op(op)
    ]
    if not calls:
        return None
    stamp = read_stamp(model, where)
    if stamp is None:
        raise LiteRtError(
            Status.INVALID_FLATBUFFER,
            "NPU calls, and no stamp that says for whom",
            where,
            "Compile the model again.",
        )
    assets = read_assets(model)
    modules = {
        (c.bytecode_offset, c.bytecode_size): find_byte_code(file, c, f"NPU call '{c.name}'")
        for c in calls
    }
    if manifest is not None:
        problems = find_mismatches(manifest, assets, list(modules.values()), size_limit)
        if problems:
            raise LiteRtError(
                Status.INVALID_FLATBUFFER,
                f"the file is not as it was compiled: {'; '.join(problems)}",
                where,
                "Compile the model again.",
            )
    unpacked = {place: unpack(module, where) for place, module in modules.items()}
    carried = [asset for _, in_module in unpacked.values() for asset in in_module]
    return NpuParts(
        stamp,
        manifest,
        sorted(_merge(assets, carried, where), key=lambda asset: not asset.companion_path),
        {place: byte_code for place, (byte_code, _) in unpacked.items()},
    )


@measured(SpanKind.LOAD, "open device")
def open_session(
    parts: NpuParts,
    environment_options: EnvironmentOptions,
    options: Mapping[str, str],
    limits: Limits | None,
    resources: ExitStack,
) -> Session:
    """Opens the vendor's device, and registers the file's assets; the file stays open as long as the session.

    With limits, the device is in a process of its own. `resources` gets what is to be closed.
    """
    manufacturer = parts.stamp.soc_manufacturer
    library_path = environment_options.dispatch_library_path
    dispatch: Dispatch[Any, Any]
    if limits is None:
        dispatch = find_dispatch(manufacturer, library_path)
    else:
        from dispatch.isolation.isolated_dispatch import IsolatedDispatch  # here: few ask for it

        blobs = [*(asset.blob for asset in parts.assets), *parts.modules.values()]
        files = [blob.file.fd for blob in blobs if blob.file is not None]
        dispatch = IsolatedDispatch(manufacturer, library_path, files, options, limits)
        resources.callback(dispatch.close)
    _LOG.info("NPU calls run on %s %s", manufacturer, parts.stamp.soc_model)
    assets = [(asset.name, MemBuffer.from_blob(asset.blob)) for asset in parts.assets]
    session = Session(
        dispatch, environment_options=environment_options, options=options, assets=assets
    )
    return resources.enter_context(session)


def _merge(assets: Sequence[Asset], carried: Sequence[Asset], where: str) -> list[Asset]:
    """A model's assets, and those that its byte code carries; a module may carry what others do."""
    merged = {asset.name: asset for asset in assets}
    for asset in carried:
        other = merged.setdefault(asset.name, asset)
        if other.blob.view != asset.blob.view:
            raise LiteRtError(
                Status.INVALID_FLATBUFFER,
                f"two assets are named '{asset.name}', and differ",
                where,
                "Compile the model again.",
            )
    return list(merged.values())
