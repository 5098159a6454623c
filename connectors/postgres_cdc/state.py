"""What the rows and the changes of a table depend on, as a server's catalog has it at a moment."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakewright.connectors.rests import COLUMNS, UNDECLARED, Facts, check_facts
from lakewright.storage.errors import SourceChanged

_FILE = "file"
_OPERATIONS = ("insert", "update", "delete", "truncate")


@dataclass(frozen=True, slots=True)
class State:
    """The answer of the catalog (`Connection.state`)."""

    found: Mapping[str, Any]

    # --- the publication ---

    @property
    def publication(self) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = self.found["publication"]
        return found

    @property
    def is_logged(self) -> bool:
        return bool(self.found["is_logged"])

    @property
    def lacks_operations(self) -> bool:
        return {*self._published["operations"]} != {*_OPERATIONS}

    @property
    def is_by_root(self) -> bool:
        """Whether changes of a partition may go by the name of the table above."""
        return bool(self._published["by_root"])

    @property
    def is_published(self) -> bool:
        found = self._published
        return bool(found["all"] or found["schemas"] or self._tables)

    @property
    def is_filtered(self) -> bool:
        return any(each["filter"] for each in self._counting)

    def publishes(self, column: str) -> bool:
        return all(each["columns"] is None or column in each["columns"] for each in self._counting)

    @property
    def _counting(self) -> Sequence[Mapping[str, Any]]:
        """The entries of tables by which the table is published."""
        if self.publication is None or self._published["all"] or self._published["schemas"]:
            return ()
        return self._tables

    @property
    def _published(self) -> Mapping[str, Any]:
        assert self.publication is not None
        return self.publication

    @property
    def _tables(self) -> Sequence[Mapping[str, Any]]:
        return self._published["tables"] or ()

    # --- what a position rests on ---

    def facts(self, server: tuple[str, int] | None, slot: str, names: Collection[str]) -> Facts:
        """The facts of a position; `names` are the declared columns."""
        columns = {
            name: {key: value for key, value in each.items() if key != "default"}
            for name, each in self._columns.items()
        }
        system, timeline = server or (None, None)
        return {
            "server": system,
            "timeline": timeline,
            "slot": slot,
            "table": self.found["table"],
            "key": self.found["key"],
            "publication": self._publication_fact,
            "publication of the table": self._membership_fact,
            "schema of the table": self._schema_fact,
            "parents of the table": self._parents_fact,
            "rewriting of the table": self._rewriting_fact,
            _FILE: self.found[_FILE],
            COLUMNS: {name: columns[name] for name in names if name in columns},
            UNDECLARED: sorted({*columns} - {*names}),
        }

    @property
    def defaults(self) -> Mapping[str, str]:
        """The defaults of columns that have one."""
        return {name: each["default"] for name, each in self._columns.items() if each["default"]}

    @property
    def _columns(self) -> Mapping[str, Mapping[str, Any]]:
        return self.found["columns"] or {}

    @property
    def _publication_fact(self) -> str:
        if self.publication is None:
            return "dropped"
        found = self.publication
        shown = ", ".join(found["operations"]) or "nothing"
        return f"for {shown} (oid {found['oid']}, altered by transaction {found['version']})"

    @property
    def _membership_fact(self) -> str:
        if self.publication is None or not self.is_published:
            return "without it"
        if self._published["all"]:
            return "with all tables"
        parts = [f"entry {each}" for each in self._published["schemas"] or ()]
        for table in self._tables:
            columns = (
                "" if table["columns"] is None else f" of columns {', '.join(table['columns'])}"
            )
            parts.append(f"entry {table['oid']}{columns}{' with a filter' * bool(table['filter'])}")
        return " and ".join(parts)

    @property
    def _schema_fact(self) -> str | None:
        """Since when the table is in its schema, if it is published with that."""
        if self.publication is None or not self._published["schemas"]:
            return None
        return f"as it is since transaction {self.found['in_schema']}"

    @property
    def _parents_fact(self) -> Sequence[str] | None:
        """The partitioned tables above, if the table is published with one of them."""
        if not self._counting or self._has_own_entry:
            return None
        found: Sequence[str] = self.found["parents"] or ()
        return found

    @property
    def _rewriting_fact(self) -> str | None:
        """What ALTER TABLE makes anew where it writes a table anew.

        Of a table that is not published by its own name, it may be to set it UNLOGGED and back. A
        new file is also that of VACUUM FULL, which keeps the table of large values.
        """
        if self._has_own_entry:
            return None
        toast = self.found["toast"]
        return f"in file {self.found[_FILE]}" if toast is None else f"with toast table {toast}"

    @property
    def _has_own_entry(self) -> bool:
        tables = () if self.publication is None else self._tables
        return any(table["of"] == self.found["table"] for table in tables)


def check(owner: str, before: Facts, now: Facts, way: Callable[[str], str]) -> None:
    """Compare what a position rests on with what is there now.

    Of declared columns: where they are, and whether their values were made anew. A type that
    changes without a new file of the table leaves values as they are, such as a longer VARCHAR; so
    does a new file without a change of a column, such as VACUUM FULL.

    Raises:
        SourceChanged: names the thing that is different.
    """
    check_facts(owner, before, now, way, leaving=(_FILE, COLUMNS, UNDECLARED))
    is_rewritten = before.get(_FILE) != now[_FILE]
    for name, old in before.get(COLUMNS, {}).items():
        new = now[COLUMNS].get(name)
        if new is None or not _is_changed(old, new, is_rewritten=is_rewritten):
            continue
        raise SourceChanged(
            f"{owner}: column {name} is {_shown(new)} now, and was {_shown(old)} where the stream "
            f"stands; {way(COLUMNS)}",
            thing=f"column {name}",
            column=name,
            before=old,
            now=new,
        )


def _is_changed(old: Mapping[str, Any], new: Mapping[str, Any], *, is_rewritten: bool) -> bool:
    if old["place"] != new["place"]:
        return True
    if is_rewritten and any(old[each] != new[each] for each in ("type", "version")):
        return True
    return any(
        (new[facts] or {}).get(oid) != value
        # A label that is renamed and back is the same, and rows between have the other.
        for facts in ("labels", "label_versions", "attributes")
        # Positions of earlier releases have labels alone.
        for oid, value in (old.get(facts) or {}).items()
    )


def _shown(column: Mapping[str, Any]) -> str:
    """A column as a message has it: another number is a column of another making."""
    labels = f" of {', '.join(column['labels'].values())}" if column["labels"] else ""
    if versions := column.get("label_versions"):
        labels += f" (written by transactions {', '.join(sorted({*versions.values()}))})"
    for numbers in (column.get("attributes") or {}).values():
        labels += f" with attributes number {', '.join(map(str, numbers or ()))}"
    return (
        f"column number {column['place']} of type {column['type']}{labels} (altered by transaction "
        f"{column['version']})"
    )
