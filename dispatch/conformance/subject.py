"""The vendor that is checked: its table, loaded when the first check asks for it, and what it is run with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dispatch.conformance.case import Case, make_data
from dispatch.conformance.session import Call, Device
from dispatch.conformance.table import Table
from litert.abi.conformance.checks import BrokenRuleError, UnseenError
from litert.abi.definitions import ffi


@dataclass(slots=True, eq=False)
class DispatchSubject:
    """A vendor's dispatch library.

    Attributes:
      load: gives its table; called once.
      cases: NPU calls of its own compiler; none where only the library is there.
      tolerance: of floats, as `find_difference` has it.
    """

    load: Callable[[], Table]
    cases: Sequence[Case] = ()
    tolerance: float = 0.01
    _table: Table | None = None
    _is_initialized: bool = False

    @property
    def loaded(self) -> Table:
        """The table as the vendor filled it."""
        if self._table is None:
            self._table = self.load()
        return self._table

    @property
    def table(self) -> Table:
        """The table with its functions, not initialized yet."""
        if not self.loaded.api.interface:
            raise BrokenRuleError("`interface` is NULL")
        return self.loaded

    def ready(self) -> Table:
        """The table after `initialize`."""
        table = self.table
        if not self._is_initialized:
            table.succeed("initialize", table.host.table, ffi.NULL, table.options)
            self._is_initialized = True
        return table

    @property
    def case(self) -> Case:
        """The NPU call that the contract is checked with.

        Raises:
          UnseenError: there is none.
        """
        if not self.cases:
            raise UnseenError("there is no byte code of the vendor's compiler to run")
        return self.cases[0]

    @contextmanager
    def device(self, case: Case | None = None) -> Iterator[Device]:
        """A device context with a case's assets."""
        assets = {} if case is None else dict(case.assets)
        with Device(self.ready(), assets) as device:
            yield device

    @contextmanager
    def call(self, case: Case | None = None) -> Iterator[Call]:
        """An NPU call, ready to run, in a device context of its own."""
        case = case or self.case
        with self.device(case) as device, Call(device, case) as call:
            call.attach_all()
            yield call

    def other_data(self, seed: int) -> list[bytes]:
        """Other inputs for the first case."""
        return [make_data(tensor_type, seed) for tensor_type in self.case.inputs]
