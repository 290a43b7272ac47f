"""Layout rules for builtin ops, one module per family; ops without a rule do not change their layout."""
