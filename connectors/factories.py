"""Factories: from the options of a table to its source or sink.

A factory is found by the option `connector` of a table. It lists its options, which are read and
checked before it is called, and the options that name formats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from lakewright.connectors.formats.model import (
    DecodingFormat,
    DecodingFormatFactory,
    EncodingFormat,
    EncodingFormatFactory,
    SupportsKey,
)
from lakewright.connectors.model.catalog_table import CONNECTOR, ResolvedCatalogTable
from lakewright.connectors.options import Option, ReadOptions, read_options
from lakewright.connectors.sinks import DynamicTableSink
from lakewright.connectors.sources import DynamicTableSource
from lakewright.storage.env import Env, SystemEnv
from lakewright.storage.errors import InvalidOption

FORMAT = "format"
# The factory of tables without a connector.
MANAGED = "_default"
# The factory of the logs of such tables.
MANAGED_LOG = "_default_log"


class DynamicTableFactory:
    """What every factory says of itself.

    `format_options` are the options whose values are names of formats: the options of `csv` are
    then found behind `csv.`, those of a `value.format` behind `value.csv.`. Options that begin
    with one of `option_prefixes` are read by the factory itself, in `context.table.options`. The
    values of `named_by` name what is read, such as a topic, for every reader.
    """

    identifier: str
    description: str = ""
    required_options: Sequence[Option] = ()
    optional_options: Sequence[Option] = ()
    format_options: Sequence[str] = ()
    option_prefixes: Sequence[str] = ()
    named_by: Sequence[str] = ()


@runtime_checkable
class DynamicTableSourceFactory(Protocol):
    """Makes sources."""

    identifier: str

    def create_source(self, context: Context) -> DynamicTableSource: ...


@runtime_checkable
class DynamicTableSinkFactory(Protocol):
    """Makes sinks."""

    identifier: str

    def create_sink(self, context: Context) -> DynamicTableSink: ...


class FactoryFinder(Protocol):
    """What finds factories by their identifiers: the registry."""

    def source(self, identifier: str) -> DynamicTableSourceFactory: ...
    def sink(self, identifier: str) -> DynamicTableSinkFactory: ...
    def decoding(self, identifier: str) -> DecodingFormatFactory: ...
    def encoding(self, identifier: str) -> EncodingFormatFactory: ...
    def factory(self, group: str, identifier: str) -> Any: ...
    def formats(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a factory makes a source or a sink of.

    `options` are those of the connector, read; `configuration` are settings of the session.
    """

    table: ResolvedCatalogTable
    options: ReadOptions
    registry: FactoryFinder
    env: Env = field(default_factory=SystemEnv)
    configuration: Mapping[str, str] = field(default_factory=dict)
    is_temporary: bool = False
    # What a managed table's factory needs of the catalog.
    catalog: Any = None

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def connector(self) -> str:
        """The identifier of the connector; of managed tables their factory's."""
        return self.table.definition.connector or MANAGED

    def decoding_format(self, option: str = FORMAT) -> DecodingFormat:
        """The format that an option names, for reading.

        Raises:
            InvalidOption: the option is missing, or the format's options are wrong.
            NotFoundError: there is no such format, or it cannot read.
        """
        identifier = self._format_name(option)
        factory = self.registry.decoding(identifier)
        found = factory.decoding_format(self._format_options(option, identifier, factory))
        return found.with_key(self.table.primary_keys) if isinstance(found, SupportsKey) else found

    def encoding_format(
        self, option: str = FORMAT, defaults: Mapping[str, str] | None = None
    ) -> EncodingFormat:
        """The format that an option names, for writing; see `decoding_format`.

        `defaults` are texts of options that the format may have and the table does not give.
        """
        identifier = self._format_name(option)
        factory = self.registry.encoding(identifier)
        return factory.encoding_format(self._format_options(option, identifier, factory, defaults))

    def _format_name(self, option: str) -> str:
        found = self.table.options.get(option)
        if found is None:
            known = ", ".join(self.registry.formats())
            raise InvalidOption(
                f"{self.name} lacks option {option}; it names a format: {known}", option=option
            )
        return found

    def _format_options(
        self, option: str, identifier: str, factory: Any, defaults: Mapping[str, str] | None = None
    ) -> ReadOptions:
        prefix = format_prefix(option, identifier)
        texts = {
            name.removeprefix(prefix): text
            for name, text in self.table.options.items()
            if name.startswith(prefix)
        }
        for each in (*factory.required_options, *factory.optional_options):
            if each.name in (defaults or {}) and not {each.name, *each.aliases} & {*texts}:
                texts[each.name] = (defaults or {})[each.name]
        return read_options(
            texts,
            required=factory.required_options,
            optional=factory.optional_options,
            owner=f"format {identifier} of {self.name}",
        )


def format_prefix(option: str, identifier: str) -> str:
    """What stands before the options of a format: `csv.`, or `value.csv.` for `value.format`."""
    return option.removesuffix(FORMAT) + identifier + "."


def connector_options(factory: Any, table: ResolvedCatalogTable) -> ReadOptions:
    """The options of a table that are its connector's.

    Raises:
        InvalidOption: one is missing, unknown or wrong.
    """
    formats: Sequence[str] = getattr(factory, "format_options", ())
    texts = {name: text for name, text in table.options.items() if name != CONNECTOR}
    prefixes = [format_prefix(option, texts.pop(option)) for option in formats if option in texts]
    return read_options(
        texts,
        required=getattr(factory, "required_options", ()),
        optional=getattr(factory, "optional_options", ()),
        owner=f"connector {factory.identifier} of {table.name}",
        prefixes=[*prefixes, *getattr(factory, "option_prefixes", ())],
    )
