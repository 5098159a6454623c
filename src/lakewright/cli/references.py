"""`lakewright tag`, `branch`, `rollback`, `consumer` and `changelog`: what keeps old states."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Protocol

from lakewright.cli.layout import (
    Cell,
    TextColumn,
    counted,
    duration_text,
    iso_time,
    size_text,
    time_text,
)
from lakewright.cli.leases import expiry_leased
from lakewright.cli.output import print_json, print_lines, print_table
from lakewright.cli.warehouse import open_table
from lakewright.storage import Table
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.operations.references.rollback import RollbackPlan
from lakewright.storage.operations.references.tags import DeleteTagsPlan
from lakewright.storage.operations.running.plan import UnreachableFile
from lakewright.storage.spec.tag import Tag


class _Plan(Protocol):
    """A deletion that was thought through."""

    @property
    def table(self) -> str: ...

    @property
    def files(self) -> tuple[UnreachableFile, ...]: ...

    @property
    def bytes(self) -> int: ...

    def to_json(self) -> str: ...


class _Result(Protocol):
    """What a deletion took away."""

    @property
    def files_deleted(self) -> int: ...

    @property
    def bytes_deleted(self) -> int: ...

    @property
    def duration_ms(self) -> int: ...


def run_references(parsed: argparse.Namespace) -> int:
    """Carry out a verb of `tag`, `branch`, `consumer` or `changelog`, or roll a table back."""
    table = open_table(parsed)
    match parsed.command, getattr(parsed, "verb", None):
        case "tag", "list":
            _list_tags(parsed, table)
        case "tag", "create":
            _create_tag(parsed, table)
        case "tag", "rename":
            _check_tag_name(parsed.new_name)
            table.history.rename_tag(parsed.name, parsed.new_name)
            print_lines([f"tag {parsed.name} of {table.name} is {parsed.new_name} now"])
        case "tag", "delete":
            _delete_tags(parsed, table, table.history.plan_delete_tags(*parsed.names))
        case "tag", _:
            with expiry_leased(parsed, table):
                _delete_tags(
                    parsed, table, table.upkeep.plan_expire_tags(older_than_ms=parsed.older_than)
                )
        case "branch", "list":
            _list_branches(parsed, table)
        case "branch", "create":
            _create_branch(parsed, table)
        case "branch", "delete":
            _delete_branch(parsed, table)
        case "branch", _:
            _fast_forward(parsed, table)
        case "consumer", "list":
            _list_consumers(parsed, table)
        case "consumer", "set":
            table.history.set_consumer(parsed.name, parsed.next)
            where = f"reads on from snapshot {parsed.next}"
            print_lines([f"consumer {parsed.name} of {table.name} {where}"])
        case "changelog", "list":
            _list_changelogs(parsed, table)
        case "changelog", _:
            with expiry_leased(parsed, table):
                _expire_changelogs(parsed, table)
        case "consumer", _:
            table.history.delete_consumer(parsed.name)
            print_lines([f"consumer {parsed.name} of {table.name} deleted"])
        case _:
            _roll_back(parsed, table)
    return 0


# --- tags --------------------------------------------------------------------------------------


def _list_tags(parsed: argparse.Namespace, table: Table) -> None:
    tags = table.history.tags()
    if parsed.json:
        print_json([_tag_json(tag) for tag in tags])
        return
    columns = [
        TextColumn("tag"),
        TextColumn("snapshot", right=True),
        TextColumn("committed (UTC)"),
        TextColumn("rows in files" if table.schema.has_primary_key else "rows", right=True),
        TextColumn("tagged (local)"),
        TextColumn("retained (local)"),
    ]
    rows: list[list[Cell]] = [
        [
            tag.name,
            str(tag.snapshot.id),
            time_text(tag.snapshot.time_millis),
            tag.snapshot.total_record_count,
            "-" if tag.create_time is None else f"{tag.create_time:%Y-%m-%d %H:%M:%S}",
            "until deleted"
            if tag.expires_at is None
            else f"until {tag.expires_at:%Y-%m-%d %H:%M:%S}",
        ]
        for tag in tags
    ]
    print_table(columns, rows, empty=f"{table.name} has no tag")


def _tag_json(tag: Tag) -> dict[str, object]:
    return {
        "tag": tag.name,
        "snapshot_id": tag.snapshot.id,
        "schema_id": tag.snapshot.schema_id,
        "committed": iso_time(tag.snapshot.time_millis),
        "total_record_count": tag.snapshot.total_record_count,
        "create_time": None if tag.create_time is None else tag.create_time.isoformat(),
        "time_retained_ms": tag.time_retained_ms,
        "expires_at": None if tag.expires_at is None else tag.expires_at.isoformat(),
    }


def _check_tag_name(name: str) -> None:
    """A number is taken for a snapshot, by people and by time travel."""
    if name.isdecimal():
        raise InvalidRequestError(
            f"{name} as the name of a tag would be taken for a snapshot; to name that snapshot, "
            f"give the tag a name and --snapshot {name}"
        )


def _create_tag(parsed: argparse.Namespace, table: Table) -> None:
    if not parsed.replace:
        _check_tag_name(parsed.name)
    make = table.history.replace_tag if parsed.replace else table.history.create_tag
    tag = make(parsed.name, snapshot=parsed.snapshot, time_retained_ms=parsed.retain)
    until = "" if tag.expires_at is None else f", until {tag.expires_at:%Y-%m-%d %H:%M:%S}"
    print_lines([f"tag {tag.name} of {table.name} stands for snapshot {tag.snapshot.id}{until}"])


def _delete_tags(parsed: argparse.Namespace, table: Table, plan: DeleteTagsPlan) -> None:
    operation = f"{parsed.verb}-tags"
    if not plan.tags:
        say = [f"no tag of {plan.table} to {parsed.verb}"]
    else:
        say = [f"{_named('tag', plan.tags)} of {plan.table} to go, {_with_files(plan)}"]
    say += [f"  {reason}" for reason in plan.reasons]
    if parsed.dry_run or (not plan.tags and not parsed.json):
        show_deletion(parsed, operation, plan, say)
        return
    result = table.history.run_delete_tags(plan)
    what = f"{_named('tag', plan.tags)} of {plan.table}"
    report_deletion(parsed, operation, plan, result, f"{what} deleted", {"tags": list(plan.tags)})


# --- branches ----------------------------------------------------------------------------------


def _list_branches(parsed: argparse.Namespace, table: Table) -> None:
    branches = table.history.branches()
    if parsed.json:
        print_json([{**asdict(each), "created": iso_time(each.created_ms)} for each in branches])
        return
    columns = [
        TextColumn("branch"),
        TextColumn("created (UTC)"),
        TextColumn("earliest snapshot", right=True),
        TextColumn("latest snapshot", right=True),
        TextColumn("its table"),
    ]
    rows: list[list[Cell]] = [
        [
            each.name,
            time_text(each.created_ms),
            "-" if each.earliest_snapshot_id is None else str(each.earliest_snapshot_id),
            "-" if each.latest_snapshot_id is None else str(each.latest_snapshot_id),
            shlex.quote(table.history.at_branch(each.name).name),
        ]
        for each in branches
    ]
    print_table(columns, rows, empty=f"{table.name} has no branch besides main")


def _create_branch(parsed: argparse.Namespace, table: Table) -> None:
    branch = table.history.create_branch(parsed.name, tag=parsed.tag, snapshot=parsed.snapshot)
    latest = branch.history.latest_snapshot()
    where = "empty" if latest is None else f"at snapshot {latest.id}"
    # Quoted, since a shell would take what follows the dollar for a variable.
    place = shlex.quote(branch.name)
    lines = [f"branch {parsed.name} of {table.name} begins {where}: {place}"]
    if latest is None and table.history.latest_snapshot() is not None:
        lines.append(
            f"  without the rows of {table.name}, whose history a fast-forward would drop; "
            "--tag or --snapshot begins where the table is"
        )
    print_lines(lines)


def _delete_branch(parsed: argparse.Namespace, table: Table) -> None:
    plan = table.history.plan_delete_branch(parsed.name)
    what = f"branch {plan.branch} of {plan.table}"
    contents = f"{counted(len(plan.snapshot_ids), 'snapshot')}, {counted(len(plan.tags), 'tag')}"
    if parsed.dry_run:
        say = [f"{what} to go: {contents}, {_with_files(plan)}"]
        show_deletion(parsed, "delete-branch", plan, say)
        return
    result = table.history.run_delete_branch(plan)
    extra = {"branch": plan.branch, "snapshots": len(plan.snapshot_ids)}
    report_deletion(parsed, "delete-branch", plan, result, f"{what} deleted", extra)


def _fast_forward(parsed: argparse.Namespace, table: Table) -> None:
    plan = table.history.plan_fast_forward(parsed.name)
    last = max(plan.new_snapshot_ids)
    say = [f"main of {plan.table} to become branch {plan.branch}, snapshot {last}"]
    if plan.lost_snapshot_ids:
        say.append(f"  {_ids(plan.lost_snapshot_ids)} of main to go, {_with_files(plan)}")
    if plan.lost_tags:
        say.append(f"  {_named('tag', plan.lost_tags)} of main to go")
    if plan.consumers:
        say.append(f"  {_named('consumer', plan.consumers)} to read on from {plan.shared_id + 1}")
    if parsed.dry_run:
        show_deletion(parsed, "fast-forward", plan, say)
        return
    result = table.history.run_fast_forward(plan)
    done = f"main of {plan.table} is branch {plan.branch}, snapshot {last}"
    extra = {
        "branch": plan.branch,
        "snapshot_id": last,
        "snapshots_deleted": list(plan.lost_snapshot_ids),
        "tags_deleted": list(plan.lost_tags),
    }
    report_deletion(parsed, "fast-forward", plan, result, done, extra)


# --- rollback ----------------------------------------------------------------------------------


def _roll_back(parsed: argparse.Namespace, table: Table) -> None:
    plan = table.history.plan_rollback(snapshot=parsed.snapshot, tag=parsed.tag, time=parsed.as_of)
    if parsed.dry_run:
        show_deletion(parsed, "rollback", plan, _rollback_lines(plan))
        return
    result = table.history.run_rollback(plan)
    done = (
        f"{plan.table} is what it was at snapshot {plan.target_id}: "
        f"{counted(result.snapshots_deleted, 'snapshot')}, {counted(result.tags_deleted, 'tag')}"
    )
    extra = {
        "snapshot_id": plan.target_id,
        "snapshots_deleted": list(plan.snapshot_ids),
        "tags_deleted": list(plan.tags),
        "restored_tag": plan.restored_tag,
        "consumers_reset": list(plan.consumers),
    }
    report_deletion(parsed, "rollback", plan, result, done, extra)
    if not parsed.json:
        print_lines(_rolled_back_lines(plan))


def _rolled_back_lines(plan: RollbackPlan) -> list[str]:
    lines = []
    if plan.restored_tag is not None:
        lines.append(f"  snapshot {plan.target_id} is back, of tag {plan.restored_tag}")
    if plan.tags:
        lines.append(f"  {_named('tag', plan.tags)} deleted")
    if plan.consumers:
        names = _named("consumer", plan.consumers)
        lines.append(f"  {names} set to read on from {plan.target_id + 1}")
    return lines


def _rollback_lines(plan: RollbackPlan) -> list[str]:
    span = f"from snapshot {plan.latest_id} to {plan.target_id}"
    lines = [f"{plan.table} to go back {span}, {_with_files(plan)}"]
    if plan.restored_tag is not None:
        lines.append(f"  snapshot {plan.target_id} expired; tag {plan.restored_tag} holds it")
    if plan.snapshot_ids:
        lines.append(f"  {_ids(plan.snapshot_ids)} to go")
    if plan.tags:
        lines.append(f"  {_named('tag', plan.tags)} to go")
    if plan.changelog_ids:
        lines.append(f"  {counted(len(plan.changelog_ids), 'long-lived changelog')} to go")
    if plan.consumers:
        after = f"to read on from {plan.target_id + 1}"
        lines.append(f"  {_named('consumer', plan.consumers)} {after}")
    return lines


# --- consumers ---------------------------------------------------------------------------------


def _list_consumers(parsed: argparse.Namespace, table: Table) -> None:
    consumers = table.history.consumers()
    if parsed.json:
        print_json([{**asdict(each), "moved": iso_time(each.modified_ms)} for each in consumers])
        return
    columns = [
        TextColumn("consumer"),
        TextColumn("next snapshot", right=True),
        TextColumn("moved (UTC)"),
    ]
    rows: list[list[Cell]] = [
        [each.name, str(each.next_snapshot_id), time_text(each.modified_ms)] for each in consumers
    ]
    print_table(columns, rows, empty=f"{table.name} has no consumer")


# --- changelogs --------------------------------------------------------------------------------


def _list_changelogs(parsed: argparse.Namespace, table: Table) -> None:
    changelogs = table.history.changelogs()
    if parsed.json:
        print_json(
            [
                {
                    "snapshot_id": each.id,
                    "committed": iso_time(each.time_millis),
                    "kind": each.commit_kind.value,
                    "changelog_record_count": each.changelog_record_count,
                }
                for each in changelogs
            ]
        )
        return
    columns = [
        TextColumn("of snapshot", right=True),
        TextColumn("committed (UTC)"),
        TextColumn("kind"),
        TextColumn("changes", right=True),
    ]
    rows: list[list[Cell]] = [
        [
            str(each.id),
            time_text(each.time_millis),
            each.commit_kind.value,
            each.changelog_record_count or 0,
        ]
        for each in changelogs
    ]
    print_table(columns, rows, empty=f"no changelog of {table.name} has outlived its snapshot")


def _expire_changelogs(parsed: argparse.Namespace, table: Table) -> None:
    plan = table.upkeep.plan_expire_changelogs(every=parsed.all)
    if not plan.changelog_ids:
        say = [f"no changelog of {plan.table} to expire"]
    else:
        say = [
            f"changelogs of {_ids(plan.changelog_ids)} of {plan.table} to go, {_with_files(plan)}"
        ]
    say += [f"  {reason}" for reason in plan.reasons]
    if parsed.dry_run or (not plan.changelog_ids and not parsed.json):
        show_deletion(parsed, "expire-changelogs", plan, say)
        return
    result = table.upkeep.run_expire_changelogs(plan)
    done = (
        f"changelogs of {_ids(plan.changelog_ids)} of {plan.table} expired"
        if result.expired
        else ""
    )
    extra: dict[str, object] = {"expired": list(result.expired)}
    report_deletion(parsed, "expire-changelogs", plan, result, done, extra)


# --- all ---------------------------------------------------------------------------------------


def show_deletion(
    parsed: argparse.Namespace, operation: str, plan: _Plan, lines: Sequence[str]
) -> None:
    """What would be done, or that there is nothing."""
    if parsed.json:
        summary = {"files": len(plan.files), "size_bytes": plan.bytes}
        print_json({"operation": operation, "summary": summary, **json.loads(plan.to_json())})
        return
    print_lines(lines)
    if parsed.dry_run:
        print_lines(["dry run: nothing was written"])


def report_deletion(
    parsed: argparse.Namespace,
    operation: str,
    plan: _Plan,
    result: _Result,
    done: str,
    extra: dict[str, object],
) -> None:
    """What was done."""
    if parsed.json:
        print_json(
            {
                "operation": operation,
                "table": plan.table,
                **extra,
                "files_deleted": result.files_deleted,
                "bytes_deleted": result.bytes_deleted,
                "duration_ms": result.duration_ms,
            }
        )
        return
    size = size_text(result.bytes_deleted)
    took = duration_text(result.duration_ms)
    print_lines([f"{done}; {counted(result.files_deleted, 'file')}, {size} deleted in {took}"])


def _with_files(plan: _Plan) -> str:
    if not plan.files:
        return "and no file with that"
    return f"and with that {counted(len(plan.files), 'file')}, {size_text(plan.bytes)}"


def _named(noun: str, names: Sequence[str]) -> str:
    return f"{noun if len(names) == 1 else noun + 's'} {', '.join(names)}"


def _ids(snapshot_ids: Sequence[int]) -> str:
    if len(snapshot_ids) == 1:
        return f"snapshot {snapshot_ids[0]}"
    return f"{len(snapshot_ids)} snapshots ({min(snapshot_ids)} to {max(snapshot_ids)})"
