"""Procedures of Paimon by their names and arguments, each one call of a verb."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches

from lakewright.session.results import StatementResult, done
from lakewright.storage.catalog import Catalog
from lakewright.storage.errors import InvalidStatement
from lakewright.storage.operations.state.time_travel import time_ms
from lakewright.storage.spec.option_values import parse_duration_ms
from lakewright.storage.sql.grammar.statements import Call
from lakewright.storage.table import Table

_Specs = list[dict[str, object]]


@dataclass(frozen=True, slots=True)
class _Given:
    """The arguments of a call; an empty text stands for none, as Flink's first versions have it."""

    procedure: str
    values: Mapping[str, object]

    def text(self, name: str) -> str | None:
        value = self.values.get(name)
        return None if value in (None, "") else str(value)

    def needed(self, name: str) -> str:
        value = self.text(name)
        if value is None:
            raise InvalidStatement(f"sys.{self.procedure} needs the argument {name}")
        return value

    def number(self, name: str) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            return int(text)
        except ValueError:
            raise InvalidStatement(f"argument {name} is {text!r}, and no whole number") from None

    def flag(self, name: str) -> bool:
        return (self.text(name) or "false").lower() == "true"

    def duration(self, name: str) -> int | None:
        text = self.text(name)
        return None if text is None else parse_duration_ms(text)

    def moment(self, name: str) -> int | None:
        """A time in milliseconds since the epoch, of such a number or `2024-01-31 12:00:00`."""
        text = self.text(name)
        if text is None or text.isdecimal():
            return self.number(name)
        return time_ms(text)

    def age(self, name: str, catalog: Catalog) -> int | None:
        """How long ago a time was."""
        moment = self.moment(name)
        return None if moment is None else max(0, catalog.env.now_ms() - moment)

    def partitions(self, name: str = "partitions") -> _Specs | None:
        """`a=1,b=2;a=3`: semicolons separate partitions."""
        text = self.text(name)
        if text is None:
            return None
        found: _Specs = []
        for part in text.split(";"):
            spec: dict[str, object] = {}
            for pair in part.split(","):
                key, equals, value = pair.partition("=")
                if not equals:
                    raise InvalidStatement(f"{name} is {text!r}; write 'dt=2024-01-31,hour=7'")
                spec[key.strip()] = value.strip()
            found.append(spec)
        return found


_OfTable = Callable[[Catalog, Table, _Given], object]


def _compact(_: Catalog, table: Table, given: _Given) -> object:
    partitions = given.partitions()
    where = given.text("where")
    if where is not None:
        partitions = [partition.spec for partition in table.at().partitions(where)]
    order = given.text("order_strategy")
    if order is not None and order != "none":
        by = [each.strip() for each in given.needed("order_by").split(",")]
        return table.upkeep.sort_compact(by, order=order, partitions=partitions)
    return table.upkeep.compact(partitions, full=given.text("compact_strategy") == "full")


def _rollback(_: Catalog, table: Table, given: _Given) -> object:
    version = given.text("version") or ""
    snapshot = given.number("snapshot_id")
    if version.isdecimal():
        snapshot = int(version)
    tag = given.text("tag") or (version if version and not version.isdecimal() else None)
    return table.history.rollback(snapshot=snapshot, tag=tag)


def _rollback_to_time(_: Catalog, table: Table, given: _Given) -> object:
    given.needed("timestamp")
    return table.history.rollback(time=given.moment("timestamp"))


def _reset_consumer(_: Catalog, table: Table, given: _Given) -> object:
    name, snapshot = given.needed("consumer_id"), given.number("next_snapshot_id")
    if snapshot is None:
        table.history.delete_consumer(name)
    else:
        table.history.set_consumer(name, snapshot)
    return None


def _expire_snapshots(catalog: Catalog, table: Table, given: _Given) -> object:
    return table.upkeep.expire_snapshots(
        retain_min=given.number("retain_min"),
        retain_max=given.number("retain_max"),
        time_retained_ms=given.age("older_than", catalog),
        max_deletes=given.number("max_deletes"),
    )


