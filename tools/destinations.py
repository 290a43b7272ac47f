"""Writes output to files, folders or standard streams; a file is replaced only when the new file is complete."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from functools import partial
from typing import BinaryIO, TextIO

from litert.core.errors import LiteRtError, file_error
from litert.core.interrupts import on_interrupt
from litert.core.status import Status

from .console import is_closed, print_text, printable, writing_to

STDOUT, STDERR, NOWHERE = "-", "--", "none"


def check_messages(
    path: str, others: Iterable[str], flag: str = "err", what: str = "the report"
) -> None:
    """Raises an error if a report cannot be written to a path, or if it would replace a file in `others`.

    Args:
      path: Path of the report file, or a standard stream.
      others: Files that the report must not replace, as paths or as `[tensor=]file`; "" is ignored.
      flag: Name of the flag that sets the path, for the message.
      what: What is written, for the message.
    """
    if path in ("", STDOUT, STDERR, NOWHERE):
        return
    for other in (name for text in others for name in file_names(text)):
        if os.path.realpath(other) == os.path.realpath(path):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{what} would replace file '{other}', which the same command reads or writes",
                f"--{flag}={path}",
                f"Give another file with --{flag}.",
            )
    folder = os.path.dirname(path) or os.curdir
    hint = f"Name another file with --{flag}."
    if not os.path.isdir(folder):
        problem = f"folder '{folder}' does not exist"
        hint = f"Make the folder, or name another file with --{flag}."
    elif os.path.isdir(path):
        problem = "the path is a folder"
    elif os.access(folder if _is_replaced(path) else path, os.W_OK):
        return
    else:
        problem = "permission denied"
    raise LiteRtError(Status.FILE_IO, f"cannot write {what}: {problem}", path, hint)


def file_names(text: str) -> Iterator[str]:
    """Yields each file name that `[tensor=]file` can mean; there can be several, since names can contain `=`."""
    while text:
        yield text
        _, _, text = text.partition("=")


def print_to(place: str, text: str) -> None:
    """Prints a text to a standard stream or to a file; for `none`, prints nothing."""
    standard = {STDOUT: sys.stdout, STDERR: sys.stderr}
    if place in standard:
        print_text(text, standard[place])
    elif place == NOWHERE:
        return
    elif _is_replaced(place):
        write_file(place, partial(_write_text, printable(text) + "\n"))
    else:  # a terminal, a pipe
        try:
            stream = open(place, "w", encoding="utf-8")  # noqa: SIM115 (the with below closes it)
        except OSError as error:
            raise file_error(error, "cannot write", place) from error
        with stream:
            print_text(text, stream)


def _is_replaced(place: str) -> bool:
    """Returns whether a report at this path replaces a regular file or creates a new file."""
    return os.path.isfile(place) or not os.path.exists(place)


@contextmanager
def writes(paths: Iterable[str]) -> Iterator[None]:
    """If Ctrl-C ends the `with` block, the message says which of the given files were written."""
    before = {path: _state(path) for path in paths if path}

    def sentence() -> str:
        return ". ".join(
            f"{path} {_outcome(state, _state(path))}" for path, state in before.items()
        )

    with on_interrupt(sentence):
        yield


def _state(path: str) -> tuple[int, ...]:
    """Returns values that change when a file is written; empty if there is no file."""
    with suppress(OSError):
        found = os.stat(path)
        return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
    return ()


def _outcome(before: tuple[int, ...], now: tuple[int, ...]) -> str:
    if before != now:
        return "is complete"
    return "is unchanged" if now else "was not written"


@contextmanager
def open_output(output: str) -> Iterator[str]:
    """Yields the path of a file to write.

    If the output is a standard stream, the path is a temporary file, which is copied to the stream at the end.

    Text that extensions and vendors print in the `with` block goes to standard error, not into the model.
    """
    if output not in (STDOUT, STDERR):
        path = "" if output == NOWHERE else output
        with writes([path]):
            yield path
        return
    import shutil

    from litert.model.atomic_file import temporary_folder

    stream = open_stream(output)
    with ExitStack() as stack:
        path = os.path.join(stack.enter_context(temporary_folder()), "model")
        with redirect_stdout(sys.stderr):
            yield path
        file = stack.enter_context(open(path, "rb"))
        with writing_to(stream):
            stream.flush()
            shutil.copyfileobj(file, stream.buffer)
            stream.buffer.flush()


def write_file(path: str, write: Callable[[BinaryIO], object], sources: Iterable[str] = ()) -> None:
    """Lets a function write a file; an existing file is replaced only when the new file is complete.

    Raises:
      LiteRtError: FILE_IO, if the file cannot be written; INVALID_ARGUMENT, if the output is one of the sources or
        not a regular file.
    """
    target = os.path.realpath(path)
    for source in sources:
        if os.path.realpath(source) == target:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                "the output file is also an input file",
                path,
                "Name another output file.",
            )
    from litert.model.atomic_file import open_atomic  # here: --help must not wait for it

    with open_atomic(path) as fd:
        try:
            with open(fd, "wb", closefd=False) as file:
                write(file)
        except OSError as error:
            if error.errno is None:  # raised by NumPy if the disk is full
                raise OSError(
                    errno.ENOSPC, f"the disk is probably full: {error}, in elements"
                ) from error
            raise


def check_new_files(folder: str, names: Iterable[str], flag: str) -> None:
    """Raises an error if new files with the given names cannot be written to a folder.

    Raises:
      LiteRtError: ALREADY_EXISTS, if one of the files exists; NOT_FOUND, if the parent folder does not exist;
        FILE_IO, if the folder cannot be written.
    """
    from litert.model.atomic_file import check_place  # here: --help must not wait for it

    check_place(folder)
    for path in (os.path.join(folder, name) for name in names):
        if os.path.lexists(path):
            raise LiteRtError(
                Status.ALREADY_EXISTS,
                "the file already exists",
                path,
                f"Name another folder with {flag}, or remove the file.",
            )
    place = folder if os.path.lexists(folder) else os.path.dirname(folder.rstrip(os.sep)) or "."
    problem = "the path is not a folder" if not os.path.isdir(place) else "permission denied"
    if not os.path.isdir(place) or not os.access(place, os.W_OK):
        what = f"cannot write the output files: {problem}"
        raise LiteRtError(Status.FILE_IO, what, folder, f"Name another folder with {flag}.")


def write_new_files(
    folder: str, files: Mapping[str, str | Callable[[BinaryIO], object]], flag: str = "-o"
) -> list[str]:
    """Writes files to a folder, which is created together with its subfolders; returns the paths of the files.

    A new folder appears only when all of its files are written.

    Args:
      folder: Folder for the files.
      files: For each path relative to the folder, the text of the file, or a function that writes the file.
      flag: Name of the flag that sets the folder, for messages.

    Raises:
      LiteRtError: The same errors as `check_new_files`. After an error, none of the files exists.
    """
    from litert.model.atomic_file import folder_beside  # here: --help must not wait for it

    check_new_files(folder, files, flag)
    if os.path.lexists(folder):
        return _write_all(folder, files)
    try:
        with folder_beside(folder.rstrip(os.sep)) as beside:
            new = os.path.join(beside, "new")
            try:
                _write_all(new, files)
            except LiteRtError as error:
                where = error.where.replace(new, folder)
                raise LiteRtError(error.status, error.what, where, error.hint) from error
            os.rename(new, folder)
    except OSError as error:
        raise file_error(error, "cannot write", folder) from error
    return [os.path.join(folder, name) for name in files]


def _write_all(folder: str, files: Mapping[str, str | Callable[[BinaryIO], object]]) -> list[str]:
    paths = [os.path.join(folder, name) for name in files]
    made: list[str] = []  # folders, parents first
    try:
        for path, content in zip(paths, files.values(), strict=True):
            _make_folders(os.path.dirname(path) or ".", made)
            write_file(path, partial(_write_text, content) if isinstance(content, str) else content)
    except BaseException as error:
        with suppress(OSError):  # some files were not written
            for path in paths:
                os.unlink(path)
        with suppress(OSError):  # another process has put a file into the folder
            for path in reversed(made):
                os.rmdir(path)
        if isinstance(error, OSError):
            raise file_error(error, "cannot write", folder) from error
        raise
    return paths


def _make_folders(folder: str, made: list[str]) -> None:
    """Creates a folder and its parent folders, and adds each to `made` before it is created."""
    if not os.path.isdir(folder):
        _make_folders(os.path.dirname(folder) or ".", made)
        made.append(folder)
        os.mkdir(folder)


def _write_text(text: str, file: BinaryIO) -> None:
    file.write(text.encode())


def open_stream(output: str) -> TextIO:
    """Returns the standard stream for an output; raises FILE_IO if the stream is closed."""
    stream = sys.stdout if output == STDOUT else sys.stderr
    if is_closed(stream):
        name = "output" if output == STDOUT else "error"
        what = f"cannot write: standard {name} is closed"
        raise LiteRtError(Status.FILE_IO, what, hint="Give an output file.")
    return stream
