"""Python code as a shared library that a program loads that knows nothing of Python."""
