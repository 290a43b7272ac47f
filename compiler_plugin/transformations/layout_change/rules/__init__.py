"""Layout rules for builtin ops, one module per family; tensors of ops without a rule stay as in the file."""