def _expire_changelogs(catalog: Catalog, table: Table, given: _Given) -> object:
    return table.upkeep.expire_changelogs(
        every=given.flag("delete_all"),
        retain_min=given.number("retain_min"),
        retain_max=given.number("retain_max"),
        time_retained_ms=given.age("older_than", catalog),
    )


def _expire_partitions(_: Catalog, table: Table, given: _Given) -> object:
    return table.upkeep.expire_partitions(
        older_than_ms=given.duration("expiration_time"),
        formatter=given.text("timestamp_formatter"),
        pattern=given.text("timestamp_pattern"),
        strategy=given.text("expire_strategy"),
        max_partitions=given.number("max_expires"),
    )


def _remove_orphans(_: Catalog, table: Table, given: _Given) -> object:
    plan = table.upkeep.plan_remove_orphans(before_ms=given.moment("older_than"))
    return plan if given.flag("dry_run") else table.upkeep.run(plan)


def _rescale(_: Catalog, table: Table, given: _Given) -> object:
    buckets = given.number("bucket_num") or table.options.bucket
    return table.upkeep.rescale(buckets, given.partitions("partition"))


@dataclass(frozen=True, slots=True)
class _Procedure:
    """The arguments in the order of their positions, and what is called with them."""

    arguments: tuple[str, ...]
    run: _OfTable


_TABLE_AND_PARTITIONS = ("table", "partitions")
_EXPIRY = ("table", "retain_max", "retain_min", "older_than", "max_deletes")
_PROCEDURES: Mapping[str, _Procedure] = {
    "compact": _Procedure(
        (
            *("table", "partitions", "order_strategy", "order_by", "options", "where"),
            *("partition_idle_time", "compact_strategy"),
        ),
        _compact,
    ),
    "rescale": _Procedure(("table", "bucket_num", "partition"), _rescale),
    "compact_manifest": _Procedure(
        ("table",), lambda _, table, given: table.upkeep.rewrite_manifests()
    ),
    "expire_snapshots": _Procedure(_EXPIRY, _expire_snapshots),
    "expire_changelogs": _Procedure((*_EXPIRY[:4], "delete_all"), _expire_changelogs),
    "expire_partitions": _Procedure(
        (
            *("table", "expiration_time", "timestamp_formatter", "timestamp_pattern"),
            *("expire_strategy", "max_expires"),
        ),
        _expire_partitions,
    ),
    "expire_tags": _Procedure(
        ("table", "older_than"),
        lambda catalog, table, given: table.upkeep.expire_tags(
            older_than_ms=given.age("older_than", catalog)
        ),
    ),
    "create_tag": _Procedure(
        ("table", "tag", "snapshot_id", "time_retained"),
        lambda _, table, given: table.history.create_tag(
            given.needed("tag"),
            snapshot=given.number("snapshot_id"),
            time_retained_ms=given.duration("time_retained"),
        ),
    ),
    "replace_tag": _Procedure(
        ("table", "tag", "snapshot_id", "time_retained"),
        lambda _, table, given: table.history.replace_tag(
            given.needed("tag"),
            snapshot=given.number("snapshot_id"),
            time_retained_ms=given.duration("time_retained"),
        ),
    ),
    "rename_tag": _Procedure(
        ("table", "tag", "target_tag"),
        lambda _, table, given: table.history.rename_tag(
            given.needed("tag"), given.needed("target_tag")
        ),
    ),
    "delete_tag": _Procedure(
        ("table", "tag"),
        lambda _, table, given: table.history.delete_tags(*given.needed("tag").split(",")),
    ),
    "trigger_tag_automatic_creation": _Procedure(
        ("table",), lambda _, table, given: table.history.create_due_tags()
    ),
    "rollback": _Procedure(("table", "version", "snapshot_id", "tag"), _rollback),
    "rollback_to": _Procedure(("table", "tag", "snapshot_id"), _rollback),
    "rollback_to_timestamp": _Procedure(("table", "timestamp"), _rollback_to_time),
    "create_branch": _Procedure(
        ("table", "branch", "tag"),
        lambda _, table, given: table.history.create_branch(
            given.needed("branch"), tag=given.text("tag")
        ),
    ),
    "delete_branch": _Procedure(
        ("table", "branch"),
        lambda _, table, given: table.history.delete_branch(given.needed("branch")),
    ),
    "fast_forward": _Procedure(
        ("table", "branch"),
        lambda _, table, given: table.history.fast_forward(given.needed("branch")),
    ),
    "reset_consumer": _Procedure(("table", "consumer_id", "next_snapshot_id"), _reset_consumer),
    "remove_orphan_files": _Procedure(("table", "older_than", "dry_run"), _remove_orphans),
    "drop_partition": _Procedure(
        _TABLE_AND_PARTITIONS,
        lambda _, table, given: table.upkeep.drop_partitions(partitions=given.partitions() or []),
    ),
    "mark_partition_done": _Procedure(
        _TABLE_AND_PARTITIONS,
        lambda _, table, given: table.upkeep.mark_done(partitions=given.partitions() or []),
    ),
}
# Other names of arguments.
_ALSO = {"snapshot": "snapshot_id", "target_tag_name": "target_tag", "tag_name": "tag"}
# What another procedure does is done here by something else.
_INSTEAD = {
    "merge_into": "write MERGE INTO",
    "purge_files": "write TRUNCATE TABLE t, or INSERT OVERWRITE it with nothing",
    "repair": "write MSCK REPAIR TABLE t, or run `lakewright sync`",
    "migrate_table": "take its folders over: ALTER TABLE t ADD PARTITION (…) LOCATION '…'",
    "migrate_database": "take its folders over: ALTER TABLE t ADD PARTITION (…) LOCATION '…'",
    "compact_database": "run `lakewright upkeep`, which compacts the tables that need it",
    "expire_consumers": "run `lakewright expire-consumers`",
    "clear_consumers": "run `lakewright expire-consumers`",
    "create_tag_from_timestamp": "write CALL sys.create_tag with the snapshot_id that "
    "`t$snapshots` shows",
    "create_tag_from_watermark": "write CALL sys.create_tag with the snapshot_id that "
    "`t$snapshots` shows",
}
_NOT_TAKEN = {
    "options": "set them on the table: ALTER TABLE t SET ('name' = 'value')",
    "partition_idle_time": "name the partitions, or let `lakewright upkeep` decide",
}


