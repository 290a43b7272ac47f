"""Where the libraries are: `make` builds them into this folder."""

from pathlib import Path

PLUGIN = Path(__file__).with_name("libLiteRtCompilerPlugin_Cobalt.so")
DISPATCH = Path(__file__).with_name("libLiteRtDispatch_Cobalt.so")
