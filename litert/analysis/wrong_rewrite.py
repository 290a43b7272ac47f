"""Finds ops that transformations replaced wrongly, and writes the ops and their replacement as two models."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from litert.analysis.compare_options import CompareOptions, Sample
from litert.analysis.comparing import compare_transformed
from litert.analysis.comparison import Blamed, ModelComparison
from litert.analysis.part_file import PartEnds, find_ends, name_tensors, write_part
from litert.analysis.reference_run import ReferenceRun
from litert.analysis.source_graph import SourceGraph
from litert.analysis.stock_run import Array
from litert.analysis.trial import match_models
from litert.analysis.wrong_part import NoPartError, WrongPart, check_blamed, expect


def find_wrong_rewrite(
    model_path: str,
    source: SourceGraph,
    comparison: ModelComparison,
    samples: Sequence[Sample],
    options: CompareOptions,
    folder: str,
) -> WrongPart:
    """Finds the ops that transformations replaced wrongly.

    Args:
      model_path: Path of the transformed model.
      source: The model before the transformations.
      comparison: Report of the comparison of both models.
      samples: Input samples that were compared.
      options: Options of the comparison.
      folder: Folder for temporary files. The files of the two models stay in this folder.

    Raises:
      NoPartError: No ops were replaced wrongly.
    """
    blamed, model = check_blamed(comparison), SourceGraph(model_path, source.key)
    places = {ours: theirs for theirs, ours in match_models(source, model).items()}
    wrong = next(place for place in places if _is_blamed(source, place, blamed))
    places |= {place: model.inputs[name] for name, place in source.inputs.items()}
    ours, theirs = source.region(wrong, places), model.region(places[wrong], places.values())
    back = {their: our for our, their in places.items()}
    read = set(find_ends(source, ours).inputs.values())
    read |= {back[place] for place in find_ends(model, theirs).inputs.values()}
    ends = PartEnds(
        name_tensors(source, sorted(read), source.inputs),
        name_tensors(source, [wrong], source.outputs),
    )
    part, rewritten = (os.path.join(folder, name) for name in ("part.tflite", "transformed.tflite"))
    write_part(source, ours, ends, part)
    write_part(model, theirs, ends.moved(places), rewritten)
    options, sample = replace(options, golden={}), samples[blamed.sample]
    values = _run(model, sample.inputs, [places[place] for place in read], options, folder)
    inputs = {name: values[places[place]] for name, place in ends.inputs.items()}
    part_graph = SourceGraph(part)
    samples = [Sample(sample.origin, inputs)]
    if compare_transformed(part_graph, rewritten, samples, options).blamed is None:
        raise NoPartError(
            "the replacement of these ops gives right results when it is run separately"
        )
    return WrongPart(
        part,
        rewritten,
        blamed.ops,
        blamed.op,
        True,
        inputs,
        expect(part_graph, inputs, options, folder),
        0,
    )


def _is_blamed(source: SourceGraph, place: int, blamed: Blamed) -> bool:
    number = source.op_number(source.op_places[source.producer(place)])
    return (number, source.tensor(place).name) == (blamed.op.index, blamed.tensor)


def _run(
    model: SourceGraph,
    inputs: Mapping[str, Array],
    places: Sequence[int],
    options: CompareOptions,
    folder: str,
) -> dict[int, Array]:
    """Computes the values of a model's tensors by place."""
    given = {model.inputs[name]: array for name, array in inputs.items()}
    computed = [place for place in places if place not in given]
    return ReferenceRun(model, (), computed, options.reference, folder).run(given, {}) | given
