"""Checks of dispatch libraries against the rules in `litert_npu/dispatch.h`; each module declares `RULES`."""
