"""Loads a model onto a vendor's device; calls the functions of the dispatch table in LiteRT's order.

To load a model, the session calls `initialize` (once in a process), `check_runtime_compatibility`,
`device_context_create`, and `register_asset` for each asset. The session releases all objects in reverse order,
even after an error while loading.
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
    """A context manager that owns a device context and the NPU calls created in it.

    The methods can be called from any thread. The host makes one call at a time with a device context or an
    invocation
    context. Calls with different contexts may run in parallel.
    """

    def __init__(
        self,
        dispatch: Dispatch[Any, Any],
        *,
        environment_options: EnvironmentOptions,
        options: Mapping[str, str],
        assets: Sequence[tuple[str, MemBuffer]],
    ) -> None:
        """Opens the device, then registers companion files, then assets; the files with these data must stay open.

        Raises:
          LiteRtError: Any error of the vendor; the message contains the vendor and the function. After an error,
            no object stays open.
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
        """Returns the source code of the kernels in byte code modules, as passed to the kernel compiler.

        Raises:
          LiteRtError: UNSUPPORTED, if the vendor cannot return the source code; RUNTIME_FAILURE, if the vendor
            returned an invalid value; any other error of the vendor.
        """
        device = self._device
        found: list[str] = []
        with device.lock:
            for byte_code in byte_codes:
                texts = device.vendor.call("kernel_texts", device.context, byte_code)
                if not isinstance(texts, list | tuple) or not all(
                    isinstance(t, str) for t in texts
                ):
                    what = f"the function returned {texts!r:.80}, not a list of strings"
                    hint = "The function must return a list of strings."
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
        """Loads one NPU call of the model for given tensor types; a dimension of -1 means any size.

        The file that contains the byte code must stay open as long as the NPU call.

        Raises:
          LiteRtError: Any error of the vendor; RUNTIME_FAILURE, if the vendor returned an invalid value. After an
            error, no object stays open.
        """
        with self._device.lock:
            if not self._is_open:
                raise LiteRtError(
                    Status.RUNTIME_FAILURE,
                    "the session is closed, and cannot load an NPU call any more",
                    f"function '{function_name}'",
                    "Create a new Session.",
                )
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
        """Closes the NPU calls in reverse order, then the device; errors are logged, not raised."""
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
