"""Checks of any vendor's libraries, at the C interface, against the contract in the headers of `litert.abi`.

`plugin_rules` and `dispatch_rules` have the checks of compiler plugins and of dispatch libraries: a new rule is a
new module there.
"""
