"""Declares options.

Each option is one field of a dataclass of options, with its flag and its further destinations.

```python
check_kernels: bool = option(
    Flag("check_kernels", True, "Build each kernel once, so that its errors show now."),
    Section.LAYERS,
    Goes.LOAD | Goes.ENVIRONMENT | Goes.PAYLOAD | Goes.MANIFEST,
)
```

Everything else is derived from the declaration: flags of commands, options for loading a model, the
key of the compile cache, environment options of exported plugins, options of plugins in C, and the
manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, fields, is_dataclass
from enum import IntEnum, IntFlag
from typing import Any, NamedTuple

_KEY = "option"


class Section(IntEnum):
    """Sections of `apply_plugin --help`; within a section, flags appear in the order of the fields."""

    TARGET = 0
    ASSETS = 1
    PLUGINS = 2
    PARTITIONS = 3
    LAYERS = 4
    TRANSFORMATIONS = 5
    LAYOUT = 6
    DUMPS = 7
    DUMP_FOLDER = 8


class Goes(IntFlag):
    """Destinations of an option besides the command line of `apply_plugin`.

    Attributes:
      LOAD: `litert.Options` has a field of the same name, `litert-npu run` and `benchmark`
        have the flag, and the compile cache keeps one result for each value.
      ENVIRONMENT: an exported plugin reads the option from `LITERT_NPU_OPTIONS` and from its host's
        opaque options.
      PAYLOAD: the host writes the option into the opaque options for a plugin in C.
      MANIFEST: the compiled file records values that differ from the default. The value must not
        contain a path.
    """

    NOWHERE = 0
    LOAD = 1
    ENVIRONMENT = 2
    PAYLOAD = 4
    MANIFEST = 8


class Flag(NamedTuple):
    """A flag of a command.

    This class is a named tuple, because a dataclass takes longer to make and `--help` waits for all
    declarations.

    Attributes:
      name: Name of the flag, without the dashes.
      default: Default value, which also gives the type: a switch, a number, a text, or a sequence
        of texts; None for an optional whole number.
      help: Help text of the flag.
      choices: Texts that are allowed; empty for any text.
      least: Smallest number that is allowed.
      is_repeated: Whether each text of a sequence has a flag of its own; otherwise commas separate
        the texts.
      is_duration: Whether the number is a time limit in seconds.
      short_name: One-letter form of the flag; "" for none.
    """

    name: str
    default: Any
    help: str
    choices: Sequence[str] = ()
    least: float | None = None
    is_repeated: bool = False
    is_duration: bool = False
    short_name: str = ""


class Option(NamedTuple):
    """The declaration of an option in a field.

    Attributes:
      field: Name of the field.
      flag: Flag of `apply_plugin`.
      section: Section of the help that lists the flag.
      goes: Further destinations of the option.
      default: Default value of the field.
      read: Function that converts the flag's value to the field's value.
      write: Function that converts the field's value to texts.
    """

    field: str
    flag: Flag
    section: Section
    goes: Goes
    default: Any
    read: Callable[[Any], Any]
    write: Callable[[Any], Sequence[str]]

    def read_flag(self, value: Any) -> Any:
        """Returns the field's value; the default, if the flag holds a number that was left out."""
        return self.default if value is None else self.read(value)


def _same(value: Any) -> Any:
    return value


def _texts(value: Any) -> Sequence[str]:
    if isinstance(value, bool):
        return [str(value).lower()]
    return [str(value)] if isinstance(value, str | int | float) else [str(item) for item in value]


def option(
    flag: Flag,
    section: Section,
    goes: Goes = Goes.NOWHERE,
    *,
    default: Any = None,
    read: Callable[[Any], Any] = _same,
    write: Callable[[Any], Sequence[str]] = _texts,
) -> Any:
    """Declares a dataclass field that is an option; see `Option`.

    Args:
      flag: Flag that sets the field.
      section: Section of the help that lists the flag.
      goes: Further destinations of the option.
      default: Default value of the field, if the flag has another default.
      read: Function that converts the flag's value, if the field's value differs.
      write: Function that converts the field's value, if the value is not a switch, number, text or
        sequence.
    """
    value = flag.default if default is None else default
    declared = {_KEY: (flag, section, goes, value, read, write)}
    if isinstance(value, Mapping):  # dataclasses treat such a default as mutable
        return field(default_factory=lambda: value, metadata=declared)
    return field(default=value, metadata=declared)


def options_of(*kinds: Any) -> list[Option]:
    """Returns the options that dataclasses or instances declare, by section, then in declaration order."""
    found = [
        Option(member.name, *member.metadata[_KEY])
        for kind in kinds
        for member in fields(kind)
        if _KEY in member.metadata
    ]
    return sorted(found, key=lambda option: option.section)


def holds_path(text: str) -> bool:
    """Returns whether an option's value may be a path.

    Such options are neither written to files nor read from files.
    """
    return not {"/", "\\"}.isdisjoint(text)


def given_flags(options: Any, goes: Goes) -> Iterator[tuple[str, Sequence[str]]]:
    """Returns the flags for a destination, with their values as texts, if the values differ from the defaults.

    Args:
      options: An object with declared fields; a field may itself hold such an object.
      goes: Destination.
    """
    for declared in options_of(options):
        value = getattr(options, declared.field)
        if goes in declared.goes and value != declared.default and (texts := declared.write(value)):
            yield declared.flag.name, texts
    for member in fields(options):
        value = getattr(options, member.name)
        if _KEY not in member.metadata and is_dataclass(value):
            yield from given_flags(value, goes)


def values_by_field(declared: Sequence[Option], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of the fields, from the values of flags by name.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, if an option does not allow the value.
    """
    return {option.field: option.read_flag(flags[option.flag.name]) for option in declared}
