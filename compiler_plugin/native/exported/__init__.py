"""Runs a Python plugin in a host of another project, which calls the plugin through LiteRT's C ABI."""
