"""Sets the local size in a layer's description; the rest of the description's text stays unchanged."""

from __future__ import annotations

import json
import os
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.atomic_file import temporary_folder
from litert.model.blob import MappedFile
from litert.model.graph import Op
from vendor_reference.authoring.compiled_layer import LayerOptions, described_names, load_layer
from vendor_reference.authoring.subject import check_alike
from vendor_reference.compiler.simplegpu_defines import layer_defines
from vendor_reference.custom_layers.value_sources import OpValues

_OPTION = "PARAM_"
_ARRAY = r"\[[^\[\]]*\]"
_JSON_LOCAL = re.compile(rf'"local"\s*:\s*{_ARRAY}')
_JSON_LOCAL_AND_COMMA = re.compile(rf',\s*"local"\s*:\s*{_ARRAY}|"local"\s*:\s*{_ARRAY}\s*,?\s*')
_JSON_GLOBAL = re.compile(rf'"global"\s*:\s*{_ARRAY}')
_JSON_WORK_SIZES = re.compile(r'"work_sizes"\s*:\s*\{')
_JSON_LAYERS = re.compile(r'"layers"\s*:\s*\[')
_JSON_GAP = ", \t\r\n"
_XML_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_XML_LAYER = re.compile(r"<CustomLayer\b([^>]*)>.*?</CustomLayer\s*>", re.DOTALL)
_XML_NAME = re.compile(r"""\bname\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_XML_SIZES = re.compile(r"<WorkSizes\b[^>]*>")
_XML_LOCAL = re.compile(r"""\s+local\s*=\s*(?:"[^"]*"|'[^']*')""")
_XML_END = re.compile(r"[ \t]*</CustomLayer\s*>\Z")


@contextmanager
def copy_with_local_size(
    options: LayerOptions, op: Op, sizes: Sequence[int]
) -> Iterator[LayerOptions]:
    """Creates a temporary copy of a layer with another local size; the copy is removed when the context ends.

    Raises:
      LiteRtError: UNSUPPORTED, if this kind of description cannot contain a local size.
    """
    # A reader of the description also reads the files of all its other layers.
    names = [op.name, *described_names(options.path, options.compiler.asset_root)]
    loaded = [load_layer(options, name) for name in names]
    files = {file.path: file.data for layer, _ in loaded for file in layer.files()}
    _, asset = loaded[0]
    path, new_text = find_description(options, [op])
    description = os.path.join(os.path.dirname(asset.path), os.path.basename(path))
    files[description] = edit_local_size(path, op.name, sizes, new_text)
    with temporary_folder() as folder:
        for path, data in files.items():
            target = os.path.join(folder, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as stream:
                stream.write(data)
        compiler = options.compiler
        if compiler.asset_root:
            compiler = replace(compiler, asset_root=folder)
        yield replace(options, path=os.path.join(folder, description), compiler=compiler)


def find_description(options: LayerOptions, ops: Sequence[Op]) -> tuple[str, str]:
    """Returns the path of the description in which to set the local size; for a new file, also its text.

    For a `.cl` file, the description is a new `.json` file in the same folder. It states what the `.cl` file alone
    implies for these ops.

    Raises:
      LiteRtError: ALREADY_EXISTS, if the new `.json` file exists already; UNSUPPORTED, for ops with different
        options.
    """
    stem, suffix = os.path.splitext(options.path)
    if suffix.lower() != ".cl":
        return options.path, ""
    path = f"{stem}.json"
    if os.path.lexists(path):
        what = (
            "a .cl file cannot contain a local size, and a new description with the local size cannot be written, "
            f"because {path} already exists"
        )
        hint = f"If {path} describes this kernel, tune {path}; otherwise, rename or move {path}."
        raise LiteRtError(Status.ALREADY_EXISTS, what, options.path, hint)
    layer, _ = load_layer(options, ops[0].name)
    names = [
        tuple(
            name
            for name, _ in layer_defines(layer, op, OpValues(op), [])
            if name.startswith(_OPTION)
        )
        for op in ops
    ]
    check_alike(
        names,
        "layer tune must describe the .cl file in a new .json file, but the ops have different options, and one "
        "description names the same options for all ops",
        options.path,
    )
    fields: dict[str, object] = {"version": 1, "sources": [os.path.basename(options.path)]}
    if names[0]:
        fields["defines"] = [{"name": n, "option": n.removeprefix(_OPTION)} for n in names[0]]
    return path, json.dumps(fields, indent=2) + "\n"


def edit_local_size(path: str, op_name: str, sizes: Sequence[int], new_text: str = "") -> bytes:
    """Returns a description's bytes with another local size; `new_text` is the text of a new file.

    Raises:
      LiteRtError: UNSUPPORTED, if this kind of description cannot contain a local size; INVALID_ARGUMENT, if the
        file is not text.
    """
    suffix = os.path.splitext(path)[1].lower()
    if new_text:
        return set_local_size(new_text, suffix, op_name, sizes).encode()
    if suffix not in (".json", ".xml"):
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"a {f'{suffix} file' if suffix else 'file without a suffix'} cannot contain a local size",
            path,
            "Describe an OpenCL kernel in a .json file in the same folder, and tune this .json file. litert-npu "
            "layer new --kind=json writes an example.",
        )
    with MappedFile(path) as file:
        data = bytes(file.view)
    text = data.removeprefix(BOM_UTF8)
    try:
        edited = set_local_size(text.decode(), suffix, op_name, sizes).encode()
    except UnicodeDecodeError as error:
        at = error.start + len(data) - len(text)
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the text is not UTF-8 at byte {at}",
            path,
            "Save the file as UTF-8.",
        ) from error
    except LiteRtError as error:
        raise LiteRtError(error.status, error.what, path, error.hint) from error
    return data.removesuffix(text) + edited


