"""Converts flags for vendors to the option payloads that plugins read.

A payload is a C string of TOML under the vendor's name: `--intel_openvino_graph_backends=cpu` becomes the line
`graph.-1.graph_backend = 0` of `intel_openvino`. The key in the payload is the flag without the vendor's prefix.
For the vendors in LiteRT's `litert/tools/flags/vendors`, this module lists the flags whose key or value in the
payload differs from the flag. The module lists all flags of Intel, because Intel's plugin does not report unknown
flags.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from litert.core.counts import names_text
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.suggestion import did_you_mean
from litert.core.vendor_names import option_prefix, plain_name

FLAGS_OF_FIELDS = {
    "intel_openvino_graph_backend": "intel_openvino_graph_backends",
    "qualcomm_num_hvx_threads": "qualcomm_num_hvx_thread",
}
"""Names of flags by the name of the field in stock LiteRT's option groups, if the two names differ."""

_MODES = (
    "default", "sustained_high_performance", "burst", "high_performance", "power_saver",
    "low_power_saver", "high_power_saver", "low_balanced", "balanced", "extreme_power_saver",
)  # fmt: skip


class _Flag(NamedTuple):
    """The key and the kind of value of a flag in the payload.

    Attributes:
      key: Key in the payload; "" if the key is the flag's own name.
      words: Words that users may write instead of numbers, with the numbers.
      kind: Kind: `number` (or words), `text`, `base64`, or `texts`: a list, separated by commas.
    """

    key: str = ""
    words: Mapping[str, int] | None = None
    kind: str = ""


def _words(*words: str, first: int = 0) -> Mapping[str, int]:
    return {word: number for number, word in enumerate(words, first)}


# From LiteRT's litert/tools/flags/vendors/*_flags.cc and litert/c/options/litert_*_options.h.
_FLAGS: Mapping[str, Mapping[str, _Flag]] = {
    "google_tensor": {
        "truncation_type": _Flag(
            "float_truncation_type", _words("auto", "no_truncation", "bfloat16", "half")
        ),
        "int64_to_int32": _Flag("int64_to_int32_truncation"),
        "enable_4bit_compilation": _Flag("enable_four_bit_compilation"),
        "sharding_intensity": _Flag(
            words=_words("unspecified", "minimal", "moderate", "extensive", "maximum", first=-1)
        ),
        "performance_mode": _Flag(
            words=_words(
                "extreme_power_saver", "power_saver", "balanced", "high_performance",
                "sustained_performance", "burst",
            )
        ),
        "op_filters_proto": _Flag(kind="base64"),
        "extra_options": _Flag(kind="base64"),
        "extra_options_path": _Flag(kind="text"),
    },
    "mediatek": {
        "sdk_version_type": _Flag("neron_sdk_version", _words("version7", "version8", "version9")),
        "enable_gemma_compiler_optimizations": _Flag("gemma_compiler_optimizations"),
        "enable_l1_cache_optimizations": _Flag("l1_cache_optimizations"),
        "performance_mode_type": _Flag(
            "performance_mode",
            _words("low_power", "fast_single_answer", "sustained_speed", "turbo_boost"),
        ),
        "optimization_hint": _Flag(
            words={"normal": 0, "low_latency": 1, "deep_fusion": 2, "batch_processing": 4}
        ),
        "dla_dir": _Flag("mediatek_dla_dir", kind="text"),
        "aot_compilation_options": _Flag(kind="text"),
    },
    "qualcomm": {
        "log_level": _Flag(words=_words("off", "error", "warn", "info", "verbose", "debug")),
        "profiling": _Flag(words=_words("off", "basic", "detailed", "linting", "optrace")),
        "backend": _Flag("qnn_backend", _words("gpu", "htp", "dsp", "ir", "lpai", first=1)),
        "htp_performance_mode": _Flag(words=_words(*_MODES)),
        "dsp_performance_mode": _Flag(words=_words(*_MODES[:-1])),
        "htp_perf_ctrl_mode": _Flag(words=_words("manual", "auto")),
        "dsp_perf_ctrl_mode": _Flag(words=_words("manual", "auto")),
        "htp_pd_session": _Flag(words=_words("unsigned", "signed", "adaptive")),
        "dsp_pd_session": _Flag(words=_words("unsigned", "signed", "adaptive")),
        "dsp_encoding": _Flag(words=_words("static", "dynamic")),
        "graph_io_tensor_mem_type": _Flag(words=_words("raw", "memhandle")),
        "optimization_level": _Flag(words=_words("O1", "O2", "O3")),
        "graph_priority": _Flag(words=_words("default", "low", "normal", "normal_high", "high")),
        "lpai_target": _Flag(words=_words("x86", "arm", "adsp", "tensilica")),
        "lpai_client_perf_type": _Flag(words=_words("default", "real_time", "non_real_time")),
        "lpai_core_affinity_type": _Flag(words=_words("default", "soft", "hard")),
        "num_hvx_thread": _Flag("num_hvx_threads"),
        "dump_tensor_ids": _Flag(kind="texts"),
    },
    "samsung": {
        "soc_model": _Flag("samsung_soc_model", kind="text"),
        "large_model_support": _Flag("enable_large_model_support"),
    },
}  # fmt: skip

