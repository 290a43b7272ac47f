"""Runs a Python plugin in a host of another project; the host calls the plugin through LiteRT's C ABI."""