def set_local_size(text: str, suffix: str, op_name: str, sizes: Sequence[int]) -> str:
    """Returns the text of a `.json` or `.xml` description with another local size; `()` lets the driver choose.

    Raises:
      LiteRtError: UNSUPPORTED, for a description that cannot contain a local size.
    """
    if suffix == ".json":
        return _set_in_json(text, op_name, list(sizes))
    return _set_in_xml(text, op_name, ",".join(map(str, sizes)))


def _set_in_json(text: str, op_name: str, sizes: list[int]) -> str:
    layers = json.loads(text).get("layers")
    if layers is None:
        return _set_in_json_layer(text, sizes)
    names = [layer["name"] for layer in layers]
    begin = _JSON_LAYERS.search(text)
    if not begin or (len(names) > 1 and op_name not in names):
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"the local size cannot be set, because the description contains no layer for op '{op_name}'",
        )
    index = names.index(op_name) if len(names) > 1 else 0
    start = end = begin.end()
    for _ in names[: index + 1]:
        start = end + len(text[end:]) - len(text[end:].lstrip(_JSON_GAP))
        _, end = json.JSONDecoder().raw_decode(text, start)
    return text[:start] + _set_in_json_layer(text[start:end], sizes).rstrip() + text[end:]


def _set_in_json_layer(text: str, sizes: list[int]) -> str:
    wanted = json.loads(text)
    fields = wanted.setdefault("work_sizes", {})
    had = fields.pop("local", None)
    if sizes:
        fields["local"] = sizes
    elif not fields:
        del wanted["work_sizes"]
    member = f'"local": {json.dumps(sizes)}'
    if had is not None and sizes:
        edited = _JSON_LOCAL.sub(member, text, count=1)
    elif had is not None:
        edited = _JSON_LOCAL_AND_COMMA.sub("", text, count=1)
    elif not sizes:
        return text
    elif "global" in fields:
        edited = _JSON_GLOBAL.sub(lambda found: f"{found[0]}, {member}", text, count=1)
    elif _JSON_WORK_SIZES.search(text):
        comma = ", " if len(fields) > 1 else ""
        edited = _JSON_WORK_SIZES.sub(lambda found: f"{found[0]}{member}{comma}", text, count=1)
    else:
        edited = re.sub(r"\s*\}\s*\Z", f',\n  "work_sizes": {{{member}}}\n}}\n', text)
    with suppress(ValueError):
        if json.loads(edited) == wanted:
            return edited
    return json.dumps(wanted, indent=2) + "\n"


def _set_in_xml(text: str, op_name: str, sizes: str) -> str:
    masked = _XML_COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    layers = list(_XML_LAYER.finditer(masked))
    named = [layer for layer in layers if _layer_name(layer[1]) == op_name]
    if not layers or (len(layers) > 1 and not named):
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"the local size cannot be set, because the description contains no <CustomLayer> for op '{op_name}'",
        )
    begin, end = (named or layers)[-1].span()  # if a name occurs twice, the last one counts
    found = _XML_SIZES.search(masked, begin, end)
    if found:
        tag = _XML_LOCAL.sub("", text[found.start() : found.end()])
        if sizes:
            close = "/>" if tag.endswith("/>") else ">"
            tag = f'{tag.removesuffix(close).rstrip()} local="{sizes}"{close}'
        return text[: found.start()] + tag + text[found.end() :]
    if not sizes:
        return text
    last = _XML_END.search(masked[:end])
    assert last is not None
    line = f'  <WorkSizes local="{sizes}"/>\n'
    return text[: last.start()] + line + text[last.start() :]


def _layer_name(attributes: str) -> str:
    found = _XML_NAME.search(attributes)
    return (found[1] or found[2] or "") if found else ""
