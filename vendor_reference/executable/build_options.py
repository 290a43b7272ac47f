"""Checks a layer's build options: only options of the OpenCL standard and options for warnings are allowed.

OpenCL compilers have many more options. For example, `-I` and `-include` make the compiler read files, and
`-Xclang` can have any effect.
"""

from __future__ import annotations

import re
from itertools import pairwise

_DEFINITION = r"[A-Za-z_]\w*(?:\([\w,.]*\))?(?:=\S*)?"
_DEFINE = "-D"
_ALLOWED = re.compile(
    rf"-D{_DEFINITION}|-cl-[A-Za-z0-9-]+(?:=[\w.+-]+)?|-w|-g|-O[0-3]|-W[a-z][a-z0-9-]*(?:=[a-z0-9-]+)?",
    re.ASCII,
)
_DEFINED = re.compile(_DEFINITION, re.ASCII)
_ASSEMBLY = re.compile(r"\b(?:asm|__asm|__asm__)\b")
"""Inline assembly, which build options must not contain, since `-D` macros precede a driver's guard."""


def find_option_mistake(options: str) -> str:
    """Returns the mistake in build options; "" if the build options are valid.

    Quoted text is allowed only in the form `-DNAME="text"`.
    """
    words = options.split()
    for before, word in pairwise(["", *words, ""]):
        if _ASSEMBLY.search(word):
            return f"build option '{word}' is not allowed, because it contains inline assembly"
        is_allowed = _DEFINED.fullmatch(word) if before == _DEFINE else _ALLOWED.fullmatch(word)
        if before == _DEFINE and not is_allowed:
            return f"NAME or NAME=value must follow build option {_DEFINE}"
        if word and word != _DEFINE and not is_allowed:
            return (
                f"build option '{word}' is not allowed; allowed are -DNAME=value, -cl-..., -w, -W..., -g "
                "and -O0 to -O3"
            )
    return ""
