"""Subcommands, their options and their help."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import _ActionsContainer, _SubParsersAction

    Commands = _SubParsersAction[argparse.ArgumentParser]

WAREHOUSE_VARIABLE = "LAKEWRIGHT_WAREHOUSE"
DEFAULT_WAREHOUSE = "./warehouse"

_EPILOG = """\
exit codes:
  0    done
  1    unexpected: please report it
  2    the request is wrong: an option, a name, a filter, a plan that is none
  3    no such warehouse, database, table, snapshot, tag, branch, consumer or file
  4    the table or store needs a feature that is not implemented; nothing was touched
  5    someone else's commit came first, or the plan is stale: plan again
  6    files contradict the format or each other: have a person look
  7    the store did not answer, or somebody works on that part of the table; or it did not say
       whether the commit was made
  8    the store wants other credentials
  130  interrupted;  141  whoever read the output went away

example:
  lakewright --warehouse ./warehouse show nyc.flights
"""
_WHERE = """\
EXPR compares columns with literals, as SQL does: = <> < <= > >=, [NOT] IN (…),
[NOT] BETWEEN … AND …, IS [NOT] NULL, [NOT] LIKE 'prefix%', AND, OR, NOT and parentheses.
Text stands in '…', other names than plain words in `…`; DATE '2024-01-31',
TIMESTAMP '2024-01-31 13:45:00' (UTC where the column is a moment), X'ff'.
"""
_SYSTEM_TABLES = """\
snapshots, schemas, options, tags, branches, consumers   the table's history
files, manifests, partitions, buckets, table_indexes     what a state consists of
statistics, aggregation_fields                           what is known of its columns
audit_log                                                its rows with what each does to its key
"""
_ROWS = """\
table  aligned for people; long values are cut, nested ones are JSON
json   one object a line, complete: decimals as text, dates, times and timestamps in ISO
       (moments in UTC, with Z), bytes in hexadecimal, NaN and infinities as text; a map is
       an object where its keys are text, else a list of [key, value] pairs
csv    the same values under a header; null is empty, empty text is ""
"""

Parser = argparse.ArgumentParser
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The arguments as a namespace, `command` (and `verb`) naming the subcommand.

    Raises:
        SystemExit: they are wrong, or help was asked for.
    """
    parser = build_parser()
    parsed = parser.parse_args(arguments)
    if parsed.warehouse is None:
        parsed.warehouse = os.environ.get(WAREHOUSE_VARIABLE) or DEFAULT_WAREHOUSE
    return parsed


