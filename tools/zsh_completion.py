"""The completion script for zsh."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from litert.core.option import Flag

from .command_words import CommandWords, flag_words, is_list, is_number, takes_value

_SCRIPT = """\
#compdef @PROGRAMS@
# Completes command lines of @PROGRAMS@ in zsh.
# `litert-npu completion zsh` printed this script. Print this script again after an update.

# Completes what follows the name of a command ($1).
_litert_npu_command() {
  local -a commands
  case $1 in
@CASES@
  esac
}

# Completes the name of a command of a group ($1), or what follows that name.
_litert_npu_group() {
  if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then
    _describe command commands
  elif ((CURRENT > 2)); then
    shift words
    ((CURRENT--))
    _litert_npu_command "$1 $words[1]"
  else
    return 1
  fi
}

_litert_npu() {
  _litert_npu_command ${words[1]:t}
}

if [[ $funcstack[1] == _litert_npu || $zsh_eval_context[-1] == loadautofunc ]]; then
  _litert_npu "$@"
else
  compdef _litert_npu @PROGRAMS@
fi
"""


def completion_script(programs: Mapping[str, CommandWords]) -> str:
    """Returns the completion script for `programs`, which is a result of `find_programs`."""
    return _SCRIPT.replace("@CASES@", "\n".join(_cases(programs))).replace(
        "@PROGRAMS@", " ".join(name for name in programs if " " not in name)
    )


def _cases(programs: Mapping[str, CommandWords]) -> Iterator[str]:
    for name, words in programs.items():
        yield f"  {_quoted(name)})"
        flags = [spec for flag in words.flags for spec in _flag_specs(flag)]
        if words.commands:
            yield "    commands=("
            yield from (f"      {_quoted(f'{c}:{text}')}" for c, text in words.commands.items())
            yield "    )"
            yield f"    _litert_npu_group {_quoted(name)} || _arguments \\"
        else:
            values = f":value:({' '.join(words.choices)})" if words.choices else "*:file:_files"
            flags.append(_quoted(values))
            yield "    _arguments \\"
        yield " \\\n".join(f"      {spec}" for spec in flags)
        yield "    ;;"


def _flag_specs(flag: Flag) -> Iterator[str]:
    """Yields the arguments of zsh's `_arguments` for the ways to write a flag."""
    text = re.sub(r"([\[\]:\\])", r"\\\1", re.split(r"(?<=[.;:]) ", flag.help)[0].rstrip(".;:"))
    repeated = "*" if flag.is_repeated else ""
    for word in flag_words(flag):
        if not takes_value(flag):
            yield _quoted(f"{word}[{text}]")
            continue
        sign = "=" if word.startswith("--") else ""
        yield _quoted(f"{repeated}{word}{sign}[{text}]:{flag.name}:{_value(flag)}")


def _value(flag: Flag) -> str:
    """Returns the action of zsh's `_arguments` that completes the value of a flag."""
    if flag.choices:
        return f"({' '.join(flag.choices)})"
    return " " if is_number(flag) else "_sequence _files" if is_list(flag) else "_files"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