_INTEL = "intel_openvino"
_INTEL_FLAGS = (
    "configs_map", "enable_weight_sharing", "graph_backends", "graph_configs_map", "performance_mode",
)  # fmt: skip
_INTEL_BACKEND = _Flag(words=_words("cpu", "gpu", "npu"))
_INTEL_PLAIN = {
    "enable_weight_sharing": _Flag(),
    "performance_mode": _Flag(words=_words("latency", "throughput", "cumulative_throughput")),
}
_LITERAL = re.compile(r"true|false|[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def vendor_payloads(manufacturer: str, options: Mapping[str, str]) -> Mapping[str, bytes]:
    """Converts a vendor's flags to payloads for its plugin.

    The flags begin with the vendor's name, in upper or lower case, with or without underscores.

    Returns:
      The payloads by their identifiers; no payloads if there are no flags.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, if a flag does not allow its value, or if a flag of Intel is unknown.
    """
    payloads: dict[str, list[str]] = {}
    for name, value in options.items():
        if "\n" in value or "\0" in value:
            raise _unfit(name, value, "a single line of text")
        prefix = option_prefix(manufacturer, name)
        suffix = name[len(prefix) :].lstrip("_-")
        identifier = _stock_identifier(manufacturer) or prefix.replace("-", "_").lower()
        lines = payloads.setdefault(identifier, [])
        if identifier == _INTEL:
            lines += _intel(name, suffix, value)
        else:
            flag = _FLAGS.get(identifier, {}).get(suffix, _Flag())
            lines.append(f"{flag.key or suffix} = {_spell(flag, name, value)}")
    return {
        identifier: "".join(f"{line}\n" for line in lines).encode()
        for identifier, lines in payloads.items()
    }


def dispatch_payloads(vendor: str, options: Mapping[str, str]) -> Mapping[str, bytes]:
    """Makes payloads for a dispatch library from the runtime's options, one payload for each vendor with options.

    Args:
      vendor: Vendor that gets the options whose names do not begin with a vendor's name.
      options: Values by the names of options: `tiles`, `acme.tiles` for the vendor acme, or `acme.configs_map.KEY`
        for an entry of a map.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, if an option does not allow its value.
    """
    by_vendor: dict[str, dict[str, str]] = {}
    for name, value in options.items():
        owner, field = name.split(".", 1) if "." in name else (vendor.lower(), name)
        if stock := _stock_identifier(owner):
            owner = stock
            if (
                name == "allow_native_assets"
            ):  # the runtime passes this to all vendors, and no stock library reads it
                continue
        flags = by_vendor.setdefault(owner, {})
        table, dot, key = field.partition(".")
        flag = FLAGS_OF_FIELDS.get(f"{owner}_{table}", f"{owner}_{table}")
        if dot:
            value = ",".join(filter(None, [flags.get(flag), f"{key}={value}"]))
        flags[flag] = value
    payloads: dict[str, bytes] = {}
    for owner, flags in by_vendor.items():
        payloads |= vendor_payloads(owner, flags)
    return payloads


def _stock_identifier(vendor: str) -> str:
    """Returns the identifier of a stock vendor's payload, by any spelling of its name; "" for other vendors."""
    plain = plain_name(vendor)
    return next((known for known in (_INTEL, *_FLAGS) if plain_name(known) == plain), "")


def _spell(flag: _Flag, name: str, value: str) -> str:
    if flag.words is not None:
        if value not in flag.words and not _LITERAL.fullmatch(value):
            raise _unfit(name, value, f"one of {', '.join(flag.words)}")
        return str(flag.words.get(value, value))
    if flag.kind == "texts":
        return "[" + ", ".join(_quoted(name, text) for text in value.split(",") if text) + "]"
    if flag.kind == "base64":
        import base64  # imported here, because few flags need it

        return f'"{base64.b64encode(value.encode()).decode()}"'
    if flag.kind == "text" or not _LITERAL.fullmatch(value):
        return _quoted(name, value)
    return value


def _quoted(name: str, value: str) -> str:
    # LiteRT's reader takes the text between the first and the last quote, and knows no escapes.
    if '"' in value and "'" in value:
        raise _unfit(name, value, "text with single or double quotes, not both")
    return f"'{value}'" if '"' in value else f'"{value}"'


def _intel(name: str, suffix: str, value: str) -> Iterator[str]:
    """Writes lines of the payload for Intel's plugin, some of whose flags contain several options."""
    if suffix in _INTEL_PLAIN:
        yield f"{suffix} = {_spell(_INTEL_PLAIN[suffix], name, value)}"
    elif suffix == "configs_map":
        for key, text in _pairs(name, value.split(","), "="):
            yield f"configs_map.{key} = {_quoted(name, text)}"
    elif suffix in ("graph_backends", "graph_backend"):  # as stock's tool and its options say it
        backends = [("-1", value)]  # applies to all graphs
        if ":" in value or ";" in value:
            backends = _pairs(name, value.split(";"), ":")
        for graph, backend in backends:
            number = _spell(_INTEL_BACKEND, name, backend)
            yield f"graph.{_graph(name, value, graph)}.graph_backend = {number}"
    elif suffix == "graph_configs_map":
        for graph, pair in _pairs(name, value.split(";"), ":"):
            for key, text in _pairs(name, [pair], "="):
                index = _graph(name, value, graph)
                yield f"graph.{index}.configs_map.{key} = {_quoted(name, text)}"
    else:  # the plugin would ignore it silently
        flags = [f"--{_INTEL}_{flag}" for flag in _INTEL_FLAGS]
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            f"unknown flag --{name}",
            hint=did_you_mean(f"--{name}", flags, f"{names_text('flag', flags)}.", similarity=0.8),
        )


def _pairs(name: str, entries: Sequence[str], separator: str) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for entry in filter(None, entries):
        key, found, text = entry.partition(separator)
        if not found or not key:
            raise _unfit(name, entry, f"one or more pairs of the form key{separator}value")
        pairs.append((key, text))
    return pairs


def _graph(name: str, value: str, index: str) -> int:
    if not re.fullmatch(r"-1|\d+", index):
        raise _unfit(
            name,
            value,
            "of the form graph:value, where graph is the index of a graph, or -1 for all graphs",
        )
    return int(index)


def _unfit(name: str, value: str, allowed: str) -> LiteRtError:
    return LiteRtError(
        Status.INVALID_TOOL_CONFIG,
        f"{value!r:.100} is not valid in --{name}: the value must be {allowed}",
        hint="See the vendor's documentation for its flags.",
    )