def build_parser() -> Parser:
    """The whole command line."""
    parser = Parser(
        prog="lakewright",
        description="Look at Apache Paimon tables, and keep them healthy.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_warehouse(parser, default=None)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_listings(commands)
    _add_read(commands)
    _add_lookup(commands)
    _add_inspect(commands)
    _add_analyze(commands)
    _add_upkeep(commands, "plan", "say what upkeep would do, and write nothing")
    _add_upkeep(commands, "run", "do upkeep: compact, sort, rescale, assign buckets, expire")
    _add_tag(commands)
    _add_branch(commands)
    _add_rollback(commands)
    _add_consumer(commands)
    _add_changelog(commands)
    _add_pending(commands)
    _add_lease(commands)
    _add_remove_orphans(commands)
    _add_quarantine(commands)
    _add_workspace(commands)
    return parser


def _subcommand(
    commands: Commands, name: str, summary: str, example: str, more: str = ""
) -> Parser:
    parser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"{more}\nexample:\n  {example}\n".lstrip("\n"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_warehouse(parser, default=argparse.SUPPRESS)
    return parser


def _add_listings(commands: Commands) -> None:
    ls = _subcommand(commands, "ls", "list the tables", "lakewright ls nyc")
    ls.add_argument("database", metavar="DB", nargs="?", help="only the tables of this database")
    show = _subcommand(
        commands,
        "show",
        "describe a table: schema, keys, options, contents, health",
        "lakewright show nyc.flights",
    )
    _add_table(show)
    snapshots = _subcommand(
        commands, "snapshots", "list a table's snapshots", "lakewright snapshots nyc.flights"
    )
    _add_table(snapshots)
    files = _subcommand(
        commands,
        "files",
        "list a table's data files",
        "lakewright files nyc.flights --where \"dt = '2013-01-31' AND distance > 2000\"",
        "With --where: the files that a read with this filter opens.\n" + _WHERE,
    )
    _add_table(files)
    _add_where(files)
    _add_snapshot(files)
    partitions = _subcommand(
        commands,
        "partitions",
        "list a table's partitions",
        "lakewright partitions nyc.flights --where \"dt >= '2013-12-01'\"",
        "EXPR may look at partition columns only.\n" + _WHERE,
    )
    _add_table(partitions)
    _add_where(partitions)
    _add_snapshot(partitions)
    for each in (ls, show, snapshots, files, partitions):
        _add_json(each)


def _add_read(commands: Commands) -> None:
    read = _subcommand(
        commands,
        "read",
        "print rows, in no promised order",
        "lakewright read nyc.flights --where \"dt = '2013-01-31' AND carrier IN ('AA', 'DL')\" \\"
        "\n      --columns carrier,flight,dep_delay --limit 20 --format csv",
        _ROWS + "\n" + _WHERE,
    )
    _add_table(read)
    _add_where(read)
    read.add_argument(
        "--columns", metavar="A,B", type=_names, help="these columns, in this order (default: all)"
    )
    when = read.add_mutually_exclusive_group()
    _add_snapshot(when)
    when.add_argument(
        "--as-of",
        metavar="TIME",
        type=_moment_ms,
        help="the table as it was at an ISO time, such as 2024-01-31T13:45:00 "
        "(UTC unless it says otherwise)",
    )
    when.add_argument("--tag", metavar="TAG", help="the table as this tag holds it")
    _add_rows(read)


def _add_lookup(commands: Commands) -> None:
    lookup = _subcommand(
        commands,
        "lookup",
        "print the rows of single keys, found without reading the table",
        "lakewright lookup shop.orders dt=2024-01-01,id=17 dt=2024-01-01,id=18",
        _ROWS,
    )
    _add_table(lookup)
    lookup.add_argument(
        "keys",
        metavar="K=V,…",
        nargs="+",
        type=_partition,
        help='a value for each column of the primary key, or as JSON {"K": "V"}',
    )
    lookup.add_argument(
        "--columns", metavar="A,B", type=_names, help="these columns, in this order (default: all)"
    )
    when = lookup.add_mutually_exclusive_group()
    _add_snapshot(when)
    when.add_argument("--tag", metavar="TAG", help="the table as this tag holds it")
    _add_rows(lookup)


def _add_inspect(commands: Commands) -> None:
    inspect = _subcommand(
        commands,
        "inspect",
        "print a system table: snapshots, files, partitions, audit_log and others",
        "lakewright inspect nyc.flights snapshots --where \"commit_kind = 'COMPACT'\"\n"
        "  lakewright inspect nyc.flights audit_log --between 3,7 --format json",
        _SYSTEM_TABLES + "\n" + _ROWS + "\n" + _WHERE,
    )
    _add_table(inspect)
    inspect.add_argument("system_table", metavar="NAME", help="a system table; see below")
    _add_where(inspect)
    state = inspect.add_mutually_exclusive_group()
    _add_snapshot(state)
    state.add_argument("--tag", metavar="TAG", help="as of the snapshot with this tag")
    state.add_argument(
        "--between",
        metavar="A,B",
        type=_bounds,
        help="audit_log: what changed after A up to and with B, two snapshots or two tags",
    )
    state.add_argument(
        "--between-times",
        metavar="T1,T2",
        type=_times,
        help="the same between two ISO times (UTC unless they say otherwise)",
    )
    inspect.add_argument(
        "--mode",
        choices=("auto", "delta", "changelog", "diff"),
        help="where changes come from: appended rows, changelog files, or the two states "
        "compared (default: diff between tags, else changelog where the table writes one, "
        "else delta)",
    )
    _add_rows(inspect)


def _add_analyze(commands: Commands) -> None:
    analyze = _subcommand(
        commands,
        "analyze",
        "compute statistics of the rows and publish them: counts, bounds, distinct values",
        "lakewright analyze nyc.flights --columns carrier,distance",
    )
    _add_table(analyze)
    columns = analyze.add_mutually_exclusive_group()
    columns.add_argument(
        "--columns", metavar="A,B", type=_names, help="only these columns (default: all)"
    )
    columns.add_argument(
        "--no-columns", action="store_true", help="only count the rows, describe no column"
    )
    analyze.add_argument(
        "--dry-run", action="store_true", help="say what would be read; compute nothing"
    )
    analyze.add_argument(
        "--engine",
        choices=("local", "spark"),
        default="local",
        help="where rows are read: in this process, or on Spark",
    )
    _add_json(analyze)


def _add_upkeep(commands: Commands, command: str, summary: str) -> None:
    parent = _subcommand(
        commands, command, summary, f"lakewright {command} compact nyc.flights --min-files 2"
    )
    verbs = parent.add_subparsers(dest="verb", required=True, metavar="VERB")
    compact = _subcommand(
        verbs,
        "compact",
        f"{command} a compaction: fewer, larger files with the same rows",
        f"lakewright {command} compact nyc.flights --partition dt=2013-12-01 --full",
    )
    _add_table(compact)
    compact.add_argument(
        "--partition",
        metavar="K=V,…",
        action="append",
        type=_partition,
        help="only partitions with these values, null as __DEFAULT_PARTITION__, "
        'or as JSON {"K": "V"}; may be repeated',
    )
    compact.add_argument(
        "--bucket",
        metavar="N",
        action="append",
        type=_number(0),
        help="only this bucket; may be repeated",
    )
    compact.add_argument(
        "--full",
        action="store_true",
        help="all that is not one sorted run yet, or holds small files or deletions",
    )
    compact.add_argument(
        "--min-files",
        metavar="N",
        type=_number(2),
        help="worth it from so many small files, or sorted runs (default: the table's options)",
    )
    sort = _subcommand(
        verbs,
        "sort-compact",
        f"{command} a sorting: an append table's rows in an order that lets filters skip files",
        f"lakewright {command} sort-compact nyc.flights --by carrier,distance --order zorder",
    )
    _add_table(sort)
    sort.add_argument(
        "--by", metavar="COLUMN,…", type=_names, help="the columns; needed unless --plan is given"
    )
    sort.add_argument(
        "--order",
        choices=("order", "zorder", "hilbert"),
        help="one column after the other (order, the default), or along a curve on which rows "
        "near each other in every column lie together",
    )
    sort.add_argument(
        "--partition",
        metavar="K=V,…",
        action="append",
        type=_partition,
        help="only partitions with these values, as for compact; may be repeated",
    )
    rescale = _subcommand(
        verbs,
        "rescale",
        f"{command} a rescale: the rows of a table, or of some partitions, in other buckets",
        f"lakewright {command} rescale shop.orders --buckets 8 --partition dt=2024-01-01",
    )
    _add_table(rescale)
    rescale.add_argument(
        "--buckets", metavar="N", type=_number(1), help="so many; needed unless --plan is given"
    )
    postponed = _subcommand(
        verbs,
        "postpone-compact",
        f"{command} the move of postponed rows (bucket=-2) into buckets, where readers see them",
        f"lakewright {command} postpone-compact shop.orders",
    )
    _add_table(postponed)
    for each in (rescale, postponed):
        each.add_argument(
            "--partition",
            metavar="K=V,…",
            action="append",
            type=_partition,
            help="only partitions with these values, as for compact; may be repeated",
        )
    expire = _subcommand(
        verbs,
        "expire-snapshots",
        f"{command} an expiry: old snapshots go, and the files only they need",
        f"lakewright {command} expire-snapshots nyc.flights --retain-min 5 --older-than 7d",
    )
    _add_table(expire)
    expire.add_argument(
        "--retain-min", metavar="N", type=_number(1), help="keep at least so many snapshots"
    )
    expire.add_argument(
        "--retain-max", metavar="N", type=_number(1), help="keep at most so many, however young"
    )
    expire.add_argument(
        "--older-than",
        metavar="AGE",
        type=_age_ms,
        help="let go what is older, such as 30min, 1h or 7d (default: the table's option)",
    )
    expire.add_argument(
        "--max-deletes", metavar="N", type=_number(1), help="let at most so many snapshots go"
    )
    if command == "run":
        expire.add_argument(
            "--max-time",
            metavar="AGE",
            type=_age_ms,
            help="begin no further step after such a time, as 30min (default: until all is done)",
        )
    for each in (compact, sort, rescale, postponed, expire):
        _add_json(each)
        if command == "run":
            each.add_argument(
                "--dry-run", action="store_true", help="say what would be done; write nothing"
            )
            each.add_argument(
                "--plan",
                metavar="FILE",
                help=f"do what `plan {each.prog.split()[-1]} --json` wrote, - for standard input",
            )
    for each in (compact, sort, rescale, postponed) if command == "run" else ():
        each.add_argument(
            "--engine",
            choices=("local", "spark"),
            default="local",
            help="where files are rewritten: in this process, or on Spark",
        )
        each.add_argument(
            "--verify",
            choices=("counts", "checksums", "full"),
            default="checksums",
            help="what is proved before it is published: that rows are as many; that they have the "
            "same checksums (the default); that the new files, read back, have them too",
        )


def _add_tag(commands: Commands) -> None:
    parent = _subcommand(
        commands,
        "tag",
        "name states of a table, which then outlive expiry",
        "lakewright tag create nyc.flights before-the-import",
    )
    verbs = parent.add_subparsers(dest="verb", required=True, metavar="VERB")
    listed = _subcommand(verbs, "list", "list a table's tags", "lakewright tag list nyc.flights")
    create = _subcommand(
        verbs,
        "create",
        "name a snapshot",
        "lakewright tag create nyc.flights q4 --snapshot 12 --retain 90d",
    )
    rename = _subcommand(
        verbs, "rename", "give a tag another name", "lakewright tag rename nyc.flights q4 q4-2013"
    )
    deletion = _subcommand(
        verbs,
        "delete",
        "delete tags, and the files that only they keep",
        "lakewright tag delete nyc.flights q3 q4 --dry-run",
    )
    expire = _subcommand(
        verbs,
        "expire",
        "delete tags past their time, and automatic ones beyond their number",
        "lakewright tag expire nyc.flights --dry-run",
    )
    for each in (listed, create, rename, deletion, expire):
        _add_table(each)
    for each in (create, rename):
        each.add_argument("name", metavar="TAG")
    create.add_argument(
        "--snapshot", metavar="N", type=_number(1), help="this snapshot (default: the latest)"
    )
    create.add_argument(
        "--retain",
        metavar="AGE",
        type=_age_ms,
        help="let the tag expire after such a time, as 12h or 90d (default: the table's option)",
    )
    create.add_argument(
        "--replace", action="store_true", help="let a tag that exists stand for another snapshot"
    )
    rename.add_argument("new_name", metavar="NEW")
    deletion.add_argument("names", metavar="TAG", nargs="+")
    expire.add_argument(
        "--older-than", metavar="AGE", type=_age_ms, help="older ones too, whatever they say"
    )
    _add_json(listed)
    for each in (deletion, expire):
        _add_dry_run(each)


def _add_branch(commands: Commands) -> None:
    parent = _subcommand(
        commands,
        "branch",
        "keep second histories of a table, which share its files",
        "lakewright branch create nyc.flights trial --tag q4",
        "The table of a branch is 'DB.TABLE$branch_NAME', for every subcommand.",
    )
    verbs = parent.add_subparsers(dest="verb", required=True, metavar="VERB")
    listed = _subcommand(
        verbs, "list", "list a table's branches", "lakewright branch list nyc.flights"
    )
    create = _subcommand(
        verbs,
        "create",
        "begin a branch where a tag or snapshot is, without either empty",
        "lakewright branch create nyc.flights trial --tag q4",
    )
    deletion = _subcommand(
        verbs,
        "delete",
        "delete a branch, and the files that only it keeps",
        "lakewright branch delete nyc.flights trial --dry-run",
    )
    forward = _subcommand(
        verbs,
        "fast-forward",
        "let the table become what a branch is; its own snapshots since the branch began go, all "
        "of them if it began empty",
        "lakewright branch fast-forward nyc.flights trial --dry-run",
    )
    for each in (listed, create, deletion, forward):
        _add_table(each)
    for each in (create, deletion, forward):
        each.add_argument("name", metavar="BRANCH")
    start = create.add_mutually_exclusive_group()
    start.add_argument("--tag", metavar="TAG", help="begin at this tag")
    start.add_argument("--snapshot", metavar="N", type=_number(1), help="begin at this snapshot")
    _add_json(listed)
    for each in (deletion, forward):
        _add_dry_run(each)


def _add_rollback(commands: Commands) -> None:
    rollback = _subcommand(
        commands,
        "rollback",
        "let a table become what it was; later snapshots and tags go, and their files",
        "lakewright rollback nyc.flights --tag before-the-import --dry-run",
    )
    _add_table(rollback)
    target = rollback.add_mutually_exclusive_group(required=True)
    target.add_argument("--snapshot", metavar="N", type=_number(1), help="to this snapshot")
    target.add_argument("--tag", metavar="TAG", help="to this tag")
    target.add_argument(
        "--as-of",
        metavar="TIME",
        type=_moment_ms,
        help="to the last snapshot that is not after an ISO time (UTC unless it says otherwise)",
    )
    _add_dry_run(rollback)


def _add_consumer(commands: Commands) -> None:
    parent = _subcommand(
        commands,
        "consumer",
        "see and set how far readers of changes have come, which holds expiry back",
        "lakewright consumer list nyc.flights",
    )
    verbs = parent.add_subparsers(dest="verb", required=True, metavar="VERB")
    listed = _subcommand(
        verbs, "list", "list a table's consumers", "lakewright consumer list nyc.flights"
    )
    set_to = _subcommand(
        verbs,
        "set",
        "let a consumer read on from a snapshot",
        "lakewright consumer set nyc.flights dashboards 12",
    )
    deletion = _subcommand(
        verbs, "delete", "forget a consumer", "lakewright consumer delete nyc.flights dashboards"
    )
    for each in (listed, set_to, deletion):
        _add_table(each)
    for each in (set_to, deletion):
        each.add_argument("name", metavar="CONSUMER")
    set_to.add_argument("next", metavar="N", type=_number(1), help="the next snapshot to read")
    _add_json(listed)


def _add_pending(commands: Commands) -> None:
    parent = _subcommand(
        commands,
        "pending",
        "see, commit and abort batches that writers staged and keep",
        "lakewright pending list nyc.flights",
    )
    verbs = parent.add_subparsers(dest="verb", required=True, metavar="VERB")
    listed = _subcommand(
        verbs, "list", "list batches that wait", "lakewright pending list nyc.flights"
    )
    commit = _subcommand(
        verbs,
        "commit",
        "publish a writer's batches in order, each once",
        "lakewright pending commit nyc.flights loader --up-to 17",
    )
    abort = _subcommand(
        verbs,
        "abort",
        "delete a batch with its files",
        "lakewright pending abort nyc.flights loader 18",
    )
    for each in (listed, commit, abort):
        _add_table(each)
    for each in (commit, abort):
        each.add_argument("user", metavar="USER", help="the commit user, as listed")
    commit.add_argument(
        "--up-to", metavar="BATCH", type=_number(0), help="the last one to publish (default: all)"
    )
    abort.add_argument("batch", metavar="BATCH", type=_number(0), help="its identifier, as listed")
    _add_json(listed)


def _add_lease(commands: Commands) -> None:
    parent = _subcommand(
        commands,
        "lease",
        "see who works on a table, and end what the dead still hold",
        "lakewright lease list nyc.flights",
    )
    verbs = parent.add_subparsers(dest="verb", required=True, metavar="VERB")
    listed = _subcommand(
        verbs, "list", "list who works on which part", "lakewright lease list nyc.flights"
    )
    breaking = _subcommand(
        verbs,
        "break",
        "take a lease from its holder; maintenance publishes nothing more, a write goes on",
        "lakewright lease break nyc.flights 3f2a9c01",
    )
    for each in (listed, breaking):
        _add_table(each)
    breaking.add_argument("id", metavar="LEASE", help="the lease, by the beginning of its id")
    _add_json(listed)


def _add_changelog(commands: Commands) -> None:
    parent = _subcommand(
        commands,
        "changelog",
        "see and expire changes that outlived their snapshots",
        "lakewright changelog expire nyc.flights --dry-run",
    )
    verbs = parent.add_subparsers(dest="verb", required=True, metavar="VERB")
    listed = _subcommand(
        verbs,
        "list",
        "list a table's long-lived changelogs",
        "lakewright changelog list nyc.flights",
    )
    expire = _subcommand(
        verbs,
        "expire",
        "delete changelogs beyond the number and the age that the table's options retain",
        "lakewright changelog expire nyc.flights --dry-run",
    )
    for each in (listed, expire):
        _add_table(each)
    expire.add_argument("--all", action="store_true", help="every one, whatever the options say")
    _add_json(listed)
    _add_dry_run(expire)


def _add_remove_orphans(commands: Commands) -> None:
    remove = _subcommand(
        commands,
        "remove-orphans",
        "set aside files that nothing refers to, left behind by processes that died",
        "lakewright remove-orphans nyc.flights --older-than 3d --dry-run",
        "They go to a quarantine beside the table: see lakewright quarantine --help.",
    )
    _add_table(remove)
    remove.add_argument(
        "--older-than",
        metavar="AGE",
        type=_age_ms,
        help="only files of at least that age by the clock of the store (default: 1d); a write "
        "that is under way longer loses its files",
    )
    remove.add_argument(
        "--even-recent",
        action="store_true",
        help="let AGE be less than an hour: nobody writes to the table now",
    )
    remove.add_argument(
        "--delete",
        action="store_true",
        dest="at_once",
        help="delete them at once, with no way back",
    )
    _add_dry_run(remove)


def _add_quarantine(commands: Commands) -> None:
    parent = _subcommand(
        commands,
        "quarantine",
        "see files that were set aside, bring them back, or delete them for good",
        "lakewright quarantine list nyc.flights",
    )
    verbs = parent.add_subparsers(dest="verb", required=True, metavar="VERB")
    listed = _subcommand(
        verbs, "list", "list a table's quarantines", "lakewright quarantine list nyc.flights"
    )
    restore = _subcommand(
        verbs,
        "restore",
        "bring files back to where they were, as they were",
        "lakewright quarantine restore nyc.flights 20240131-134500-1f0c2d3e --dry-run",
    )
    purge = _subcommand(
        verbs,
        "purge",
        "delete what has been in quarantine for long enough",
        "lakewright quarantine purge nyc.flights --older-than 30d --dry-run",
        "What something refers to by now is not deleted but comes back.",
    )
    for each in (listed, restore, purge):
        _add_table(each)
    restore.add_argument("quarantine", metavar="ID", help="a quarantine, as list names it")
    restore.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        help="only these files, by their paths below the table (default: all)",
    )
    purge.add_argument(
        "quarantines", metavar="ID", nargs="*", help="these quarantines, whatever their age"
    )
    purge.add_argument(
        "--older-than",
        metavar="AGE",
        type=_age_ms,
        help="quarantines of at least that age by the clock of the store (default: 7d)",
    )
    _add_json(listed)
    for each in (restore, purge):
        _add_dry_run(each)


def _add_dry_run(parser: Parser) -> None:
    _add_json(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be done; write nothing"
    )


def _add_workspace(commands: Commands) -> None:
    _subcommand(
        commands,
        "demo",
        "ingest real flights through Dagster and Spark, compact, expire, and show what happened",
        "lakewright demo",
    )
    up = _subcommand(
        commands, "up", "open the workspace in the Dagster UI", "lakewright up --port 3001"
    )
    up.add_argument(
        "--port", metavar="N", type=_number(1), default=3000, help="(default: %(default)s)"
    )


def _add_warehouse(parser: Parser, *, default: str | None) -> None:
    parser.add_argument(
        "--warehouse",
        metavar="URI",
        default=default,
        help=f"path or URI of the warehouse (default: ${WAREHOUSE_VARIABLE}, "
        f"else {DEFAULT_WAREHOUSE})",
    )


def _add_table(parser: Parser) -> None:
    parser.add_argument("table", metavar="DB.TABLE", help="a table, as `lakewright ls` names it")


def _add_json(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON value, for scripts")


def _add_where(parser: Parser) -> None:
    parser.add_argument("--where", metavar="EXPR", help="a filter; see below")


def _add_rows(parser: Parser) -> None:
    parser.add_argument("--limit", metavar="N", type=_number(0), help="at most so many rows")
    parser.add_argument("--format", choices=("table", "json", "csv"), default="table")


def _add_snapshot(parser: _ActionsContainer) -> None:
    parser.add_argument(
        "--snapshot", metavar="N", type=_number(1), help="as of this snapshot (default: the latest)"
    )


# --- values ------------------------------------------------------------------------------------


def _number(minimum: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if value < minimum:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {minimum} on")
        return value

    return number


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} holds an empty name; write A,B")
    if len(set(names)) != len(names):
        raise argparse.ArgumentTypeError(f"{text!r} names a column twice")
    return names


def _bounds(text: str) -> tuple[str, str]:
    first, comma, last = text.partition(",")
    if not comma or not first.strip() or not last.strip() or "," in last:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form A,B")
    return first.strip(), last.strip()


def _times(text: str) -> tuple[dt.datetime, dt.datetime]:
    first, last = _bounds(text)
    return _moment(first), _moment(last)


def _moment(text: str) -> dt.datetime:
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time such as 2024-01-31T13:45:00 or 2024-01-31T13:45:00+01:00"
        ) from None
    return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment


def _moment_ms(text: str) -> int:
    return (_moment(text) - _EPOCH) // dt.timedelta(milliseconds=1)


def _partition(text: str) -> dict[str, object]:
    if text.startswith("{"):
        try:
            spec: dict[str, object] = json.loads(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} is no JSON: {error}") from None
        return spec
    # A comma separates only where another `name=` follows: values may hold commas too.
    pairs = [pair.split("=", 1) for pair in re.split(r",(?=[^,=]+=)", text)]
    named = {pair[0].strip(): pair[1] for pair in pairs if len(pair) == 2}
    if len(named) != len(pairs) or not all(named):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value,key2=value2")
    return {**named}


def _age_ms(text: str) -> int:
    # Imported by those who give an age: help and other commands need no storage for it.
    from lakewright.platform.declare.durations import duration_ms
    from lakewright.storage.errors import InvalidRequestError

    try:
        return duration_ms(text)
    except InvalidRequestError as error:
        raise argparse.ArgumentTypeError(error.message) from None
