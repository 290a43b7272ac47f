"""Loads extension folders, with Python files in `ops/`, `front/`, `front/tflite/`, `middle/` and `back/`.

Extensions need no registration: the loader finds the classes in a file that derive from `Transformation`, `Op` or
`Extractor`. Files and classes whose names begin with `_` are helpers, and not extensions. Each extension folder is
a Python package, so that `front/my_replacement.py` can contain `from ..ops.my_op import MyOp`. The built-in
transformations are loaded in the same way.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from compiler_plugin.transform_options import Phase
from compiler_plugin.transformations.counterparts import find_counterpart
from compiler_plugin.transformations.custom_ops import Extractor
from compiler_plugin.transformations.op import Op
from compiler_plugin.transformations.op_request import refused
from compiler_plugin.transformations.transformation import Transformation, find_rules
from litert.core.errors import LiteRtError, describe, file_error
from litert.core.quoting import name_text
from litert.core.status import Status
from litert.host.extensions import (
    check_unique,
    file_and_line,
    find_place,
    load_module,
    open_package,
)

if TYPE_CHECKING:
    from types import ModuleType

_PACKAGE = "compiler_plugin.transformations.builtin"
_FOLDERS: Mapping[str, Phase | None] = {
    "ops": None,
    "front": Phase.FRONT,
    "front/tflite": Phase.FRONT,
    "middle": Phase.MIDDLE,
    "back": Phase.BACK,
}
ALL = "all"
RESERVED = (ALL, *(phase.value for phase in Phase))
_BASES: Mapping[str, str] = {
    "find_and_replace_pattern": "Transformation",
    "replace_op": "OpReplacement",
    "rewrite": "PatternReplacement",
    "replace_sub_graph": "SubgraphReplacement",
    "replace_pattern": "FrontReplacementPattern, MiddleReplacementPattern or BackReplacementPattern",
    "transform_graph": "GeneralReplacement",
    "extract": "Extractor",
}
"""For each function that an extension defines, the base class that calls the function."""


@dataclass(frozen=True, slots=True)
class ExtensionOrigin:
    """The file, folder and phase that an extension comes from.

    Attributes:
      phase: Phase that the extension's subfolder belongs to; None for the subfolder `ops`.
      path: Path of the extension's file; for builtin extensions, the path within the package.
      folder: Extension folder that contains the file.
      is_builtin: Whether the extension is built in.
    """

    phase: Phase | None
    path: str
    folder: str
    is_builtin: bool


@dataclass(frozen=True, slots=True)
class LoadedTransformation:
    """An instance of a transformation class, and the file that the class comes from."""

    transformation: Transformation
    origin: ExtensionOrigin

    @property
    def name(self) -> str:
        """The name of the transformation in flags and reports."""
        return self.transformation.name

    @property
    def phase(self) -> Phase:
        """The phase of the transformation, which its folder determines."""
        assert self.origin.phase is not None  # as loading has checked
        return self.origin.phase


@dataclass(frozen=True, slots=True)
class Extensions:
    """The extensions that were loaded from some folders.

    Attributes:
      transformations: Transformations; no two of them have the same name.
      ops, extractors: Classes of ops, for an `OpLibrary`.
      notes: Sentences for the report about files and classes that were ignored.
    """

    transformations: list[LoadedTransformation] = field(default_factory=list)
    ops: list[type[Op]] = field(default_factory=list)
    extractors: list[type[Extractor]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def load_extensions(folders: Sequence[str]) -> Extensions:
    """Loads the built-in transformations and then the extensions in the user's folders.

    Raises:
      LiteRtError: NOT_FOUND, if a folder does not exist or contains no extensions; DYNAMIC_LOADING, if a file
        cannot be imported or a class cannot be used; ALREADY_EXISTS, if two extensions have the same name.
    """
    found = Extensions()
    ours = os.path.join(os.path.dirname(__file__), "builtin")
    _load_folder(ours, _PACKAGE, found)
    for folder in {os.path.realpath(folder): folder for folder in folders}.values():
        try:
            package = open_package(folder)
        except LiteRtError as error:
            if "," not in folder:
                raise
            hint = "A comma does not separate folders: give --extensions once for each folder."
            raise LiteRtError(error.status, error.what, error.where, hint) from None
        found.notes.extend(_check_parts(folder))
        _load_folder(folder, package, found)
    check_names(found.transformations)
    return found


def check_names(loaded: Sequence[LoadedTransformation]) -> None:
    """Refuses a transformation if its name is in use, or has a special meaning in `--transformations`."""
    for item in loaded:
        if item.name in RESERVED:
            raise LiteRtError(
                Status.ALREADY_EXISTS,
                f"a transformation cannot have the name '{item.name}', because --transformations={item.name} "
                "selects several transformations",
                item.origin.path,
                "Rename the transformation.",
            )
    check_unique(
        [(item.name, item.origin.path) for item in loaded], "Rename one of the transformations."
    )


def _check_parts(folder: str) -> Iterator[str]:
    """Yields sentences about the ignored parts of a folder; refuses a folder without subfolders for extensions."""
    if not any(os.path.isdir(os.path.join(folder, part)) for part in _FOLDERS):
        raise LiteRtError(
            Status.NOT_FOUND,
            "the extension folder has none of the subfolders ops, front, middle and back",
            folder,
            "Put each transformation into the subfolder of its phase (front, middle or back), and each class of "
            "an op into the subfolder ops.",
        )
    for parent in ("", *_FOLDERS):
        for name in sorted(_list(os.path.join(folder, parent))):
            path = os.path.join(folder, parent, name)
            is_part = os.path.relpath(path, folder).replace(os.sep, "/") in _FOLDERS
            if name[0] in "._" or is_part or not os.path.isdir(path):
                continue
            if any(entry.endswith(".py") for entry in _list(path)):
                if parent == "front":
                    reason = "because it is for a framework other than TFLite"
                else:
                    reason = f"because only these folders are read: {', '.join(_FOLDERS)}"
                yield f"folder {path} was ignored, {reason}"


def _load_folder(folder: str, package: str, found: Extensions) -> None:
    for part, phase in _FOLDERS.items():
        below = os.path.join(folder, *part.split("/"))
        for name in sorted(_list(below)):
            path = os.path.join(below, name)
            stem, suffix = os.path.splitext(name)
            if suffix != ".py" or name[0] in "._" or not os.path.isfile(path):
                continue
            if not stem.isidentifier():
                raise LiteRtError(
                    Status.DYNAMIC_LOADING,
                    f"'{name_text(name)}' is not a valid file name for a Python module",
                    path,
                    "Rename the file: use letters, digits and underscores, and no digit at the "
                    "beginning.",
                )
            is_builtin = package == _PACKAGE
            shown = f"builtin/{part}/{name}" if is_builtin else path
            module = _load_module(f"{package}.{part.replace('/', '.')}.{stem}", path, folder)
            origin = ExtensionOrigin(phase, shown, folder, is_builtin)
            if not _take_extensions(module, origin, found):
                found.notes.append(f"file {shown} defines no transformation, op or extractor")


def _load_module(name: str, path: str, folder: str) -> ModuleType:
    try:
        return load_module(name, path, folder)
    except LiteRtError as error:
        hint = find_counterpart(error.__cause__)
        if not hint:
            raise
        raise LiteRtError(error.status, error.what, error.where, hint) from error.__cause__


def _take_extensions(module: ModuleType, origin: ExtensionOrigin, found: Extensions) -> int:
    """Adds the extensions in a module to `found`, and returns their number."""
    classes = _own_classes(module)
    extensions = [cls for cls in classes if issubclass(cls, (Transformation, Op, Extractor))]
    for cls in classes:
        if cls not in extensions:
            _check_helper(cls, origin)
    for cls in extensions:
        if inspect.isabstract(cls) and any(cls in other.__mro__[1:] for other in classes):
            continue  # a base class of others in the file
        _check_place(cls, origin)
        if issubclass(cls, Transformation):
            transformation = _create_transformation(cls, origin)
            found.transformations.append(LoadedTransformation(transformation, origin))
        elif issubclass(cls, Op):
            found.ops.append(cls)
        else:
            found.extractors.append(cls)
    return len(extensions)


def _list(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise file_error(error, "cannot read the folder", folder) from error


def _own_classes(module: ModuleType) -> list[type]:
    """Returns the classes that a module defines, in source order, without names that begin with `_`."""
    return [
        value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    ]


def _check_helper(cls: type, origin: ExtensionOrigin) -> None:
    """Refuses a class that has a method of extensions, but no base class of extensions: it would never run."""
    method = next((method for method in _BASES if callable(getattr(cls, method, None))), "")
    if method:
        module = "compiler_plugin.transformations"
        module += ".model_optimizer" if method == "replace_pattern" else ""
        raise LiteRtError(
            Status.DYNAMIC_LOADING,
            f"function {method} of class {cls.__name__} would never run, because the class has no base class "
            "for extensions",
            origin.path,
            f"Derive the class from {_BASES[method]} (module {module}). If the class is only a helper, begin its "
            "name with an underscore.",
        )


def _check_place(cls: type, origin: ExtensionOrigin) -> None:
    """Refuses an extension that lacks a method or is in the wrong folder."""
    what = hint = ""
    if inspect.isabstract(cls):
        names = ", ".join(sorted(getattr(cls, "__abstractmethods__", ())))
        what = f"class {cls.__name__} does not define {names}"
        hint = f"Define {names} in the class. If this is only a base class, begin its name with an underscore."
    elif issubclass(cls, Transformation) and origin.phase is None:
        what = f"class {cls.__name__} is a transformation, but the file is in the folder ops"
        hint = "Move the file to the folder of the transformation's phase: front, middle or back."
    elif issubclass(cls, Transformation) and cls.phase not in (None, origin.phase):
        phase = cls.phase.value
        what = f"class {cls.__name__} is for the {phase} phase, but the file is not in the folder {phase}"
        hint = f"Move the file to the folder {phase}, or derive the class from the base class of another phase."
    elif issubclass(cls, Extractor) and origin.phase is not Phase.FRONT:
        what = f"class {cls.__name__} is an extractor, but the file is not in the folder front or front/tflite"
        hint = "Move the file to the folder front/tflite."
    if what:
        raise LiteRtError(Status.DYNAMIC_LOADING, what, origin.path, hint)


def _create_transformation(cls: type[Transformation], origin: ExtensionOrigin) -> Transformation:
    """Creates a transformation, and checks its ordering rules and conditions."""
    try:
        transformation = cls()
        find_rules(transformation)
        conditions = cls.graph_condition
        if not isinstance(conditions, (list, tuple)) or not all(map(callable, conditions)):
            raise refused(
                f"graph_condition of class {cls.__name__} must be a list of functions, but is {conditions!r:.60}",
                "Set graph_condition to a list of functions of the graph, for example "
                "[lambda graph: graph.static_shape].",
            )
    except LiteRtError as error:
        raise LiteRtError(error.status, error.what, origin.path, error.hint) from error
    except (Exception, SystemExit) as error:  # a foreign class may raise anything
        place = find_place(error, origin.folder)
        raise LiteRtError(
            Status.DYNAMIC_LOADING,
            f"the call {cls.__name__}() fails: {describe(error)}",
            file_and_line(origin.path, place),
            "Fix the class so that this call without arguments works, or remove the class from the file.",
        ) from error
    return transformation
