"""`initialize` is called once in a process for each table, from whichever thread comes first."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from functools import partial
from typing import Any

from dispatch.api import Dispatch
from dispatch.table_check import check_table
from dispatch.vendor import Vendor
from litert.core.environment_options import EnvironmentOptions


class _Table:
    """A table that was seen; it is forgotten when the table goes."""

    def __init__(self, dispatch: Dispatch[Any, Any]) -> None:
        # By id, since a vendor's table need not be hashable.
        self.reference = weakref.ref(dispatch, partial(_forget, id(dispatch)))
        self.lock = threading.RLock()
        self.is_initialized = False


_tables: dict[int, _Table] = {}
_tables_lock = threading.Lock()


def initialize_once(
    dispatch: Dispatch[Any, Any],
    environment_options: EnvironmentOptions,
    options: Mapping[str, str],
) -> None:
    """Checks and initializes a table, unless that was done before in this process.

    Threads that come while it is under way wait. After an error the next one tries again.

    Raises:
      LiteRtError: what the vendor raised, or what is wrong with the table.
    """
    with _tables_lock:
        table = _tables.get(id(dispatch)) or _tables.setdefault(id(dispatch), _Table(dispatch))
    if table.is_initialized:
        return
    with table.lock:
        if not table.is_initialized:
            check_table(dispatch, where=f"class {type(dispatch).__qualname__}")
            Vendor(dispatch).call("initialize", environment_options, options)
            table.is_initialized = True


def _forget(table_id: int, _: object) -> None:
    _tables.pop(table_id, None)
