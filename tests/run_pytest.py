"""Runs pytest on the files named on the command line: the main of each Bazel test target."""

import os
import sys

import pytest

if __name__ == "__main__":
    os.environ["XDG_CACHE_HOME"] = os.environ["TEST_TMPDIR"]  # the one in HOME is read-only
    sys.exit(pytest.main(["-p", "no:cacheprovider", *sys.argv[1:]]))
