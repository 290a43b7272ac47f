"""The completion script for bash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from litert.core.option import Flag

from .command_words import CommandWords, flag_words, is_list, is_number, takes_value

_SCRIPT = """\
# Completes command lines of @PROGRAMS@ in bash.
# `litert-npu completion bash` printed this script. Print this script again after an update.

# Sets the words that may follow a command ($1). A long flag that takes a value ends in =.
_litert_npu_words() {
  commands= flags= choices=
  case $1 in
@WORDS@
  esac
}

# Sets the kind and the choices of the value of a flag ($2) of a command ($1). File names have no kind.
_litert_npu_value() {
  kind= choices=
  case "$1 $2" in
@VALUES@
  esac
}

_litert_npu() {
  local commands flags choices kind
  local command=${COMP_WORDS[0]##*/} word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]}
  local flag= before= number=1 path
  COMPREPLY=()
  _litert_npu_words "$command"
  while ((number < COMP_CWORD)) && [[ " $commands " == *" ${COMP_WORDS[number]} "* ]]; do
    command+=" ${COMP_WORDS[number]}"
    _litert_npu_words "$command"
    ((++number))
  done
  # In most shells, = is a word of its own: see COMP_WORDBREAKS.
  if [[ $word == = ]]; then
    flag=$last word=
  elif [[ $last == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD-2]}
  elif [[ $word == --*=* ]]; then
    flag=${word%%=*} before=${word%%=*}= word=${word#*=}
  elif [[ " $flags " == *" $last= "* ]]; then
    flag=$last
  elif [[ $last == -? ]]; then
    _litert_npu_value "$command" "$last"
    flag=${kind:+$last}
  fi
  if [[ $flag ]]; then
    _litert_npu_value "$command" "$flag"
  elif [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$word"))
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then
      compopt -o nospace
    fi
    return
  elif [[ $commands ]]; then
    choices=$commands
  fi
  if [[ $choices ]]; then
    COMPREPLY=($(compgen -P "$before" -W "$choices" -- "$word"))
  elif [[ $kind == number ]]; then
    compopt +o default
  elif [[ $before || $kind == list && $word == *,* ]]; then
    if [[ $kind == list && $word == *,* ]]; then
      before+=${word%,*}, word=${word##*,}
    fi
    while read -r path; do
      if [[ -d $path ]]; then
        path+=/
        compopt -o nospace
      fi
      COMPREPLY+=("$before$path")
    done < <(compgen -f -- "$word")
  fi  # else the default: file names
}

complete -o default -F _litert_npu @PROGRAMS@
"""


def completion_script(programs: Mapping[str, CommandWords]) -> str:
    """Returns the completion script for `programs`, which is a result of `find_programs`."""
    return (
        _SCRIPT.replace("@WORDS@", "\n".join(_word_cases(programs)))
        .replace("@VALUES@", "\n".join(_value_cases(programs)))
        .replace("@PROGRAMS@", " ".join(name for name in programs if " " not in name))
    )


def _word_cases(programs: Mapping[str, CommandWords]) -> Iterator[str]:
    for name, words in programs.items():
        flags = [
            f"{word}{'=' if takes_value(flag) and word.startswith('--') else ''}"
            for flag in words.flags
            for word in flag_words(flag)
        ]
        yield f"  '{name}')"
        for variable, values in (
            ("commands", words.commands),
            ("flags", flags),
            ("choices", words.choices),
        ):
            if values:
                yield f"    {variable}='{' '.join(values)}'"
        yield "    ;;"


def _value_cases(programs: Mapping[str, CommandWords]) -> Iterator[str]:
    for name, words in programs.items():
        for flag in words.flags:
            for word in flag_words(flag) if takes_value(flag) else ():
                if value := _value(flag, word):
                    yield f"  '{name} {word}') {value} ;;"


def _value(flag: Flag, word: str) -> str:
    """Returns the assignments that describe the value of a flag; "" for a file name after a long flag."""
    if flag.choices:
        return f"kind=choice choices='{' '.join(flag.choices)}'"
    is_long = word.startswith("--")
    kind = "number" if is_number(flag) else "list" if is_list(flag) else "" if is_long else "file"
    return f"kind={kind}" if kind else ""
