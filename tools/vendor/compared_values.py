"""Compares a vendor's outputs with LiteRT's CPU kernels, and gives reasons for outputs that were not compared."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..console import name_text

if TYPE_CHECKING:
    from litert.conformance.checks import Finding
    from litert.conformance.probe import Probe

NOT_ASKED = "--rule selects other rules"


@dataclass(frozen=True, slots=True)
class ComparedValues:
    """The comparison of a probe (a small built-in model), or of an NPU call of another model.

    Attributes:
      op, types, variant: For a probe: its op, its element types, and the tested detail, with the partition if the
        vendor splits the probe. For another model: its ops, its element types, and its name.
      difference: Greatest difference between the compared outputs; null if no outputs were compared.
      limit: Greatest allowed difference; null if no outputs were compared.
      unit: Unit of `difference` and `limit`: quantization steps, a fraction of the magnitude, or "" if outputs
        must be equal.
      check: Name of the check that compares the outputs.
      why: Reason why no outputs were compared; "" if outputs were compared.
    """

    op: str
    types: str
    variant: str
    check: str
    difference: float | None = None
    limit: float | None = None
    unit: str = ""
    why: str = ""


def read_compared(
    entries: Sequence[Mapping[str, Any]], findings: Sequence[Finding], tolerance: float
) -> list[ComparedValues]:
    """Returns a comparison for each probe, and for each NPU call of the other models.

    Args:
      entries: Objects from `write_cases`, to which `add_expected` added the expected outputs.
      findings: Findings about the dispatch library, whose checks stored the outputs in files.
      tolerance: Greatest allowed difference of floats, as a fraction of the magnitude.
    """
    from litert.conformance.probe import OTHERS, find_probes

    by_source: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries:
        by_source.setdefault(entry["source"], []).append(entry)
    probes = {probe.name: probe for probe in find_probes()}
    texts = {finding.case: finding.text for finding in findings if finding.text}
    asked = {finding.case for finding in findings}
    rows = []
    for name in dict.fromkeys([*by_source, *probes]):
        for entry in by_source.get(name, [{"why": "the plugin did not compile the model"}]):
            probe = probes.get(name)
            check = name if probe else OTHERS
            reason = texts.get(check, "the call was not run") if check in asked else NOT_ASKED
            rows.append(_row(entry, probe, check, reason, tolerance))
    return rows


def _row(
    entry: Mapping[str, Any], probe: Probe | None, check: str, reason: str, tolerance: float
) -> ComparedValues:
    from litert.conformance.case import read_case, read_file, read_types
    from litert.conformance.expected import NO_KERNEL

    if probe is not None:
        variant = ", ".join(filter(None, (probe.variant, entry.get("part", ""))))
        named = (probe.op, probe.types, variant, check)
    elif "why" in entry:
        named = ("", "", entry.get("name", entry["source"]), check)
    else:
        types = [str(each.element_type.name).lower() for each in read_types(entry["inputs"])]
        named = (_joined(entry["ops"]), _joined(types), entry["name"], check)
    if "why" in entry:
        return ComparedValues(*named, why=entry["why"])
    case = read_case(entry, {})
    if case.expected is None:
        return ComparedValues(*named, why=NO_KERNEL)
    if not all(map(os.path.isfile, case.found)):
        return ComparedValues(*named, why=reason)
    found = case.differences([read_file(path) for path in case.found], tolerance)
    worst = max(found, key=lambda difference: (not difference.is_allowed, difference.amount))
    return ComparedValues(*named, worst.amount, worst.limit, worst.unit)


def _joined(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))


def table_lines(rows: Sequence[ComparedValues]) -> Iterator[str]:
    """Yields the lines of a table of all comparisons for which a difference was computed."""
    from litert.analysis.difference import amount_text

    compared = [row for row in rows if row.difference is not None]
    if not compared:
        return
    cells = [("op", "types", "variant", "difference", "may be")]
    for row in compared:
        amounts = f"{row.difference:.2g}", amount_text(row.limit or 0, row.unit)
        cells.append((name_text(row.op), row.types, name_text(row.variant), *amounts))
    widths = [max(len(line[column]) for line in cells) for column in range(3)]
    yield "Outputs compared with stock LiteRT or the reference function, and the greatest difference:"
    for op, types, variant, amount, limit in cells:
        texts = (
            text.ljust(width) for text, width in zip((op, types, variant), widths, strict=True)
        )
        yield f"  {'  '.join(texts)}  {amount:>10}  {limit}"


def left_out(rows: Sequence[ComparedValues]) -> Mapping[str, list[str]]:
    """Returns models and ops whose outputs were not compared, by reason, such as "ADD of float32 (2 variants)"."""
    from litert.conformance.probe import OTHERS

    counts: dict[str, Counter[tuple[str, str]]] = {}
    for row in rows:
        if row.why and row.why != NOT_ASKED:
            name = f"{row.op} of {row.types}" if row.types else row.variant
            counted = "calls" if row.check == OTHERS else "variants"
            counts.setdefault(row.why, Counter())[name, counted] += 1
    return {
        why: [
            f"{name} ({number} {counted})" if number > 1 else name
            for (name, counted), number in there.items()
        ]
        for why, there in counts.items()
    }
