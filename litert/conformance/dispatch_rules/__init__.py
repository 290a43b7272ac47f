"""Checks of dispatch libraries by the rules in `litert_npu/dispatch.h`; each module has them as `RULES`."""
