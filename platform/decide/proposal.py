"""Proposes one policy file for a warehouse, from the surveys of its tables.

1. For each table alone: what should hold for it, and why. What its own options say stays.
2. A value that most tables share is written once: for the warehouse, a database, or a pattern of
   names that fits exactly the tables that agree; what is left is written for single tables.
3. Every line has a comment with its reason and its numbers.

A pure function: equal surveys give an equal file.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap

from lakewright.platform.decide.debt import (
    USUAL_SNAPSHOTS,
    Debt,
    debt_of,
    findings,
    snapshots_behind,
    total_debt,
    worst_first,
)
from lakewright.platform.decide.survey import TableSurvey
from lakewright.platform.upkeep.words import counted, size_text

_WIDTH = 96
_MIB, _GIB = 1 << 20, 1 << 30
# A database or pattern is worth a line of its own from so many tables on.
_SEVERAL = 3
_KEPT = "7d"
# Debt is to be gone after so many days, by rewrites of so many bytes a second.
_DAYS = 7
_BYTES_A_SECOND = 32 * _MIB
_LEAST_BUDGET_GIB = 10
_MOST_NOTES = 20
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})

FREEZE = "freeze"
SMALL_FILES = "compaction.small_files"
MIN_BYTES = "compaction.min_bytes"
TIME_RETAINED = "snapshots.time_retained"
RETAIN_MIN = "snapshots.retain_min"
OLDER_THAN = "orphans.older_than"
_SWITCHES = {
    "compact": ("compaction.enabled", "sort.enabled"),
    "expire": (
        "snapshots.enabled",
        "tags.enabled",
        "changelogs.enabled",
        "partitions.enabled",
    ),
    "orphans": ("orphans.enabled",),
}
_KEYS = (
    FREEZE,
    "compaction.enabled",
    SMALL_FILES,
    MIN_BYTES,
    "sort.enabled",
    "snapshots.enabled",
    RETAIN_MIN,
    TIME_RETAINED,
    "tags.enabled",
    "changelogs.enabled",
    "partitions.enabled",
    "orphans.enabled",
    OLDER_THAN,
)

# What should hold for a table, by key; values as YAML has them.
Wishes = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Line:
    """A key with its value, the tables it is for, and why."""

    key: str
    value: str
    tables: tuple[TableSurvey, ...]


@dataclass(slots=True)
class _File:
    """The lines of each part of the file."""

    warehouse: list[_Line] = field(default_factory=list)
    databases: dict[str, list[_Line]] = field(default_factory=dict)
    patterns: dict[str, list[_Line]] = field(default_factory=dict)
    tables: dict[str, list[_Line]] = field(default_factory=dict)


def propose(surveys: Iterable[TableSurvey], *, warehouse: str) -> str:
    """The text of a policy file for the surveyed tables of a warehouse."""
    every = sorted(surveys, key=lambda each: each.table)
    wishes = {each.table: _wishes(each) for each in every}
    found = _File()
    for key in _KEYS:
        _share(found, key, every, wishes)
    return "\n".join(_text(found, every, warehouse)) + "\n"


# --- one table --------------------------------------------------------------------------------


def _wishes(survey: TableSurvey) -> Wishes:
    """What should hold for a table by itself."""
    is_left = survey.read_only is not None or survey.refused.keys() >= _SWITCHES.keys()
    if survey.problem is not None or is_left:
        return {FREEZE: "true"}
    wishes = {SMALL_FILES: str(_threshold(survey))}
    if _has_tiny_files(survey):
        wishes[MIN_BYTES] = "32 MB"
    # Null leaves the choice to the table's own options, which a wider policy would overrule.
    own = _own_retention(survey)
    wishes[TIME_RETAINED] = "null" if own else _KEPT
    wishes[RETAIN_MIN] = "null" if own else "10"
    if survey.orphans.estimated_files:
        wishes[OLDER_THAN] = "3d"
    for use, switches in _SWITCHES.items():
        if use in survey.refused:
            section = {key.split(".")[0] for key in switches}
            wishes = {
                key: value for key, value in wishes.items() if key.split(".")[0] not in section
            }
            wishes |= dict.fromkeys(switches, "false")
    return wishes


def _threshold(survey: TableSurvey) -> int:
    """When to compact: where writers compact too, only what they did not keep up with."""
    trigger = _writers_trigger(survey)
    return trigger if _only_writes(survey) or _none_has(2 * trigger, survey) else 2 * trigger


def _none_has(count: int, survey: TableSurvey) -> bool:
    """Small files lie about, and no bucket has so many of them that a compaction would begin."""
    return survey.files.mergeable_files > 0 and _most_in_bucket(survey) < count


def _most_in_bucket(survey: TableSurvey) -> int:
    """What a compaction counts before it begins: sorted runs of a keyed table, else small files."""
    return survey.files.sorted_runs if survey.keyed else survey.files.most_in_bucket


def _writers_trigger(survey: TableSurvey) -> int:
    option = "num-sorted-run.compaction-trigger" if survey.keyed else "compaction.min.file-num"
    given = survey.options.get(option, "").strip()
    return max(int(given), 2) if given.isdigit() else 5


def _only_writes(survey: TableSurvey) -> bool:
    return survey.options.get("write-only", "").strip().lower() == "true"


def _has_tiny_files(survey: TableSurvey) -> bool:
    files = survey.files
    return 0 < files.mergeable_bytes < files.mergeable_files * _MIB


def _own_retention(survey: TableSurvey) -> list[str]:
    """The table's own options on retention, as `name=value`."""
    return [
        f"{name}={value}"
        for name, value in sorted(survey.options.items())
        if name.startswith(("snapshot.time-retained", "snapshot.num-retained"))
    ]


