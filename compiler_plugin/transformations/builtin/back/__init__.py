"""The built-in transformations of the back phase, which are written like user extensions."""
