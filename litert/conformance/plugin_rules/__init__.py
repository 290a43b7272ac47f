"""Checks of compiler plugins by the rules in `litert_npu/compiler_plugin.h`; each module has them as `RULES`."""