# --- what tables share ------------------------------------------------------------------------


def _share(
    found: _File, key: str, every: Sequence[TableSurvey], wishes: Mapping[str, Wishes]
) -> None:
    """Write the values of one key where the fewest lines say them."""
    asking = [each for each in every if key in wishes[each.table]]
    if not asking:
        return
    # Nothing is frozen or switched off for tables that do not ask for it.
    narrow = key == FREEZE or key.endswith(".enabled")
    common = None if narrow else _most_common(asking, key, wishes)
    if common is not None:
        agree = [each for each in asking if wishes[each.table][key] == common]
        found.warehouse.append(_Line(key, common, tuple(agree)))
    for database, of_database in _by_database(every).items():
        there = [each for each in of_database if key in wishes[each.table]]
        inherited = common
        shared = _most_common(there, key, wishes)
        may = not narrow or len(there) == len(of_database)
        if may and shared is not None and shared != common and len(there) >= _SEVERAL:
            agree = [each for each in there if wishes[each.table][key] == shared]
            found.databases.setdefault(database, []).append(_Line(key, shared, tuple(agree)))
            inherited = shared
        _write_exceptions(found, key, inherited, of_database, wishes)


def _write_exceptions(
    found: _File,
    key: str,
    inherited: str | None,
    of_database: Sequence[TableSurvey],
    wishes: Mapping[str, Wishes],
) -> None:
    left: dict[str, list[TableSurvey]] = {}
    for each in of_database:
        wish = wishes[each.table].get(key)
        # Null takes away what holds for more tables; where nothing does, it says nothing.
        if wish is not None and wish != inherited and (wish != "null" or inherited is not None):
            left.setdefault(wish, []).append(each)
    for value, tables in left.items():
        alike = _stems(tables, of_database)
        for pattern, matched in alike.items():
            found.patterns.setdefault(pattern, []).append(_Line(key, value, tuple(matched)))
        named = {each.table for matched in alike.values() for each in matched}
        for table in tables:
            if table.table not in named:
                found.tables.setdefault(table.table, []).append(_Line(key, value, (table,)))


def _stems(
    tables: Sequence[TableSurvey], of_database: Sequence[TableSurvey]
) -> dict[str, list[TableSurvey]]:
    """Patterns that fit several of the tables, and no other table of the database."""
    by_stem: dict[str, list[TableSurvey]] = {}
    for table in tables:
        by_stem.setdefault(_stem(table.table), []).append(table)
    return {
        f"{stem}*": matched
        for stem, matched in by_stem.items()
        if len(matched) >= _SEVERAL
        and not re.search(r"[*?\[]", stem)
        and sum(each.table.startswith(stem) for each in of_database) == len(matched)
    }


