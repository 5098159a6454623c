"""The registry: which connectors and formats there are, and who brings them.

Those of this package are listed here. Others are entry points of installed distributions, in the
groups `lakewright.connectors` and `lakewright.formats`; the name of an entry point is the
identifier, and its object a factory or a class of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import distributions
from typing import Any

from lakewright.connectors.factories import DynamicTableSinkFactory, DynamicTableSourceFactory
from lakewright.connectors.formats.built_in import BUILT_IN_FORMATS
from lakewright.connectors.formats.model import DecodingFormatFactory, EncodingFormatFactory
from lakewright.storage.errors import InvalidRequestError, NotFoundError

CONNECTORS = "lakewright.connectors"
FORMAT_GROUP = "lakewright.formats"
OWN = "lakewright"
_BUILT_IN: Mapping[str, Mapping[str, str]] = {
    CONNECTORS: {
        "_default": "lakewright.connectors.managed:ManagedTables",
        "_default_log": "lakewright.connectors.log.factory:LogTables",
        "blackhole": "lakewright.connectors.blackhole:Blackhole",
        "datagen": "lakewright.connectors.datagen:Datagen",
        "filesystem": "lakewright.connectors.filesystem.connector:Filesystem",
        "http": "lakewright.connectors.http_json:Http",
        "jdbc": "lakewright.connectors.jdbc.connector:Jdbc",
        "kafka": "lakewright.connectors.kafka.connector:Kafka",
        "mysql-cdc": "lakewright.connectors.mysql_cdc.connector:MysqlCdc",
        "postgres-cdc": "lakewright.connectors.postgres_cdc.connector:PostgresCdc",
        "python": "lakewright.connectors.python_rows:PythonRows",
        "socket": "lakewright.connectors.socket_lines:Socket",
        "print": "lakewright.connectors.printing:Print",
        "upsert-kafka": "lakewright.connectors.kafka.connector:UpsertKafka",
    },
    FORMAT_GROUP: BUILT_IN_FORMATS,
}
# What every factory says of itself.
_OF_FACTORIES = ("identifier", "required_options", "optional_options")
# What a factory makes, by its protocol.
ROLES: Mapping[type, str] = {
    DynamicTableSourceFactory: "source",
    DynamicTableSinkFactory: "sink",
    DecodingFormatFactory: "decoding",
    EncodingFormatFactory: "encoding",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A factory that can be loaded: `value` is `module:name`, `distribution` who brings it."""

    identifier: str
    value: str
    distribution: str

    def load(self) -> Any:
        """The factory.

        Raises:
            NotFoundError: its module cannot be imported, or has no factory of this name.
        """
        module, _, name = self.value.partition(":")
        told = f"{self.identifier} of {self.distribution} is {self.value}, which"
        # Code of another package may fail in any way, and breaks no other connector.
        try:
            found = getattr(import_module(module), name)
            factory = found() if isinstance(found, type) else found
        except Exception as error:
            raise NotFoundError(
                f"{told} cannot be imported: {str(error) or type(error).__name__}"
            ) from error
        if lacking := [each for each in _OF_FACTORIES if not hasattr(factory, each)]:
            raise NotFoundError(f"{told} is no factory: it has no {', '.join(lacking)}")
        return factory


