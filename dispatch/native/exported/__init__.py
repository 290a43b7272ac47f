"""A dispatch table in Python behind LiteRT's C interface: what each slot does, and needs of the host."""
