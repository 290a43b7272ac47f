"""Our own transformations, written as extensions."""
