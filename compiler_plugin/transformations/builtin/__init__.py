"""The built-in transformations, which are written like user extensions."""
