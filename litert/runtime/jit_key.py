"""The name under which a compiled model is kept: a digest of all that shapes it.

But for the companions of assets, which only the plugin knows: `JitCache.find` compares them.
"""

from __future__ import annotations

import hashlib
import json
import os

from compiler_plugin.asset_files import open_assets
from compiler_plugin.native.exported.options import CUSTOM_OP_INFO_VARIABLE, OPTIONS_VARIABLE
from dispatch.loader import list_dispatch
from litert.core.compiler_options import CompilerOptions
from litert.core.environment_options import EnvironmentOptions
from litert.core.version import SDK_VERSION
from litert.model.blob import MappedFile
from litert.model.manifest import Digest
from litert.runtime.jit_candidates import Candidates, host_fingerprint
from litert.runtime.jit_files import digest_named_files
from litert.runtime.jit_settings import JitSettings
from litert.runtime.model_digest import model_digest

_FORMAT = 4
_VARIABLES = (CUSTOM_OP_INFO_VARIABLE, OPTIONS_VARIABLE)  # which exported plugins read
_ASSET_HINT = "Check the path in Options.custom_op_infos."


def make_key(
    source: MappedFile | bytes,
    settings: JitSettings,
    candidates: Candidates,
    environment: EnvironmentOptions,
) -> str:
    """Makes the key.

    Args:
      source: the model.
      settings: as it would be compiled.
      candidates: the vendors that would be asked.
      environment: where dispatch tables are, and the cache, in which digests of large models are kept, too.

    Returns:
      64 hex digits.

    Raises:
      LiteRtError: NOT_FOUND or FILE_IO, for an asset that cannot be read.
    """
    compiler = settings.compiler
    with open_assets(compiler.custom_op_infos, hint=_ASSET_HINT) as files:
        assets = [
            (
                info.op_name,
                os.path.basename(info.asset_path),
                Digest.of(files[info.op_name].blob()).sha256,
            )
            for info in compiler.custom_op_infos
        ]
    document = {
        "host": [_FORMAT, SDK_VERSION, host_fingerprint()],
        "model": model_digest(source, environment.compiler_cache_dir),
        "target": [settings.soc_manufacturer, settings.soc_model],
        "candidates": list(candidates.fingerprints()),
        "dispatch": sorted(list_dispatch(environment.dispatch_library_path)),
        "assets": assets,
        "options": [dict(compiler.vendor_options), dict(settings.stock_flags)],
        "layers": [os.path.realpath(path) for path in compiler.custom_layers],
        "asset_root": _within_root(compiler),
        "shape_bounds": {
            name: [str(d) for d in bound] for name, bound in compiler.shape_bounds.items()
        },
        "check_kernels": compiler.check_kernels,
        "allow_native_assets": compiler.allow_native_assets,
        "files": digest_named_files(settings, environment.compiler_cache_dir),
        "environment": [os.environ.get(name, "") for name in _VARIABLES],
    }
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _within_root(compiler: CompilerOptions) -> list[str]:
    """The folder that companions may lie in, and the assets: companions have their names from both."""
    if not compiler.asset_root:
        return []
    infos = compiler.custom_op_infos
    return [os.path.realpath(p) for p in (compiler.asset_root, *(i.asset_path for i in infos))]
