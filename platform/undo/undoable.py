"""What can still be undone in a warehouse: runs, what they did, and until when it can be undone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakewright.platform.undo.run_names import is_of_lakewright, short_name
from lakewright.platform.upkeep.words import snapshots_text
from lakewright.storage import Catalog, StorageError, Table
from lakewright.storage.operations.references.put_back import can_come_back
from lakewright.storage.spec.condemned import DROP_TABLE

_HALF = ", half done or in progress"
# A later run of these has to be undone before an earlier one.
_IN_ORDER = ("expire_snapshots", "expire_changelogs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Undoable:
    """What a run did in a table, as far as it left traces; what later work allows, a plan says.

    `run` is what `lakewright undo` takes. It can be undone until `until_ms`; with None, until its
    snapshots expire. `after` is a later run that has to be undone before, or empty.
    """

    run: str
    table: str
    what: str
    at_ms: int
    until_ms: int | None
    after: str = ""


def list_undoable(
    catalog: Catalog, tables: Sequence[str] | None = None
) -> tuple[tuple[Undoable, ...], tuple[str, ...]]:
    """What can be undone, the latest first, in the order in which to undo; and unreadable tables.

    Snapshots are those of Dagster's runs and of commands; deletions are those of anyone.
    """
    found = [
        Undoable(
            run=short_name(each.run) or each.record,
            table=each.table,
            what="drop table" if each.done else f"drop table{_HALF}",
            at_ms=each.dropped_ms,
            until_ms=each.until_ms,
        )
        for each in catalog.dropped_tables()
        if each.table in (tables or [each.table])
    ]
    dropped = {each.table for each in found}
    unread = []
    for name in tables or all_tables(catalog):
        try:
            if name in dropped and not catalog.table_exists(name):
                continue
            table = catalog.table(name)
            found += [*_snapshots(table), *_deletions(table)]
        except StorageError as error:
            unread.append(f"{name}: {error}")
    return tuple(sorted(found, key=lambda each: -each.at_ms)), tuple(unread)


def all_tables(catalog: Catalog) -> list[str]:
    """The names of all tables of a warehouse."""
    return [
        f"{database}.{name}"
        for database in catalog.list_databases()
        for name in catalog.list_tables(database)
    ]


def _snapshots(table: Table) -> Iterator[Undoable]:
    of_runs: dict[str, list[int]] = {}
    at_ms: dict[str, int] = {}
    for each in table.history.snapshots():
        if is_of_lakewright(each.commit_user):
            run = short_name(each.commit_user)
            of_runs.setdefault(run, []).append(each.id)
            at_ms[run] = each.time_millis
    for run, ids in of_runs.items():
        yield Undoable(
            run=run, table=table.name, what=snapshots_text(ids), at_ms=at_ms[run], until_ms=None
        )


def _deletions(table: Table) -> Iterator[Undoable]:
    later: dict[tuple[str, str], str] = {}
    for each in reversed(table.upkeep.condemned()):
        if each.verb == DROP_TABLE or not can_come_back(each.verb):
            continue
        run, kind = short_name(each.run) or each.id, (each.verb, each.branch)
        after = later.get(kind, "") if each.verb in _IN_ORDER else ""
        later[kind] = run
        yield Undoable(
            run=run,
            table=table.name,
            what=each.verb.replace("_", " ") + ("" if each.done else _HALF),
            at_ms=each.condemned_ms,
            until_ms=each.due_ms,
            after=after if after != run else "",
        )
