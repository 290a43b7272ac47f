"""The plugin side: a Python plugin in a host that calls it through the C ABI."""
