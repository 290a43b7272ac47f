"""What the conformance checks of compiler plugins and of dispatch libraries have in common."""
