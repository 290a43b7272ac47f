"""Declares options.

Each option is a field of a dataclass. The field declares the option's flag, and all other places where the option
appears.

```python
check_kernels: bool = option(
    Flag("check_kernels", True, "Build each kernel once, so that errors appear now."),
    Section.LAYERS,
    Goes.LOAD | Goes.ENVIRONMENT | Goes.PAYLOAD | Goes.MANIFEST,
)
```

All uses of options are derived from these declarations: flags of commands, options for loading a model, the key of
the compile cache, environment options of exported plugins, options of plugins in C, and the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, fields, is_dataclass
from enum import IntEnum, IntFlag
from typing import Any, NamedTuple

_KEY = "option"


class Section(IntEnum):
    """Sections of the output of `apply_plugin --help`; a section lists flags in the order of the fields."""

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
    """Places where an option appears in addition to the command line of `apply_plugin`.

    Attributes:
      LOAD: `litert.Options` has a field with the option's name, the commands `litert-npu run` and `litert-npu
        benchmark` have the flag, and the compile cache keeps a separate result for each value.
      ENVIRONMENT: an exported plugin reads the option from the environment variable `LITERT_NPU_OPTIONS` and from
        the opaque options of its host.
      PAYLOAD: the host writes the option into the opaque options for a plugin in C.
      MANIFEST: the manifest of the compiled file records the option if its value differs from the default. The
        value of an option in the manifest must not contain a path.
    """

    NOWHERE = 0
    LOAD = 1
    ENVIRONMENT = 2
    PAYLOAD = 4
    MANIFEST = 8


class Flag(NamedTuple):
    """A command-line flag.

    `Flag` is a named tuple, because a dataclass takes longer to define, and would slow down `--help`.

    Attributes:
      name: Name of the flag, without the dashes.
      default: Default value of the flag, which also determines the flag's type: a switch, a number, a text, or a
        sequence of texts; None stands for an optional whole number.
      help: Help text of the flag.
      choices: Allowed values of a text; empty if any text is allowed.
      least: Smallest allowed value of a number.
      most: Largest allowed value of a number.
      is_repeated: Whether a sequence of texts is given by repeating the flag; otherwise, commas separate the
        texts.
      is_duration: Whether the flag's number is a time limit in seconds.
      short_name: One-letter form of the flag; "" for none.
    """

    name: str
    default: Any
    help: str
    choices: Sequence[str] = ()
    least: float | None = None
    most: float | None = None
    is_repeated: bool = False
    is_duration: bool = False
    short_name: str = ""


class Option(NamedTuple):
    """The declaration of an option by a dataclass field.

    Attributes:
      field: Name of the dataclass field.
      flag: Flag of `apply_plugin` that sets the option.
      section: Section of the help output that lists the flag.
      goes: Places where the option appears in addition to the command line.
      default: Default value of the dataclass field.
      read: Function that converts the flag's value to the value of the dataclass field.
      write: Function that converts the value of the dataclass field to texts.
    """

    field: str
    flag: Flag
    section: Section
    goes: Goes
    default: Any
    read: Callable[[Any], Any]
    write: Callable[[Any], Sequence[str]]

    def read_flag(self, value: Any) -> Any:
        """Returns the field's value for a value of the flag; if an optional number is omitted, the default."""
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
    """Declares a dataclass field as an option; see `Option`.

    Args:
      flag: Flag that sets the field.
      section: Section of the help output that lists the flag.
      goes: Places where the option appears in addition to the command line.
      default: Default value of the dataclass field, if it differs from the flag's default.
      read: Function that converts the flag's value to the field's value, if they differ.
      write: Function that converts the field's value to texts; needed if the value is not a switch, number, text
        or sequence.
    """
    value = flag.default if default is None else default
    declared = {_KEY: (flag, section, goes, value, read, write)}
    if isinstance(value, Mapping):  # dataclasses treat such a default as mutable
        return field(default_factory=lambda: value, metadata=declared)
    return field(default=value, metadata=declared)


def options_of(*kinds: Any) -> list[Option]:
    """Returns the options that dataclasses or their instances declare, sorted by section and declaration order."""
    found = [
        Option(member.name, *member.metadata[_KEY])
        for kind in kinds
        for member in fields(kind)
        if _KEY in member.metadata
    ]
    return sorted(found, key=lambda option: option.section)


def holds_path(text: str) -> bool:
    """Returns whether an option's value may be a path.

    Options whose values are paths are neither written to files nor read from files.
    """
    return not {"/", "\\"}.isdisjoint(text)


def given_flags(options: Any, goes: Goes) -> Iterator[tuple[str, Sequence[str]]]:
    """For one place, returns the flags of the options that differ from their defaults, with the values as texts.

    Args:
      options: Instance of a dataclass that declares options; a field may contain another such instance.
      goes: Place for which the flags are returned.
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
    """Converts values of flags, by name, to values of dataclass fields.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, if an option does not allow its value.
    """
    return {option.field: option.read_flag(flags[option.flag.name]) for option in declared}