@dataclass(frozen=True)
class Registry:
    """All connectors and formats; `extra` are factories of a catalog, which come first."""

    extra: Sequence[Any] = ()
    _loaded: dict[Entry, Any] = field(default_factory=dict, repr=False, compare=False)

    def source(self, identifier: str) -> DynamicTableSourceFactory:
        """The factory of sources of a connector.

        Raises:
            NotFoundError: no connector has this name, or it cannot be read.
            InvalidRequestError: several distributions bring one.
        """
        found: DynamicTableSourceFactory = self._found(
            CONNECTORS, identifier, DynamicTableSourceFactory
        )
        return found

    def sink(self, identifier: str) -> DynamicTableSinkFactory:
        """The factory of sinks of a connector; see `source`."""
        found: DynamicTableSinkFactory = self._found(
            CONNECTORS, identifier, DynamicTableSinkFactory
        )
        return found

    def decoding(self, identifier: str) -> DecodingFormatFactory:
        """The factory of a format that reads; see `source`."""
        found: DecodingFormatFactory = self._found(FORMAT_GROUP, identifier, DecodingFormatFactory)
        return found

    def encoding(self, identifier: str) -> EncodingFormatFactory:
        """The factory of a format that writes; see `source`."""
        found: EncodingFormatFactory = self._found(FORMAT_GROUP, identifier, EncodingFormatFactory)
        return found

    def factory(self, group: str, identifier: str) -> Any:
        """The factory of a name, in whatever role."""
        return self._found(group, identifier, object)

    def connectors(self) -> tuple[str, ...]:
        """The identifiers of connectors, without those of managed tables."""
        return self.names(CONNECTORS)

    def formats(self) -> tuple[str, ...]:
        return self.names(FORMAT_GROUP)

    def entries(self, group: str, identifier: str) -> tuple[Entry, ...]:
        """Who brings a name."""
        return self._entries[group].get(identifier, ())

    def names(self, group: str) -> tuple[str, ...]:
        """The identifiers of a group, without those of managed tables."""
        own = {each.identifier for each in self.extra if _group(each) == group}
        every = own | {*self._entries[group]}
        return tuple(sorted(name for name in every if not name.startswith("_")))

    def _found(self, group: str, identifier: str, role: type) -> Any:
        what = "connector" if group == CONNECTORS else "format"
        for each in self.extra:
            if each.identifier == identifier and _group(each) == group and isinstance(each, role):
                return each
        entries = self.entries(group, identifier)
        if not entries:
            raise self._unknown(group, what, identifier)
        if len(entries) > 1:
            told = ", ".join(f"{entry.distribution} ({entry.value})" for entry in entries)
            raise InvalidRequestError(
                f"{what} {identifier} is brought by {len(entries)} installed packages: {told}; "
                "uninstall all but one"
            )
        factory = self._loaded.get(entries[0])
        if factory is None:
            factory = self._loaded[entries[0]] = entries[0].load()
        if not isinstance(factory, role):
            has = [text for kind, text in ROLES.items() if isinstance(factory, kind)]
            raise NotFoundError(
                f"{what} {identifier} of {entries[0].distribution} has no {ROLES[role]}; "
                f"it has {' and '.join(has) or 'no role at all'}"
            )
        return factory

    def _unknown(self, group: str, what: str, identifier: str) -> NotFoundError:
        names = self.names(group)
        close = get_close_matches(identifier, names, 1)
        hint = f"did you mean {close[0]}? " if close else ""
        told = [
            name
            if not (at := self.entries(group, name)) or at[0].distribution == OWN
            else f"{name} ({at[0].distribution})"
            for name in names
        ]
        return NotFoundError(
            f"no installed package brings {what} {identifier!r}; {hint}there are "
            f"{', '.join(told)}; a package brings one by an entry point of group {group}"
        )

    @cached_property
    def _entries(self) -> Mapping[str, Mapping[str, tuple[Entry, ...]]]:
        """All that is there, by group and identifier.

        Distributions are walked one by one: `importlib.metadata.entry_points` leaves out one of two
        of the same name.
        """
        found: dict[str, dict[str, dict[Entry, None]]] = {CONNECTORS: {}, FORMAT_GROUP: {}}
        for group, names in _BUILT_IN.items():
            for name, value in names.items():
                found[group].setdefault(name, {})[Entry(name, value, OWN)] = None
        for distribution in distributions():
            for point in distribution.entry_points:
                if point.group in found:
                    entry = Entry(point.name, point.value, distribution.metadata["Name"])
                    found[point.group].setdefault(point.name, {})[entry] = None
        return {
            group: {name: tuple(entries) for name, entries in names.items()}
            for group, names in found.items()
        }


@cache
def installed() -> Registry:
    """The connectors and formats of this environment; walked once in a process."""
    return Registry()


def _group(factory: Any) -> str:
    is_format = isinstance(factory, (DecodingFormatFactory, EncodingFormatFactory))
    return FORMAT_GROUP if is_format else CONNECTORS