def _stem(table: str) -> str:
    """A name up to its first separator or digit: `db.tmp_` of `db.tmp_2024`."""
    database, _, name = table.partition(".")
    found = re.match(r"[^_\-\d]+[_\-]?", name)
    return f"{database}.{found[0] if found else name}"


def _by_database(every: Iterable[TableSurvey]) -> dict[str, list[TableSurvey]]:
    found: dict[str, list[TableSurvey]] = {}
    for each in every:
        found.setdefault(each.table.split(".", 1)[0], []).append(each)
    return found


def _most_common(
    tables: Sequence[TableSurvey], key: str, wishes: Mapping[str, Wishes]
) -> str | None:
    """The value of most tables, None if none has more than half."""
    counts = Counter(wishes[table.table][key] for table in tables)
    value, count = counts.most_common(1)[0] if counts else ("", 0)
    return value if 2 * count > len(tables) and value != "null" else None


# --- text -------------------------------------------------------------------------------------


def _text(found: _File, every: Sequence[TableSurvey], warehouse: str) -> Iterator[str]:
    debt = total_debt(every)
    yield from _comment(_head(every, debt, warehouse), "")
    yield "warehouse:"
    yield from _comment(
        "Shadow: decisions are made, predicted and recorded, and nothing is done. Change it to "
        "live when you have read them.",
        "  ",
    )
    yield "  mode: shadow"
    yield from _budget(debt)
    yield from _sections(found.warehouse, "  ")
    for title, parts in (("databases", found.databases), ("tables", found.tables)):
        if title == "tables" and found.patterns:
            yield ""
            yield "patterns:"
            for pattern in sorted(found.patterns):
                yield f"  - match: {json.dumps(pattern, ensure_ascii=False)}"
                yield from _sections(found.patterns[pattern], "    ")
        if parts:
            yield ""
            yield f"{title}:"
            for name in sorted(parts):
                yield f"  {_name(name)}:"
                yield from _sections(parts[name], "    ")
    yield from _notes(every)


def _head(every: Sequence[TableSurvey], debt: Debt, warehouse: str) -> str:
    files = sum(each.files.files for each in every)
    size = sum(each.files.bytes for each in every)
    return (
        f"Proposed for {warehouse} from metadata alone: {counted(len(every), 'table')} with "
        f"{counted(files, 'file')}, {size_text(size)}. Upkeep could take away about "
        f"{counted(debt.files, 'file')}, and would read {size_text(debt.bytes)} to join small ones."
    )


