"""Compares two versions of a model: finds ops that were added, removed or changed, and other changes in the file.

Values are printed as in a dump of the model: names in quotes, and large data as digests. Data that cannot differ
are not read. The comparison ignores the positions of data in the file, the sharing of buffers, and the order of
tensors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from litert.model.blob import Blob
from litert.model.dump import data_text, quote, text_or_data
from litert.model.graph import Buffer, Model, Op, Signature, Subgraph, Tensor
from litert.model.op_matching import OpMatching
from litert.model.subgraph_diff import (
    Change,
    DataComparison,
    ModelDiff,
    SubgraphComparison,
    SubgraphDiff,
    attribute_changes,
    count_changes,
    mapping_changes,
    value_changes,
)
from litert.model.trailing import moved_archive

_Arguments = Sequence[tuple[str, Tensor]]


def diff_models(before: Model, after: Model) -> ModelDiff:
    """Compares two models.

    Raises:
      LiteRtError: INVALID_FLATBUFFER, if a model's file has a damaged table (tables are read only when they are
        needed).
    """
    pairs = _pair_subgraphs(before.subgraphs, after.subgraphs)
    data = DataComparison()
    calls = _call_texts(before) | _call_texts(after)
    matchings: dict[int, OpMatching] = {}
    found = []
    for old, new in pairs:
        if old < 0 or new < 0:
            subgraph = after.subgraphs[new] if old < 0 else before.subgraphs[old]
            counts = (0, len(subgraph.ops)) if old < 0 else (len(subgraph.ops), 0)
            found.append(SubgraphDiff(old, new, subgraph.name, *counts))
            continue
        compared = SubgraphComparison(before.subgraphs[old], after.subgraphs[new], data, calls)
        matchings[new] = compared.matching
        found.append(compared.diff(old, new))
    changes = [
        *_model_changes(before, after, data),
        *_signature_changes(before, after, matchings),
    ]
    return ModelDiff(found, changes, _data_size(before.buffers), _data_size(after.buffers))


def _pair_subgraphs(before: Sequence[Subgraph], after: Sequence[Subgraph]) -> list[tuple[int, int]]:
    """Pairs the indices of subgraphs: first subgraphs with equal unique names, then the other subgraphs in order.

    The index -1 stands for a subgraph that the other model lacks.
    """
    counts = [Counter(subgraph.name for subgraph in some) for some in (before, after)]
    places = {subgraph.name: index for index, subgraph in enumerate(before)}
    pairs = {
        index: places[subgraph.name]
        for index, subgraph in enumerate(after)
        if subgraph.name and counts[0][subgraph.name] == counts[1][subgraph.name] == 1
    }
    left = iter(sorted(set(range(len(before))) - set(pairs.values())))
    for index in range(len(after)):
        if index not in pairs:
            pairs[index] = next(left, -1)
    return [*((pairs[index], index) for index in range(len(after))), *((i, -1) for i in left)]


def _call_texts(model: Model) -> dict[Op, Sequence[str]]:
    """Returns the byte code and function name of each NPU call, to compare instead of the call's file offsets."""
    return {
        op: (_blob_text(module.blob), quote(function))
        for module in model.byte_code
        for op, function in module.users
    }


def _model_changes(before: Model, after: Model, data: DataComparison) -> Iterator[Change]:
    yield from value_changes("schema version", before.version, after.version)
    yield from value_changes("description", before.description, after.description)
    yield from mapping_changes(_metadata_texts(before), _metadata_texts(after), str)
    modules = [[_blob_text(module.blob) for module in model.byte_code] for model in (before, after)]
    yield from count_changes("byte code", *modules)
    old, new = before.trailing, after.trailing
    if not data.is_same(old, new) and not _has_moved(old, new):
        yield from value_changes("trailing bytes", old, new, _blob_text)
    yield from attribute_changes(before, after, "external_buffer_groups", "external_buffers")
    codes = [_unused_codes(model) for model in (before, after)]
    yield from count_changes("unused operator code", *codes)
    was, now = (_data_size(_unused_buffers(model)) for model in (before, after))
    yield from value_changes("bytes of unused data", was, now)


def _blob_text(blob: Blob) -> str:
    return data_text(blob.view, 0)


def _has_moved(before: Blob | None, after: Blob | None) -> bool:
    """Returns whether the trailing bytes are the same ZIP archive at another position in the file.

    The offsets in the archive count from the start of the file, and change with its position.
    """
    if before is None or after is None or before.size != after.size:
        return False
    moved = moved_archive(before.view, before.offset, after.offset)
    return moved is not None and bytes(before.view[: moved[0]]) + moved[1] == bytes(after.view)


def _metadata_texts(model: Model) -> dict[str, str]:
    texts: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for entry in model.metadata:
        counts[entry.name] += 1
        number = f" (entry {counts[entry.name]})" if counts[entry.name] > 1 else ""
        blob = entry.buffer.blob
        texts[f"metadata {quote(entry.name)}{number}"] = text_or_data(blob.view) if blob else '""'
    return texts


def _unused_codes(model: Model) -> Iterator[str]:
    used = {op.code for op in model.ops()}
    return (Op(code, (), ()).name for code in model.operator_codes if code not in used)


def _unused_buffers(model: Model) -> Iterator[Buffer]:
    used = {tensor.buffer for subgraph in model.subgraphs for tensor in subgraph.tensors}
    used.update(entry.buffer for entry in model.metadata)
    used.update(buffer for buffer in model.metadata_buffers if isinstance(buffer, Buffer))
    return (buffer for buffer in model.buffers if buffer not in used)


def _data_size(buffers: Iterable[Buffer]) -> int:
    return sum(buffer.blob.size for buffer in buffers if buffer.blob)


def _signature_changes(
    before: Model, after: Model, matchings: Mapping[int, OpMatching]
) -> Iterator[Change]:
    index = {id(subgraph): number for number, subgraph in enumerate(after.subgraphs)}
    old_ones = {signature.key: signature for signature in before.signatures}
    new_ones = {signature.key: signature for signature in after.signatures}
    for key in dict.fromkeys([*old_ones, *new_ones]):
        old, new = old_ones.get(key), new_ones.get(key)
        what = f"signature {quote(key)}"
        if old is None or new is None:
            yield from value_changes(what, old, new, _signature_text)
            continue
        matching = matchings.get(index[id(new.subgraph)])
        for kind in ("inputs", "outputs"):
            was, now = getattr(old, kind), getattr(new, kind)
            if matching is None or not _are_same(was, now, matching):
                yield Change(f"{what} {kind}", _arguments_text(was), _arguments_text(now))


def _are_same(before: _Arguments, after: _Arguments, matching: OpMatching) -> bool:
    return [name for name, _ in before] == [name for name, _ in after] and all(
        matching.is_same(old, new) for (_, old), (_, new) in zip(before, after, strict=True)
    )


def _signature_text(signature: Signature) -> str:
    return f"({_arguments_text(signature.inputs)}) -> ({_arguments_text(signature.outputs)})"


def _arguments_text(arguments: _Arguments) -> str:
    return ", ".join(f"{quote(name)} = {quote(tensor.name)}" for name, tensor in arguments)
