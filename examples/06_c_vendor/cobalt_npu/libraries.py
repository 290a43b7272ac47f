"""The paths of the two libraries, which `make` builds into this folder."""

from pathlib import Path

PLUGIN = Path(__file__).with_name("libLiteRtCompilerPlugin_Cobalt.so")
DISPATCH = Path(__file__).with_name("libLiteRtDispatch_Cobalt.so")
