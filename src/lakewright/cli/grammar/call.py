"""The common arguments of every command: warehouse, table, output form, dry run, plan files."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from click import UsageError, get_current_context

from lakewright.platform.documents.variables import DEFAULT_WAREHOUSE, WAREHOUSE_VARIABLE

if TYPE_CHECKING:
    from lakewright.storage import Catalog, FormatTable, Table, TableSchema
    from lakewright.storage.spec.predicate import Predicate
    from lakewright.storage.table_at import TableAt

# What the address of a Hive metastore begins with, which is a warehouse too.
METASTORE = "thrift://"
# What the place of a REST catalog's warehouse says, which is no folder.
REST = "rest"
# What `lakewright format-table` has in place of commands on tables with snapshots.
_FORMAT_TABLE_VERBS = {
    "read": "read",
    "partitions": "partitions",
    "add-partitions": "add",
    "drop-partitions": "drop",
    "repair-partitions": "repair",
}

Form = Literal["table", "json", "csv", "parquet"]
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a command.

    `command` is its words, as in `tag delete`. `plan` and `save_plan` name files, `-` for the
    standard streams.
    """

    command: str
    warehouse: str
    table_name: str = ""
    form: Form = "table"
    dry_run: bool = False
    plan: str | None = None
    save_plan: str | None = None

    @property
    def only_plans(self) -> bool:
        """Whether the call only plans and does not change the table."""
        return self.dry_run or self.save_plan is not None

    @property
    def program(self) -> str:
        """What a command on the same warehouse begins with."""
        if self.warehouse == (os.environ.get(WAREHOUSE_VARIABLE) or DEFAULT_WAREHOUSE):
            return "lakewright"
        return f"lakewright --warehouse {shlex.quote(self.warehouse)}"

    def catalog(self) -> Catalog:
        """The named warehouse, which must exist.

        Raises:
            NotFoundError: the warehouse does not exist.
        """
        from lakewright.storage import Catalog
        from lakewright.storage.errors import NotFoundError

        catalog = Catalog.open(self.warehouse)
        # A metastore may list databases of other places alone.
        if not catalog.fs.exists(catalog.root) and not catalog.list_databases():
            raise NotFoundError(
                f"no warehouse at {catalog.uri}; name one with --warehouse or ${WAREHOUSE_VARIABLE}"
            )
        return catalog

    def place(self) -> str:
        """The warehouse as commands name it: by its URI, or as its metastore or server does.

        Raises:
            NotFoundError: the warehouse does not exist.
        """
        catalog = self.catalog()
        is_name = self.warehouse.startswith(METASTORE) or catalog.fs.scheme == REST
        return self.warehouse if is_name else catalog.uri

    def table(self) -> Table:
        """The named table, which has snapshots.

        Raises:
            InvalidRequestError: it is a system table; the message names the command for it.
            UnsupportedError: it is a format table; the message names the command for it.
        """
        from lakewright.storage.errors import UnsupportedError
        from lakewright.storage.operations.format_tables.format_spec import is_format_table

        table = self.table_of_any_type()
        # Without this check it would look like an empty table.
        if is_format_table(table.schema):
            name = shlex.quote(self.table_name)
            known = _FORMAT_TABLE_VERBS.get(self.command)
            instead = (
                "`lakewright format-table --help` lists the commands for it"
                if known is None
                else f"call `lakewright format-table {known} {name}`"
            )
            raise UnsupportedError(
                f"{self.table_name} is a format table, folders of plain files without snapshots, "
                f"which `lakewright {self.command}` does not take: {instead}, and "
                f"`lakewright show {name}` describes it"
            )
        return table

    def table_of_any_type(self) -> Table:
        """The named table, of which only the schema says something if it is a format table.

        Raises:
            InvalidRequestError: it is a system table; the message names the command for it.
        """
        from lakewright.storage.errors import InvalidRequestError
        from lakewright.storage.operations.inspection.system_tables import check_system_table
        from lakewright.storage.operations.references.branches import BRANCH_MARK

        catalog = self.catalog()
        name, mark, last = self.table_name.rpartition("$")
        is_plain = not mark or f"{mark}{last}".startswith(BRANCH_MARK)
        # A folder may have such a name.
        if not is_plain and not catalog.table_exists(self.table_name):
            check_system_table(catalog.table(name).table_files, last)
            raise InvalidRequestError(
                f"{self.table_name} is a system table; print it with "
                f"`lakewright inspect {shlex.quote(name)} {last}`"
            )
        return catalog.table(self.table_name)


def filter_of(text: str | None, schema: TableSchema) -> Predicate | None:
    """The filter of `--where`."""
    if text is None:
        return None
    # Only commands with a filter load the parser.
    from lakewright.storage.sql import parse_where

    return parse_where(text, schema)


def named_partitions(
    table: Table | TableAt | FormatTable, given: Sequence[Mapping[str, object]]
) -> tuple[dict[str, object], ...] | None:
    """The partitions of `--partition`, as `named_partition` reads them; None without any."""
    from lakewright.storage.operations.running.named_partitions import named_partition

    return tuple(named_partition(table.table_files, spec) for spec in given) or None


def check_one_of(*, needed: bool = False, **given: object) -> None:
    """Refuse two options that exclude each other, or a missing one if one is needed."""
    there = [_option(name) for name, value in given.items() if value not in (None, False)]
    if len(there) > 1:
        raise UsageError(f"{there[1]} is not allowed with {there[0]}", get_current_context())
    if needed and not there:
        options = " or ".join(map(_option, given))
        raise UsageError(f"{options} is needed", get_current_context())


def needed(value: Value | None, what: str) -> Value:
    """Require an argument that only `--plan` can replace."""
    if value is None:
        raise UsageError(f"{what} is needed, unless --plan is given", get_current_context())
    return value


def command_word(verb: str) -> str:
    """The word of a verb on the command line."""
    return verb.replace("_", "-")


def _option(name: str) -> str:
    return "--" + command_word(name)
