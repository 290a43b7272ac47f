"""The types of a kernel's parameters, as far as its text tells them without a compiler."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from vendor_reference.custom_layers.kernel_source import (
    Token,
    certain_tokens,
    find_closing,
    find_kernels,
    split_arguments,
)

_QUALIFIERS = {
    "__global", "global", "__constant", "constant", "__local", "local", "__private", "private", "const",
    "volatile", "restrict", "__restrict",
}  # fmt: skip
_TYPE = re.compile(
    r"(half|float|double|bool|u?char|u?short|u?int|u?long)(2|3|4|8|16)?|signed|unsigned|void|size_t"
)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def types_in_text(given: str, texts: Sequence[str], kernel: str) -> Sequence[str] | None:
    """The type of each parameter, `half*`; "" where the text does not tell it, as where an `#if` decides.

    Args:
      given: what the compiler gets in front of the texts.
      texts: included files before those that include them.
      kernel: its name.

    Returns:
      None, if there is no such kernel, or several with different numbers of parameters.
    """
    tokens = certain_tokens(given, texts)
    named = _named_types(tokens)
    found: Sequence[str] | None = None
    for at in find_kernels(tokens):
        if tokens[at].text == kernel:
            parameters = split_arguments(tokens[at + 2 : find_closing(tokens, at + 1)])
            types = [_type(parameter, named) for parameter in parameters]
            if found is not None and len(found) != len(types):
                return None
            found = types if found is None else _common(found, types)
    return found


def _common(first: Sequence[str], second: Sequence[str]) -> Sequence[str]:
    return [one if one == other else "" for one, other in zip(first, second, strict=True)]


def _named_types(tokens: Sequence[Token]) -> Mapping[str, str]:
    """The types that `typedef` gives names to; "" for those that it gives in several ways."""
    named: dict[str, str] = {}
    for index, token in enumerate(tokens):
        if token.text == "typedef":
            end = next((i for i in range(index, len(tokens)) if tokens[i].text == ";"), index)
            name = tokens[end - 1].text
            found = _type(tokens[index + 1 : end], named)
            named[name] = found if named.setdefault(name, found) == found else ""
    return named


def _type(declaration: Sequence[Token], named: Mapping[str, str]) -> str:
    """The type in `const __global half* x`; "" for what is not known."""
    texts = [token.text for token in declaration]
    ends = next((i for i, text in enumerate(texts) if text == "["), len(texts))
    stars = texts[:ends].count("*") + (ends < len(texts))
    has_name = ends > 1 and _NAME.fullmatch(texts[ends - 1])
    words = [
        t for t in texts[: ends - 1 if has_name else ends] if t != "*" and t not in _QUALIFIERS
    ]
    if len(words) == 1 and words[0] in named:
        return named[words[0]] and named[words[0]] + "*" * stars
    is_known = words and all(map(_TYPE.fullmatch, words))
    return " ".join(words) + "*" * stars if is_known else ""