def _budget(debt: Debt) -> Iterator[str]:
    gib = max(-(-debt.bytes // (_DAYS * _GIB)), _LEAST_BUDGET_GIB)
    hours = min(max(-(-gib * _GIB // (_BYTES_A_SECOND * 3600)), 1), 12)
    days = counted(max(-(-debt.bytes // (gib * _GIB)), 1), "day")
    why = f"{size_text(debt.bytes)} wait to be joined: at most {days} at this rate"
    yield from _comment(f"What upkeep may rewrite in a day. {why}.", "  ")
    yield "  budget:"
    yield f"    bytes: {gib} GB"
    yield f"    time: {hours}h"


def _sections(lines: Sequence[_Line], indent: str) -> Iterator[str]:
    section = ""
    for line in lines:
        first, _, below = line.key.partition(".")
        if below and first != section:
            yield f"{indent}{first}:"
        section = first
        inner = f"{indent}  " if below else indent
        yield from _comment(_why(line), inner)
        yield f"{inner}{below or first}: {line.value}"


def _why(line: _Line) -> str:
    """The reason of a line, with its numbers."""
    tables, first = line.tables, line.tables[0]
    how_many = counted(len(tables), "table")
    if line.key == FREEZE:
        told = findings(first)[0]
        return told if len(tables) == 1 else f"{how_many}; {first.table} {told}"
    if line.key.endswith(".enabled"):
        use = next(use for use, switches in _SWITCHES.items() if line.key in switches)
        return f"{how_many}: {first.refused[use]}"
    if line.key == SMALL_FILES:
        return f"{how_many}: {_compaction_text(tables)}"
    if line.key == MIN_BYTES:
        return (
            f"{how_many} whose small files have less than 1 MiB on average: a partition waits "
            "until a rewrite is worth it, or for an hour after its last write"
        )
    if line.key == TIME_RETAINED and line.value == "null":
        return f"its own options stay: {', '.join(_own_retention(first))}"
    if line.key == TIME_RETAINED:
        return _retention_text(tables)
    if line.key == RETAIN_MIN and line.value == "null":
        return "as its own options say"
    if line.key == RETAIN_MIN:
        return "as many snapshots stay at least, however old they are"
    files = sum(table.orphans.estimated_files for table in tables)
    size = sum(table.orphans.estimated_bytes for table in tables)
    return (
        f"{how_many} with up to {counted(files, 'file')} ({size_text(size)}) that the latest "
        "snapshot does not name; older snapshots may need them. Files of a write in progress are "
        "younger than this"
    )


def _compaction_text(tables: Sequence[TableSurvey]) -> str:
    files = sum(table.files.mergeable_files for table in tables)
    size = sum(table.files.mergeable_bytes for table in tables)
    runs = max(table.files.sorted_runs for table in tables)
    told = f"{counted(files, 'file')} ({size_text(size)}) could be joined"
    if runs > 1:
        told += f", up to {counted(runs, 'sorted run')} in a bucket"
    if all(map(_only_writes, tables)):
        return f"{told}; write-only is set, so no writer compacts"
    triggers = sorted({_writers_trigger(table) for table in tables if not _only_writes(table)})
    if any(_none_has(2 * _writers_trigger(table), table) for table in tables):
        most = max(map(_most_in_bucket, tables))
        return f"{told}. No bucket has more than {most}, so a compaction begins at what writers use"
    shown = " or ".join(map(str, triggers))
    return f"{told}; writers may compact at {shown} themselves, so this takes what they leave"


def _retention_text(tables: Sequence[TableSurvey]) -> str:
    worst = max(tables, key=lambda each: (each.history.snapshots, each.table))
    total = sum(table.history.snapshots for table in tables)
    piled = sum(table.history.snapshots > USUAL_SNAPSHOTS for table in tables)
    told = (
        f"{counted(len(tables), 'table')} without a rule of their own keep "
        f"{counted(total, 'snapshot')}"
    )
    if piled:
        told += (
            f", {counted(piled, 'table')} more than {USUAL_SNAPSHOTS} "
            f"({worst.table}: {counted(worst.history.snapshots, 'snapshot')})"
        )
    return f"{told}. Without this line the default of the format would keep an hour"


def _notes(every: Sequence[TableSurvey]) -> Iterator[str]:
    """What no line of a policy can mend, and the worst tables."""
    worst = [each for each in worst_first(every) if each.problem is None and debt_of(each).files]
    if worst:
        yield ""
        yield "# The most debt:"
        for each in worst[:_MOST_NOTES]:
            yield from _comment(f"{each.table}: {'; '.join(findings(each))}", "", hang="  ")
    held = [each for each in every if snapshots_behind(each)]
    if held:
        yield ""
        yield from _comment(
            "Consumers that keep snapshots from expiring; delete those that no reader uses "
            "(lakewright consumer delete):",
            "",
        )
        for each in held[:_MOST_NOTES]:
            behind = counted(snapshots_behind(each), "snapshot")
            yield from _comment(f"{each.table}: {behind}", "", hang="  ")


def _comment(text: str, indent: str, *, hang: str = "") -> Iterator[str]:
    # Line breaks and control characters of messages would end the comment.
    plain = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    for number, line in enumerate(wrap(plain, _WIDTH - len(indent) - 2, break_long_words=False)):
        yield f"{indent}# {hang if number else ''}{line}"


def _name(name: str) -> str:
    """A name as a key of YAML."""
    plain = _PLAIN.fullmatch(name) and name.lower() not in _WORDS
    return name if plain else json.dumps(name, ensure_ascii=False)
