"""Finds live files whose types are not cast to those of a new schema, so that they are rewritten.

Two casts in turn may exist where the cast over both does not.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakewright.storage.operations.schema.proposed_schema import ProposedSchema
from lakewright.storage.spec.cast_rules import Cast, cast_rule
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.schema_casts import casts_of
from lakewright.storage.spec.schema_gate import Finding, Rule, Severity
from lakewright.storage.spec.schema_mapping import schema_mapping


def uncast_types(proposed: ProposedSchema) -> Iterator[Finding]:
    """A finding for each column that live files hold in a type without a cast to the new one."""
    files, new = proposed.files, proposed.new
    if not _changes_types(proposed):
        return
    refused: dict[int, list[tuple[str, str, str]]] = {}
    for schema_id in files.schemas.ids():
        stored = files.at_schema(schema_id).schema
        for column in schema_mapping(stored.fields, new.fields).columns.values():
            for path, old, new_type in casts_of(column):
                if cast_rule(old, new_type).cast is Cast.REFUSED:
                    found = (path, str(old), str(new_type))
                    refused.setdefault(schema_id, []).append(found)
    if not refused:
        return
    holding: dict[tuple[str, str, str], list[DataFileMeta]] = {}
    for entry in proposed.stored.live:
        for each in refused.get(entry.file.schema_id, ()):
            holding.setdefault(each, []).append(entry.file)
    for (path, stored_type, type_read), held in holding.items():
        sizes = {file.file_name: file.file_size for file in held}
        yield Finding(
            rule=Rule.REWRITE_FIRST,
            severity=Severity.REWRITE,
            column=path,
            message=f"{len(held)} data files of {files.name} ({held[0].file_name}, …) hold "
            f"column {path} as {stored_type}, and no client casts it to {type_read}",
            way_out="set compaction.force-rewrite-all-files to true and compact the table fully "
            "first, so that its files have the types of today",
            details={"files": sizes, "bytes": sum(sizes.values())},
        )


def _changes_types(proposed: ProposedSchema) -> bool:
    """Whether the change casts any column; casts of before were judged before."""
    columns = schema_mapping(proposed.old.fields, proposed.new.fields).columns.values()
    return any(True for column in columns for _ in casts_of(column))
