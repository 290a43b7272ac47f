"""A model loaded on a vendor's device: calls the dispatch table in LiteRT's order.

Open: `initialize` (once in a process), `check_runtime_compatibility`, `device_context_create`, `register_asset`
for each asset. The session releases everything in reverse order, also after an error while loading.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from dispatch.api import Dispatch
from dispatch.call import Call
from dispatch.device import OpenDevice
from dispatch.mem_buffer import MemBuffer
from dispatch.vendor import Vendor, clean_up, initialize_once
from dispatch.worker import Worker
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.core.version import DISPATCH_API_VERSION


class Session:
    """A context manager that owns a device context and the NPU calls in it.

    Any thread may call the methods. The host makes one call at a time with a device context or an invocation
    context. The host uses different contexts in parallel.
    """

    def __init__(
        self,
        dispatch: Dispatch[Any, Any],
        *,
        environment_options: EnvironmentOptions,
        options: Mapping[str, str],
        assets: Sequence[tuple[str, MemBuffer]],
    ) -> None:
        """Opens the device and registers the assets, companions first; the files of the assets must stay open.

        Raises:
          LiteRtError: The vendor's error, with the names of the vendor and the call. The session leaves nothing
            open.
        """
        initialize_once(dispatch, environment_options, options)
        vendor = Vendor(dispatch)
        vendor.call(
            "check_runtime_compatibility", DISPATCH_API_VERSION, environment_options, options
        )
        self._device = OpenDevice(vendor, vendor.create("device_context_create", options))
        self._worker = Worker("dispatch")
        self._assets = tuple(assets)
        self._calls: dict[object, Call] = {}
        self._is_open = True
        try:
            for name, buffer in self._assets:
                vendor.call(
                    "register_asset", self._device.context, name, buffer, detail=f" '{name}'"
                )
        except BaseException:
            self.close()
            raise

    def kernel_texts(self, byte_codes: Iterable[MemBuffer]) -> Sequence[str]:
        """Returns the texts of the kernels in some modules, as passed to the kernel compiler.

        Raises:
          LiteRtError: UNSUPPORTED, if the vendor does not show its kernels; the vendor's error; RUNTIME_FAILURE,
            if the vendor returned an invalid value.
        """
        device = self._device
        found: list[str] = []
        with device.lock:
            for byte_code in byte_codes:
                texts = device.vendor.call("kernel_texts", device.context, byte_code)
                if not isinstance(texts, list | tuple) or not all(
                    isinstance(t, str) for t in texts
                ):
                    what, hint = f"it returned {texts!r:.80}", "Return a list of texts."
                    raise device.vendor.nonsense("kernel_texts", what, hint)
                found += texts
        return found

    def open_call(
        self,
        byte_code: MemBuffer,
        function_name: str,
        input_types: Sequence[RankedTensorType],
        output_types: Sequence[RankedTensorType],
    ) -> Call:
        """Loads one NPU call of the model for tensors of these types; a dimension of -1 may have any size.

        The file of the byte code must stay open as long as the call.

        Raises:
          LiteRtError: The vendor's error, or RUNTIME_FAILURE if the vendor returned an invalid value. The session
            leaves nothing open.
        """
        with self._device.lock:
            if not self._is_open:
                raise LiteRtError(Status.RUNTIME_FAILURE, "the session is closed")
            key = object()
            call = Call(
                self._device,
                self._worker,
                byte_code,
                function_name,
                input_types,
                output_types,
                on_close=partial(self._calls.pop, key, None),
            )
            self._calls[key] = call
            return call

    def close(self) -> None:
        """Closes the NPU calls in reverse order, then the device; logs errors instead of raising them."""
        with self._device.lock:
            if not self._is_open:
                return
            self._is_open = False
        clean_up(
            [
                *(call.close for call in reversed(list(self._calls.values()))),
                self._worker.close,
                self._destroy_context,
            ]
        )
        self._assets = ()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _destroy_context(self) -> None:
        with self._device.lock:
            self._device.vendor.call("device_context_destroy", self._device.context)
