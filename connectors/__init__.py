"""Connectors: external tables, from a definition to what reads and writes them.

Authors of connectors import what they need from here; each name is loaded at its first use.

New connector: a file or folder with a factory, options, sources and sinks, a line in `registry.py`,
its suites in `tests/unit/connectors/test_suites.py`. Others' are entry points.
New ability: a protocol in `sources.py` or `sinks.py`, a spec in `planning/abilities.py`, its place
in `plan_source.py` or `plan_sink.py`. A source's backlog: `SupportsBacklog` in `runtime.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakewright.connectors.cursor_scan import CursorScan
    from lakewright.connectors.external_tables import ExternalTables
    from lakewright.connectors.factories import Context, DynamicTableFactory
    from lakewright.connectors.fitted import batches_of
    from lakewright.connectors.lookups import CachedLookup
    from lakewright.connectors.model.catalog_table import CatalogTable
    from lakewright.connectors.model.changelog_mode import ChangelogMode
    from lakewright.connectors.options import Option, OptionKind
    from lakewright.connectors.registry import Registry
    from lakewright.connectors.runtime import AsyncLookup, BoundedScan, Lookup, Scan, Sink
    from lakewright.connectors.sinks import DynamicTableSink
    from lakewright.connectors.sources import Filtered, LookupTableSource, ScanTableSource
    from lakewright.storage.spec.table_distribution import TableDistribution

__all__ = [
    "AsyncLookup",
    "BoundedScan",
    "CachedLookup",
    "CatalogTable",
    "ChangelogMode",
    "Context",
    "CursorScan",
    "DynamicTableFactory",
    "DynamicTableSink",
    "ExternalTables",
    "Filtered",
    "Lookup",
    "LookupTableSource",
    "Option",
    "OptionKind",
    "Registry",
    "Scan",
    "ScanTableSource",
    "Sink",
    "TableDistribution",
    "batches_of",
]

_HERE = "lakewright.connectors"
_MODULES = {
    "AsyncLookup": f"{_HERE}.runtime",
    "BoundedScan": f"{_HERE}.runtime",
    "CachedLookup": f"{_HERE}.lookups",
    "CatalogTable": f"{_HERE}.model.catalog_table",
    "ChangelogMode": f"{_HERE}.model.changelog_mode",
    "Context": f"{_HERE}.factories",
    "CursorScan": f"{_HERE}.cursor_scan",
    "DynamicTableFactory": f"{_HERE}.factories",
    "DynamicTableSink": f"{_HERE}.sinks",
    "ExternalTables": f"{_HERE}.external_tables",
    "Filtered": f"{_HERE}.sources",
    "Lookup": f"{_HERE}.runtime",
    "LookupTableSource": f"{_HERE}.sources",
    "Option": f"{_HERE}.options",
    "OptionKind": f"{_HERE}.options",
    "Registry": f"{_HERE}.registry",
    "Scan": f"{_HERE}.runtime",
    "ScanTableSource": f"{_HERE}.sources",
    "Sink": f"{_HERE}.runtime",
    "TableDistribution": "lakewright.storage.spec.table_distribution",
    "batches_of": f"{_HERE}.fitted",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
