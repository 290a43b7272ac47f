"""Defines absl flags from declarations, parses command lines, and makes the help of flags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from typing import TYPE_CHECKING, Any, TypeAlias

from litert.core.errors import LiteRtError
from litert.core.option import Flag
from litert.core.status import Status
from litert.core.suggestion import closest_name

from .destinations import STDOUT
from .help_text import help_entry
from .progress_bar import ProgressBar, ProgressStyle

if TYPE_CHECKING:
    import absl.flags

FlagValues: TypeAlias = "absl.flags.FlagValues"
"""The values of a command line's flags, by the flags' names. absl is imported only when a command line is
parsed."""

COMMON = (
    Flag("help", False, "Show this help and exit.", short_name="h"),
    Flag("quiet", False, "Do not show progress.", short_name="q"),
    Flag("debug", False, "Print the log, and the Python traceback of an error."),
)
"""Flags of every command of both programs."""

REPORT = Flag(
    "report",
    "text",
    "Format of the report: text for people, json for programs.",
    choices=("text", "json"),
)
PAGE = (
    Flag(
        "html",
        "",
        "Also write the report to this HTML file, as a page with the graph and tables.",
    ),
    Flag(
        "model_explorer",
        "",
        "Also write the graph to this file, for Google's Model Explorer. If the report has numbers "
        "for each op, such as times, each kind of number goes to a separate file in the same folder.",
    ),
)
"""Flags for further files that a command writes in addition to its report."""

SEED = Flag("seed", 0, "Seed for the random inputs.", least=0)
DISPATCH_LIBRARY_PATH = Flag(
    "dispatch_library_path",
    "",
    "Folder with dispatch tables and dispatch libraries, which are the vendors' code for loading "
    "and running byte code. The command searches this folder and the installed packages.",
)

VERSION = Flag("version", False, "Show the version and exit.")

_FLAG_COLUMN = 30
_LARGEST_COUNT = 2**31 - 1
_LONGEST_S = 1e7  # four months; timers do not support much more


def make_flags(flags: Iterable[Flag]) -> FlagValues:
    """Returns absl flags for declarations, before a command line is parsed. Flags may follow arguments."""
    import absl.flags  # here: the list of commands needs no flags

    values = absl.flags.FlagValues()  # type: ignore[no-untyped-call]
    values.set_gnu_getopt(True)
    for flag in flags:
        _define(values, flag)
    return values


def begin(flags: FlagValues, command_line: Sequence[str], hint: str, known_only: bool) -> list[str]:
    """Parses a command line into flags, and sets up the log and the progress bar.

    Args:
      flags: Flags from `make_flags`, which get the values of the command line.
      command_line: Words of the command line, beginning with the program's name.
      hint: Hint for the error if the command line is wrong.
      known_only: Whether unknown flags are returned with the arguments; otherwise, an unknown flag is an error.

    Returns:
      The arguments.
    """
    from absl.flags import Error, UnrecognizedFlagError

    try:
        rest: list[str] = flags(command_line, known_only=known_only)[1:]
    except UnrecognizedFlagError as error:
        raise _unknown_flag(f"--{error.flagname}", error.flagname, flags, hint) from None
    except (Error, ValueError) as error:  # absl's own for --noflag=value
        raise value_error(str(error), flags, hint) from None
    ProgressBar.style = (
        ProgressStyle.QUIET
        if flags.quiet
        else ProgressStyle.LINES  # among those of the log
        if flags.debug
        else ProgressStyle.AUTOMATIC
    )
    _print_log(flags.debug)
    return rest


def check_op_infos(flags: FlagValues) -> None:
    """Raises an error if a custom op info has no comma: a space in its place makes the path an argument."""
    from litert.core.compiler_options import CustomOpInfo  # here: most commands do not need it

    for text in flags.npu_custom_op_info if "npu_custom_op_info" in flags else ():
        CustomOpInfo.parse(text)


def _print_log(is_whole: bool) -> None:
    import logging  # here: --help must not wait for it

    from .log_handler import LogHandler

    logging.lastResort = LogHandler(logging.WARNING)
    if is_whole:
        handler = LogHandler()
        handler.setFormatter(logging.Formatter(logging.BASIC_FORMAT))
        logging.basicConfig(level=logging.DEBUG, handlers=[handler])


def _define(values: FlagValues, flag: Flag) -> None:
    from absl import flags as absl

    own: dict[str, Any] = {"flag_values": values, "short_name": flag.short_name or None}
    name, default, text = flag.name, flag.default, flag.help
    if flag.choices:
        absl.DEFINE_enum(name, default, flag.choices, text, **own)
    elif isinstance(default, bool):
        absl.DEFINE_bool(name, default, text, **own)
    elif isinstance(default, str):
        absl.DEFINE_string(name, default, text, **own)
    elif isinstance(default, float):
        serializer = absl.ArgumentSerializer[float]()
        absl.DEFINE(_float_parser(flag), name, default, text, serializer=serializer, **own)
    elif isinstance(default, int | None):
        least = None if flag.least is None else int(flag.least)
        most = _LARGEST_COUNT if flag.most is None else int(flag.most)
        absl.DEFINE_integer(name, default, text, lower_bound=least, upper_bound=most, **own)
        if least is not None:
            values[name].parser.syntactic_help = f"a whole number from {least} to {most}"
    elif flag.is_repeated:
        absl.DEFINE_multi_string(name, list(default), text, **own)
        values[name].help = text  # without the text that absl adds
    else:
        absl.DEFINE_list(name, list(default), text, **own)


def _float_parser(flag: Flag) -> Any:
    from absl.flags import FloatParser

    class Parser(FloatParser):  # type: ignore[misc,unused-ignore]
        """Excludes `nan` too, which no comparison with bounds excludes."""

        def is_outside_bounds(self, val: float) -> bool:
            return isnan(val) or bool(super().is_outside_bounds(val))

    if not flag.is_duration:
        return Parser(lower_bound=flag.least, upper_bound=flag.most)
    least = flag.least or 0
    parser = Parser(lower_bound=least, upper_bound=_LONGEST_S)
    parser.syntactic_help = f"a number of seconds from {least:g} to {_LONGEST_S:.0f}"
    return parser


def _unknown_flag(given: str, name: str, flags: Iterable[str], hint: str) -> LiteRtError:
    """Returns the error for a flag that a command does not have.

    Args:
      given: The flag as written in the command line.
      name: The flag's name, without dashes and value.
      flags: The names of the command's flags.
      hint: The hint if no flag has a similar name.
    """
    near = closest_name(name, flags)
    question = f"Did you mean --{near}?" if near else hint
    return usage_error(f"the command has no flag '{given}'", question)


def value_error(said: str, flags: FlagValues, hint: str = "") -> LiteRtError:
    """Returns the error for an invalid value of a flag; `said` is absl's error message."""
    given, _, reason = said.removeprefix("flag ").partition(": ")
    name, equals, value = given.removeprefix("--").partition("=")
    if not said.startswith("flag --") or not equals or name not in flags:
        return usage_error(said, hint)
    choices = getattr(flags[name].parser, "enum_values", None)
    if choices:
        near = closest_name(value, choices)
        listed = f"Allowed values: {', '.join(choices)}."
        question = f"Did you mean --{name}={near}? " if near else ""
        return usage_error(f"--{name} has the unknown value '{value}'", f"{question}{listed}")
    if flags[name].boolean:
        reason = "the flag needs the value true or false, or no value"
    else:
        allowed = flags[name].parser.syntactic_help
        if reason.startswith(("invalid literal", "could not convert")) or (
            allowed and reason.endswith(f" is not {allowed}")
        ):
            reason = f"the flag needs {allowed}"
    return usage_error(f"{given}: {reason}", hint)


