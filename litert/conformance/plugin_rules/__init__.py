"""Checks of compiler plugins against the rules in `litert_npu/compiler_plugin.h`; each module declares `RULES`."""
