"""Rules for builtin ops, a family of them in each module; ops without a rule see tensors as the file has them."""
