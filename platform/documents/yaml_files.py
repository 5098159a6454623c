"""YAML files of declarations and policies: finds them, reads them, and says where parts stand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lakewright.platform.documents.marked_yaml import (
    MOST_CHARACTERS,
    MalformedYamlError,
    MarkedDocument,
    Place,
    read_marked,
    too_long,
)
from lakewright.storage.secret_texts import shown_text

_SUFFIXES = {".yaml", ".yml"}
# UTF-8 has at most so many bytes for a character.
_MOST_BYTES = 4 * MOST_CHARACTERS
# A message may repeat a value.
_MOST_OF_A_MESSAGE = 1_000
FileStamp = tuple[str, int, int, int, int]


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One problem, and its place; line 0 is the file itself."""

    file: str
    line: int
    place: str
    message: str

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        line = f":{self.line}" if self.line else ""
        return f"{self.file}{line}: {where}{self.message}"


class DeclarationError(Exception):
    """Invalid declarations or policies; the message lists every problem on its own line."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted({*problems}))
        super().__init__("\n".join(str(problem) for problem in self.problems))


@dataclass(frozen=True, slots=True)
class WrittenText:
    """A value in a file: a document, or the part of it at a place.

    `file` is the file's name for messages; paths in it are relative to its `folder`.
    """

    file: str
    document: MarkedDocument
    value: object
    place: Place = ()
    folder: str = ""

    def line_of(self, place: Place) -> int:
        """The line of a place in the value, or of the nearest enclosing place that exists."""
        return self.document.line_of((*self.place, *place))

    def problem(self, place: Place, message: str) -> Problem:
        shown = shown_text(message)
        if len(shown) > _MOST_OF_A_MESSAGE:
            shown = f"{shown[:_MOST_OF_A_MESSAGE]}…"
        return Problem(self.file, self.line_of(place), dotted(place), shown)


def yaml_files(paths: Iterable[Path], problems: list[Problem]) -> list[Path]:
    """The files, and the YAML files of the folders, those of a folder in order of name."""
    return [file for path in paths for file in _files(path, problems)]


def _files(path: Path, problems: list[Problem]) -> list[Path]:
    if path.is_dir():
        return sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES)
    if path.is_file():
        return [path]
    problems.append(Problem(_shown(path), 0, "", "no such file or folder; name one that exists"))
    return []


def _shown(path: Path) -> str:
    """The path, relative to the working directory if it is below that."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def stamps_of(files: Iterable[Path]) -> tuple[FileStamp, ...]:
    """What changes when one of these files does, or is gone."""
    found = []
    for file in files:
        try:
            seen = file.stat()
        except OSError:
            continue
        stamp = (str(file), seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_ino)
        found.append(stamp)
    return tuple(found)


def documents_in(file: Path, problems: list[Problem]) -> list[WrittenText]:
    """The documents of a file; none if it cannot be read."""
    text = text_of(file, problems)
    return [] if text is None else documents_of(file, text, problems)


def text_of(file: Path, problems: list[Problem]) -> str | None:
    """The text of a file; None if it cannot be read."""
    shown = _shown(file)
    if file.exists() and not (file.is_file() or file.is_dir()):
        # To open a pipe may take for ever.
        told = "the file is a pipe, a socket or a device, and only regular files are read"
        problems.append(Problem(shown, 0, "", told))
        return None
    try:
        size = file.stat().st_size
        if size > _MOST_BYTES:
            problems.append(Problem(shown, 1, "", too_long(size, "bytes")))
            return None
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as err:
        problems.append(Problem(shown, 1, "", f"the file is not UTF-8 text: {err.reason}"))
    except OSError as err:
        problems.append(Problem(shown, 0, "", f"the file cannot be read: {err.strerror}"))
    return None


def documents_of(file: Path, text: str, problems: list[Problem]) -> list[WrittenText]:
    """The documents in the text of a file; none if it is malformed."""
    shown = _shown(file)
    try:
        documents = list(read_marked(text))
    except MalformedYamlError as err:
        problems.append(Problem(shown, err.line, "", err.message))
        return []
    folder = str(file.absolute().parent)
    return [WrittenText(shown, document, document.value, folder=folder) for document in documents]


def place_from(folder: str | Path, place: str) -> str:
    """A path in a file, relative to the folder of the file; URIs and whole paths stay as they are.

    A variable at the beginning may be either.
    """
    if not place or "://" in place or place.startswith(("file:", "/", "~", "${")):
        return place
    return f"{folder}/{place.removeprefix('./')}"


def dotted(place: Place) -> str:
    """`partitions.daily.start`, `columns[2].type`."""
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text
