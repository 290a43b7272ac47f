"""The built-in transformations of the front phase, which are written like user extensions."""
