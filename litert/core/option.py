"""How an option is declared: once, as a field of a dataclass of options, with its flag and where else it goes.

```python
check_kernels: bool = option(
    Flag("check_kernels", True, "Build each kernel once, so that its errors show now."),
    Section.LAYERS,
    Goes.LOAD | Goes.ENVIRONMENT | Goes.PAYLOAD | Goes.MANIFEST,
)
```

All that needs an option derives it from there: the flags of commands, what a program can ask for at a load and the
key of what is kept then, what exported plugins read of the environment, what a plugin in C is told, the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, fields, is_dataclass
from enum import IntEnum, IntFlag
from typing import Any, NamedTuple

_KEY = "option"


class Section(IntEnum):
    """Where `--help` of `apply_plugin` lists a flag; within a section in the order of the fields."""

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
    """Where an option goes beside the command line of `apply_plugin`.

    Attributes:
      LOAD: `litert.Options` has it by the field's name, `litert-npu run` and `benchmark` have the flag, and what
        is compiled when it is loaded is kept for each of its values.
      ENVIRONMENT: an exported plugin reads it from `LITERT_NPU_OPTIONS`, and from its host's opaque options.
      PAYLOAD: our host writes it to these opaque options, for a plugin in C.
      MANIFEST: the compiled file says it, where it is not the default. It holds no path.
    """

    NOWHERE = 0
    LOAD = 1
    ENVIRONMENT = 2
    PAYLOAD = 4
    MANIFEST = 8


class Flag(NamedTuple):
    """A flag of a command. A named tuple, since `--help` waits for it: a dataclass takes longer to make.

    Attributes:
      name: without the dashes.
      default: tells the type, too: a switch, a number, a text, or a sequence of texts; None is a whole number that
        may be left out.
      help: what `--help` says.
      choices: what a text may be; none for any.
      least: of a number.
      is_repeated: whether each text of a sequence is a flag of its own; otherwise commas part them.
      is_duration: whether a number is a time limit in seconds.
      short_name: a letter that stands for it; "" for none.
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
    """What a field says of itself.

    Attributes:
      field: its name.
      flag: of `apply_plugin`.
      section: where help lists the flag.
      goes: where else it goes.
      default: of the field.
      read: makes the field's value of the flag's.
      write: makes texts of the field's value.
    """

    field: str
    flag: Flag
    section: Section
    goes: Goes
    default: Any
    read: Callable[[Any], Any]
    write: Callable[[Any], Sequence[str]]

    def read_flag(self, value: Any) -> Any:
        """The field's value; its default, for a number that was left out."""
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
    """A dataclass field that is an option, as `Option` describes it.

    Args:
      flag: sets it.
      section: of the help.
      goes: where else it goes.
      default: where it is not the flag's.
      read: where the field's value is another than the flag's.
      write: where the value is no switch, number, text or sequence.
    """
    value = flag.default if default is None else default
    declared = {_KEY: (flag, section, goes, value, read, write)}
    if isinstance(value, Mapping):  # which dataclasses take for mutable
        return field(default_factory=lambda: value, metadata=declared)
    return field(default=value, metadata=declared)


def options_of(*kinds: Any) -> list[Option]:
    """The options that dataclasses (or objects of them) declare: by section, then as they stand there."""
    found = [
        Option(member.name, *member.metadata[_KEY])
        for kind in kinds
        for member in fields(kind)
        if _KEY in member.metadata
    ]
    return sorted(found, key=lambda option: option.section)


def holds_path(text: str) -> bool:
    """Whether an option's value may be a path, so that no file says it, and none is believed that does."""
    return not {"/", "\\"}.isdisjoint(text)


def given_flags(options: Any, goes: Goes) -> Iterator[tuple[str, Sequence[str]]]:
    """The flags that go somewhere, with their values as texts: where they differ from the defaults.

    Args:
      options: an object with declared fields; fields that are such objects themselves count.
      goes: where to.
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
    """The values of fields, as flags say, whose values are here by their names.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, for a value that an option cannot have.
    """
    return {option.field: option.read_flag(flags[option.flag.name]) for option in declared}
