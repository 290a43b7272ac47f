"""Options of the runtime as a dispatch library reads them: a payload for each vendor whose options are set."""

from __future__ import annotations

from collections.abc import Mapping

from litert.abi.vendor_flags import FLAGS_OF_FIELDS, vendor_payloads


def options_payloads(vendor: str, options: Mapping[str, str]) -> Mapping[str, bytes]:
    """Payloads by name.

    Args:
      vendor: whose options those are that name no vendor.
      options: `tiles`, or `acme.tiles` for vendor acme's; entries of its maps as `acme.configs_map.KEY`.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, for a value that an option cannot have.
    """
    by_vendor: dict[str, dict[str, str]] = {}
    for name, value in options.items():
        owner, dot, field = name.partition(".")
        if not dot:
            owner, field = vendor.lower(), name
        flags = by_vendor.setdefault(owner, {})
        table, dot, key = field.partition(".")
        flag = FLAGS_OF_FIELDS.get(f"{owner}_{table}", f"{owner}_{table}")
        if dot:
            former = flags.get(flag)
            value = ",".join(filter(None, [former, f"{key}={value}"]))
        flags[flag] = value
    return {
        identifier: payload
        for owner, flags in by_vendor.items()
        for identifier, payload in vendor_payloads(owner, flags).items()
    }