def given_arguments(values: FlagValues, flags: Iterable[Flag]) -> list[str]:
    """Of the given flags, returns those that the command line sets, as arguments for another command line."""
    arguments: list[str] = []
    for flag in flags:
        given = values[flag.name]
        if flag.is_repeated:
            arguments += [f"--{flag.name}={value}" for value in given.value or ()]
        elif given.present:
            arguments.append(given.serialize())
    return arguments


def split_arguments(rest: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits arguments into positional arguments, and flags that the command itself does not have.

    All words after `--` are positional.
    """
    paths: list[str] = []
    unknown: list[str] = []
    for place, argument in enumerate(rest):
        if argument == "--":
            paths += rest[place + 1 :]
            break
        (unknown if argument.startswith("-") and argument != STDOUT else paths).append(argument)
    return paths, unknown


def read_vendor_options(
    values: FlagValues, unknown: Sequence[str], manufacturer: str
) -> Mapping[str, str]:
    """Reads the options of a vendor, by name, from flags that the command itself does not have.

    If a flag does not begin with the vendor's name, raises an error.
    """
    # Here, since --help must not wait for it.
    from litert.core.vendor_names import is_option_of

    options: dict[str, str] = {}
    for flag in unknown:
        name, _, value = flag.lstrip("-").partition("=")
        if not is_option_of(manufacturer, name):
            hint = (
                f"Options of vendor '{manufacturer}' begin with the vendor's name, as in "
                f"--{manufacturer.lower()}_option; --help lists all other flags."
            )
            prefix, _, rest = name.partition("_")
            if closest_name(prefix, [manufacturer]):
                hint = f"Did you mean --{manufacturer.lower()}_{rest}?"
            raise _unknown_flag(flag, name, values, hint)
        if name in options:
            raise usage_error(f"--{name} is given twice", "Give this flag only once.")
        options[name] = value if "=" in flag else "true"
    return options


def describe_flags(flags: FlagValues) -> list[str]:
    """Returns the help of flags, as lines of text."""
    lines: list[str] = []
    for name in flags:
        flag = flags[name]
        if flag.name != name:  # its short name
            continue
        shown = f"--[no]{name}" if flag.boolean else f"--{name}"
        if flag.short_name:
            shown += f", -{flag.short_name}"
        lines += help_entry(shown, _explanation(flag), _FLAG_COLUMN)
    return lines


def _explanation(flag: absl.flags.Flag[Any]) -> str:
    """Returns a flag's help with its default value."""
    default = flag.default
    if flag.boolean or default in (None, "", []):
        return str(flag.help)
    shown = ",".join(map(str, default)) if isinstance(default, list) else default
    return f"{flag.help} Default: {shown}."


def usage_error(what: str, hint: str = "See --help.") -> LiteRtError:
    """Returns the error for a wrong command line."""
    return LiteRtError(Status.INVALID_TOOL_CONFIG, what, hint=hint)
