"""The transformations of the back phase that come with this project, written as extensions."""
