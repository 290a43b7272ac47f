"""The end of a child process as an error, for those who hear of one and start none."""

from litert.core.errors import LiteRtError


class ChildEndedError(LiteRtError):
    """The child is gone, or was stopped: it crashed, ended, or took too long."""
