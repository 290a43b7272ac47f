"""Checks the C interface of a vendor's libraries against the contract in the headers of `litert.abi`.

The folder `plugin_rules` contains the checks of compiler plugins, and the folder `dispatch_rules` the checks of
dispatch libraries. To add a rule, add a module to `plugin_rules` or `dispatch_rules`.
"""
