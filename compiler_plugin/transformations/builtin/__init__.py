"""The transformations that come with this project, written as extensions."""
