"""Finds stored values that a change of types or nulls loses, in which files, tags and branches.

1. Take the parts of columns that the change casts, unless to a wider type, or makes NOT NULL, and
   those of older files if the change sets another cast mode.
2. Ask the statistics of each live file, and of each file that a tag or a branch holds, under the
   file's own schema. They prove a loss, prove that there is none, or do not tell.
3. Count in the files themselves, if a scan is asked for, where statistics do not tell the number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakewright.storage.codec.cast_survival import NO_LOSS, UNKNOWN_LOSS, KnownLoss, known_loss
from lakewright.storage.operations.schema.proposed_schema import ProposedSchema
from lakewright.storage.operations.schema.scan_values import Count, Question, scanned
from lakewright.storage.operations.schema.stored_files import StoredFile, StoredFiles
from lakewright.storage.spec.cast_rules import cast_rule
from lakewright.storage.spec.changed_parts import ChangedPart, changed_parts, retyped_parts
from lakewright.storage.spec.predicate import Bounds
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.schema_change import path_text
from lakewright.storage.spec.schema_gate import Compatibility, Finding, Rule, Severity
from lakewright.storage.spec.values import to_python

# How many files, partitions and examples a finding names.
_MOST_NAMED = 20
_MOST_SHOWN = 3

# A part by its identity, and whether its nulls are meant.
_Subject = tuple[tuple[int | str, ...], bool]


@dataclass(frozen=True, slots=True)
class _Loss:
    """What a file loses: a number, exact or the least; None if it may lose any number."""

    question: Question
    lost: int | None
    is_exact: bool
    shown: str = ""

    @property
    def stored(self) -> StoredFile:
        return self.question.stored


def losing_columns(proposed: ProposedSchema) -> Iterator[Finding]:
    """Findings for each column that loses values, or may lose some."""
    asked = _asked(proposed)
    if not asked and not proposed.changes_fates:
        return
    losses = [
        loss
        for stored in proposed.judged_files
        for question in _questions(proposed, stored)
        if (_subject(question) in asked or _gets_another_fate(proposed, question))
        and (loss := _by_statistics(proposed.stored, question)) is not None
    ]
    if proposed.rules.is_scanned:
        losses = _with_scan(proposed, losses)
    grouped: dict[tuple[_Subject, bool, bool], list[_Loss]] = {}
    for loss in losses:
        key = (_subject(loss.question), loss.stored.is_live, loss.lost is None)
        grouped.setdefault(key, []).append(loss)
    for (_, _, is_unknown), found in grouped.items():
        yield _unknown(proposed, found) if is_unknown else _proved(proposed, found)


def _asked(proposed: ProposedSchema) -> set[_Subject]:
    """The parts whose values the change may lose, though some files may lose none."""
    old, new = proposed.old.fields, proposed.new.fields
    asked = {subject for part in changed_parts(old, new) for subject in _subjects(part)}
    # A file may have an older type, and its values may survive the cast to today's type alone.
    asked |= {(part.identity, False) for part in retyped_parts(old, new) if not part.is_widened}
    return asked


def _gets_another_fate(proposed: ProposedSchema, question: Question) -> bool:
    """Whether readers treat values of a file that do not fit in another way, by the cast mode."""
    cast = question.part.cast
    if not proposed.changes_fates or question.of_nulls or cast is None:
        return False
    return cast_rule(*cast).unfit is not None


def _subjects(part: ChangedPart) -> Iterator[_Subject]:
    if part.cast is not None:
        yield part.identity, False
    if part.refuses_null:
        yield part.identity, True


def _subject(question: Question) -> _Subject:
    return question.part.identity, question.of_nulls


def _questions(proposed: ProposedSchema, stored: StoredFile) -> Iterator[Question]:
    schema = proposed.stored.schemas_of(stored).schema_of(stored.file)
    columns = stored.file.write_cols
    for part in proposed.parts_of(stored.seen, schema):
        if columns is not None and part.steps[:1] != () and part.steps[0] not in columns:
            # Another file holds this column of the same rows.
            continue
        for _, of_nulls in _subjects(part):
            yield Question(stored=stored, part=part, of_nulls=of_nulls)


def _by_statistics(stored_files: StoredFiles, question: Question) -> _Loss | None:
    """What a file loses by its statistics; None if that is nothing."""
    stored, part = question.stored, question.part
    if not part.steps:
        rows = stored.file.row_count
        return _Loss(question, rows, is_exact=True, shown="no such column") if rows else None
    bounds = stored_files.schemas_of(stored).bounds_of(stored.file).get(part.steps[0])
    loss = _loss_of_nulls(bounds, part) if question.of_nulls else _loss_of_cast(bounds, part)
    if loss.is_none:
        return None
    at_least, is_all = loss.at_least, loss.is_all
    deleted = _deleted_rows(stored_files.schemas_of(stored).schema_of(stored.file), stored)
    if deleted is not None and deleted >= stored.file.row_count:
        return None
    if deleted != 0:
        # Rows that are deleted, or that delete others, may be those that are lost.
        at_least, is_all = 0 if deleted is None else max(0, at_least - deleted), False
    if not at_least:
        return _Loss(question, None, is_exact=False)
    shown = "" if question.of_nulls else _shown(bounds, part)
    return _Loss(question, at_least, is_exact=is_all, shown=shown)


def _deleted_rows(schema: TableSchema, stored: StoredFile) -> int | None:
    """How many rows of a file no read returns, or more; None if that is not known."""
    deleting = stored.file.delete_row_count if schema.is_keyed else 0
    marked = 0 if stored.deletions is None else stored.deletions[1].cardinality
    return None if deleting is None or marked is None else deleting + marked


def _loss_of_nulls(bounds: Bounds | None, part: ChangedPart) -> KnownLoss:
    if bounds is None or bounds.null_count is None:
        return UNKNOWN_LOSS
    if part.is_column:
        return KnownLoss(bounds.null_count, is_all=True)
    return NO_LOSS if bounds.all_null else UNKNOWN_LOSS


def _loss_of_cast(bounds: Bounds | None, part: ChangedPart) -> KnownLoss:
    assert part.cast is not None
    if part.is_column:
        return known_loss(bounds, *part.cast)
    return NO_LOSS if bounds is not None and bounds.all_null else UNKNOWN_LOSS


def _shown(bounds: Bounds | None, part: ChangedPart) -> str:
    if bounds is None or part.stored is None:
        return ""
    low, high = (to_python(each, part.stored) for each in (bounds.minimum, bounds.maximum))
    return f"{low!s:.40} to {high!s:.40}"


def _with_scan(proposed: ProposedSchema, losses: Sequence[_Loss]) -> list[_Loss]:
    """The losses with their exact numbers, where statistics do not tell them."""
    questions = [loss.question for loss in losses if not loss.is_exact]
    counted = proposed.counted
    new = [question for question in questions if question.key not in counted]
    if new:
        keys = (each.key for each in new)
        counted.update(zip(keys, scanned(new, proposed.engine), strict=True))
    exact = [_counted(question, counted[question.key]) for question in questions]
    return [each for each in (*(loss for loss in losses if loss.is_exact), *exact) if each.lost]


def _counted(question: Question, count: Count) -> _Loss:
    shown = ", ".join(count.examples)
    return _Loss(question, count.lost, is_exact=True, shown=shown)


# --- findings ----------------------------------------------------------------------------------


def _proved(proposed: ProposedSchema, losses: Sequence[_Loss]) -> Finding:
    losses = sorted(losses, key=lambda each: -(each.lost or 0))
    question, path = losses[0].question, _column(proposed, losses[0].question.part)
    total, is_exact = sum(each.lost or 0 for each in losses), all(each.is_exact for each in losses)
    least = "" if is_exact else "at least "
    many = f"{_files(losses)}{_before_merging(proposed)}: {_examples(losses)}"
    column = f"column {path} of {proposed.files.name}"
    if question.of_nulls:
        what = f"{column} becomes NOT NULL, and null stands there {least}{total} times, in {many}"
        way_out = "write a value into those rows first"
    else:
        retyped, loss = _retyped(proposed, column, losses), question.part.loss_in(proposed.mode)
        what = f"{retyped} loses {least}{total} values ({loss}), in {many}"
        way_out = "correct those rows first, or choose a type that holds their values"
    if proposed.old.has_primary_key:
        way_out += (
            "; compact the table fully first if only rows that were replaced or deleted hold them"
        )
    return Finding(
        rule=Rule.VALUES_LOST,
        severity=_severity(proposed, losses[0]),
        column=path,
        message=f"{what}{_held_by(losses)}",
        way_out=f"{way_out}; a waiver accepts the loss",
        details={
            **_details(proposed, losses),
            "values": total,
            "is_exact": is_exact,
            "largest": [
                {
                    "file": each.stored.file.file_name,
                    "partition": each.stored.partition,
                    "values": each.lost,
                    "is_exact": each.is_exact,
                    "shown": each.shown,
                }
                for each in losses[:_MOST_NAMED]
            ],
        },
    )


def _unknown(proposed: ProposedSchema, losses: Sequence[_Loss]) -> Finding:
    question, path = losses[0].question, _column(proposed, losses[0].question.part)
    column = f"column {path} of {proposed.files.name}"
    size = sum(loss.stored.file.file_size for loss in losses)
    many = _files(losses)
    if question.of_nulls:
        then = "" if question.part.is_column else ", where a null fails the read of its file"
        what = f"{column} becomes NOT NULL{then}, and statistics of {many} do not count their nulls"
    else:
        what = (
            f"{_retyped(proposed, column, losses)} may lose values "
            f"({question.part.loss_in(proposed.mode)}), and statistics of {many} do not show it"
        )
    return Finding(
        rule=Rule.VALUES_MAY_BE_LOST,
        severity=Severity.WARNING,
        column=path,
        message=f"{what}: {_examples(losses)}{_held_by(losses)}",
        way_out=f"plan with --scan (GateRules.is_scanned), which reads the column in {size} bytes "
        "of files",
        details={**_details(proposed, losses), "bytes_to_scan": size},
    )


def _severity(proposed: ProposedSchema, loss: _Loss) -> Severity:
    """Values that only tags and branches hold are read by the schemas of those."""
    rules, part = proposed.rules, loss.question.part
    protects = rules.compatibility is not Compatibility.NONE and rules.is_under_contract(
        _top_level_name(proposed, part)
    )
    reads = loss.stored.is_live or rules.compatibility.is_transitive
    return Severity.BREAKING if protects and reads else Severity.WARNING


def _column(proposed: ProposedSchema, part: ChangedPart) -> str:
    return path_text((_top_level_name(proposed, part), *part.path[1:]))


def _top_level_name(proposed: ProposedSchema, part: ChangedPart) -> str:
    return proposed.top_level_name(part.identity[0], part.path[0])


def _retyped(proposed: ProposedSchema, column: str, losses: Sequence[_Loss]) -> str:
    stored = sorted({str(loss.question.part.stored) for loss in losses})
    mode = f", read in cast mode {proposed.mode.value}," if proposed.changes_fates else ""
    return f"{column} from {' and '.join(stored)} to {losses[0].question.part.read}{mode}"


def _files(losses: Sequence[_Loss]) -> str:
    return f"{len(losses)} data file{'s' if len(losses) > 1 else ''}"


def _before_merging(proposed: ProposedSchema) -> str:
    return " before merging" if proposed.old.has_primary_key else ""


def _examples(losses: Sequence[_Loss]) -> str:
    told = []
    for loss in losses[:_MOST_SHOWN]:
        folder = f"{loss.stored.partition}/" if loss.stored.partition else ""
        values = f" ({loss.shown})" if loss.shown else ""
        told.append(f"{folder}{loss.stored.file.file_name}{values}")
    return ", ".join(told) + (", …" if len(losses) > _MOST_SHOWN else "")


def _held_by(losses: Sequence[_Loss]) -> str:
    holders = [
        f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names[:_MOST_NAMED])}"
        for kind, names in (("tag", _tags(losses)), ("branch", _branches(losses)))
        if names
    ]
    only = "" if losses[0].stored.is_live else "only "
    return (
        f"; {only}{' and '.join(holders)} hold{'' if len(holders) > 1 else 's'} them"
        if (holders)
        else ""
    )


def _tags(losses: Sequence[_Loss]) -> list[str]:
    return sorted({name for loss in losses for name in loss.stored.tags})


def _branches(losses: Sequence[_Loss]) -> list[str]:
    return sorted({name for loss in losses for name in loss.stored.branches})


def _details(proposed: ProposedSchema, losses: Sequence[_Loss]) -> dict[str, object]:
    partitions = sorted({loss.stored.partition for loss in losses})
    return {
        "nulls": losses[0].question.of_nulls,
        "file_count": len(losses),
        "partitions": partitions[:_MOST_NAMED],
        "partition_count": len(partitions),
        "is_live": losses[0].stored.is_live,
        "tags": _tags(losses),
        "branches": _branches(losses),
        "before_merging": proposed.old.has_primary_key,
    }