def check_call(asked: Call) -> tuple[str, _Given]:
    """The table and the arguments of a procedure.

    Raises:
        InvalidStatement: there is no such procedure, or an argument is none of its own.
    """
    name = asked.procedure
    procedure = _PROCEDURES.get(name)
    if procedure is None:
        near = get_close_matches(name, _PROCEDURES, n=1)
        way_out = _INSTEAD.get(name) or (f"did you mean sys.{near[0]}?" if near else None)
        told = way_out or f"there are {', '.join(sorted(_PROCEDURES))}"
        raise InvalidStatement(f"sys.{name} is no procedure here; {told}")
    if len(asked.values) > len(procedure.arguments):
        raise InvalidStatement(
            f"sys.{name} takes {', '.join(procedure.arguments)}, and {len(asked.values)} values "
            "are given"
        )
    given = dict(zip(procedure.arguments, asked.values, strict=False))
    for said, value in asked.named:
        argument = said if said in procedure.arguments else _ALSO.get(said, said)
        if argument not in procedure.arguments:
            raise InvalidStatement(
                f"{said} is no argument of sys.{name}; there are {', '.join(procedure.arguments)}"
            )
        given[argument] = value
    found = _Given(name, given)
    for argument, way_out in _NOT_TAKEN.items():
        if found.text(argument) is not None:
            raise InvalidStatement(f"argument {argument} of sys.{name} is not taken; {way_out}")
    return found.needed("table"), found


def call(catalog: Catalog, name: str, given: _Given) -> StatementResult:
    """Carry a procedure out on a table."""
    result = _PROCEDURES[given.procedure].run(catalog, catalog.table(name), given)
    facts: dict[str, object] = {}
    if is_dataclass(result):
        values = {field.name: getattr(result, field.name) for field in fields(result)}
        facts = {key: value for key, value in values.items() if isinstance(value, (int, str))}
    told = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in facts.items())
    message = f"sys.{given.procedure} of {name} is done" + (f": {told}" if told else "")
    return done(message, **{**facts, "table": name})
