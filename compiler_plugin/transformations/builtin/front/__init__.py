"""The transformations of the front phase that come with this project, written as extensions."""
