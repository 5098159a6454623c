"""YAML as plain values, with the line of each part.

Unquoted words stay as typed (`yaml_words`). Only the safe tags are known. A key that is given twice
is an error, because YAML would silently take the last one. All YAML that people give is read here:
the text has a limit, and so has what aliases and merge keys make of a document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import yaml

from lakewright.platform.documents.yaml_words import Word

# A place in a document: keys of mappings and positions in lists, outermost first.
Place = tuple[str | int, ...]

# A million characters take seconds and tens of megabytes to read, and more take as much more.
MOST_CHARACTERS = 1_000_000
# A document that contains itself by aliases would expand without end, and a few lines of aliases
# or merge keys expand to billions.
_MAX_NODES = 200_000
_TOO_LARGE = f"aliases or merge keys make more than {_MAX_NODES:,} values of the document"
# YAML 1.1 would give plain words these types; they stay as typed here. Null is not among them.
_WORD_TAGS = frozenset(
    f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "timestamp")
)


@dataclass(frozen=True, slots=True)
class MarkedDocument:
    """A document's value and the line, from 1, of each place in it."""

    value: object
    lines: Mapping[Place, int]

    def line_of(self, place: Place) -> int:
        """The line of a place, or of the nearest enclosing place that exists."""
        for length in range(len(place), -1, -1):
            if place[:length] in self.lines:
                return self.lines[place[:length]]
        return 1


class MalformedYamlError(Exception):
    """Text that is not YAML, or YAML that contradicts itself."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


_MEANT_AS_TEXT = {
    "found undefined alias": (
        "* refers to a part that & marks, and none has this name; put a text that begins with * in "
        "quotes"
    ),
    "a constructor for the tag": (
        "! begins a tag, and this one is unknown; put a text that begins with ! in quotes"
    ),
}


def read_marked(text: str) -> Iterator[MarkedDocument]:
    """The documents of a text, empty ones left out.

    Raises:
        MalformedYamlError: the text cannot be read, or a key stands twice in one mapping.
    """
    for _, document in _read(text):
        if document.value is not None:
            yield document


def read_typed(text: str) -> Iterator[object]:
    """The documents of a text as YAML types their values, empty ones left out.

    Raises:
        MalformedYamlError: as `read_marked`, or a value does not fit its type.
    """
    for typed, document in _read(text, typed=True):
        if document.value is not None:
            yield typed


def too_long(size: int, unit: str) -> str:
    """What is wrong with a text of this size."""
    return (
        f"the file has {size:,} {unit}, and {MOST_CHARACTERS:,} characters are the most that are "
        "read; divide it among several files"
    )


class _Loader(yaml.SafeLoader):
    """Takes merge keys of a limited size."""

    flattened = 0

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        # The mapping that merges this one counts it once for each time.
        self.flattened += len(node.value)
        if self.flattened > _MAX_NODES:
            raise MalformedYamlError(_TOO_LARGE, node.start_mark.line + 1)


def _read(text: str, *, typed: bool = False) -> Iterator[tuple[object, MarkedDocument]]:
    """The documents of a text, typed as YAML does, if asked for, and as typed."""
    if len(text) > MOST_CHARACTERS:
        raise MalformedYamlError(too_long(len(text), "characters"), 1)
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as err:
        line = text.count("\n", 0, err.position) + 1
        message = f"character {err.character!r} cannot stand in YAML: {err.reason}"
        raise MalformedYamlError(message, line) from err
    try:
        while loader.check_node():
            root = loader.get_node()
            assert root is not None
            reader = _Reader(loader)
            document = MarkedDocument(reader.read(root, ()), MappingProxyType(reader.lines))
            yield _typed(loader, root) if typed else None, document
    except yaml.MarkedYAMLError as err:
        mark = err.problem_mark or err.context_mark
        problem = " ".join(part for part in (err.context, err.problem) if part)
        for begins, message in _MEANT_AS_TEXT.items():
            # What follows the sign may be a password.
            problem = message if begins in problem else problem
        raise MalformedYamlError(
            f"{problem}{_way_out(problem)}", mark.line + 1 if mark else 1
        ) from err
    except RecursionError:
        message = "lists and mappings are nested too deeply; leave brackets out"
        raise MalformedYamlError(message, 1) from None
    except yaml.YAMLError as err:
        raise MalformedYamlError(str(err).splitlines()[0], 1) from err
    finally:
        loader.dispose()


def _typed(loader: yaml.SafeLoader, root: yaml.Node) -> object:
    try:
        return loader.construct_document(root)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as err:
        # What YAML's constructors raise where a value does not fit its form, as in `2024-13-45`.
        raise MalformedYamlError(str(err), root.start_mark.line + 1) from err


def _way_out(problem: str) -> str:
    if "an alias" in problem:
        return "; put a text that begins with * in quotes"
    if "'\\t'" in problem:
        return "; indent with spaces"
    return ""


class _Reader:
    """Turns nodes into values and notes their lines."""

    def __init__(self, loader: yaml.SafeLoader) -> None:
        self.loader = loader
        self.lines: dict[Place, int] = {}
        self._inside: set[int] = set()
        self._flattened: set[int] = set()
        self._read = 0

    def read(self, node: yaml.Node, place: Place) -> object:
        line = node.start_mark.line + 1
        self.lines.setdefault(place, line)
        self._read += 1
        if id(node) in self._inside:
            raise MalformedYamlError("an alias makes the document contain itself", line)
        if self._read > _MAX_NODES:
            raise MalformedYamlError(_TOO_LARGE, line)
        self._inside.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, place)
            if isinstance(node, yaml.SequenceNode):
                return [self.read(item, (*place, at)) for at, item in enumerate(node.value)]
            if isinstance(node, yaml.ScalarNode) and not node.style and node.tag in _WORD_TAGS:
                return Word(node.value)
            try:
                return self.loader.construct_object(node)
            except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as err:
                # An explicit tag may not fit its text, as in !!int "1x".
                raise MalformedYamlError(f"{node.value!r} is not valid: {err}", line) from err
        finally:
            self._inside.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, object]:
        if id(node) not in self._flattened:
            self._refuse_repeated_keys(node)
            self.loader.flatten_mapping(node)
            self._flattened.add(id(node))
        result: dict[str, object] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node)
            self.lines[*place, key] = key_node.start_mark.line + 1
            result[key] = self.read(value_node, (*place, key))
        return result

    def _refuse_repeated_keys(self, node: yaml.MappingNode) -> None:
        seen: dict[str, int] = {}
        for key_node, _ in node.value:
            key = self._key(key_node)
            line = key_node.start_mark.line + 1
            if key in seen and key_node.tag != "tag:yaml.org,2002:merge":
                raise MalformedYamlError(
                    f"key {key!r} is given twice, first on line {seen[key]}; keep one", line
                )
            seen[key] = line

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise MalformedYamlError(
                "a key must be a name, not a list or mapping", node.start_mark.line + 1
            )
        # As typed: a key such as `on` or `2013-01-01` is a name here.
        return str(node.value)
