"""A schema that a change would make, as the finders of the gate look at it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.schema.scan_values import Count
from lakewright.storage.operations.schema.shared_fields import fields_up_to, highest_shared_id
from lakewright.storage.operations.schema.stored_files import StoredFile, StoredFiles
from lakewright.storage.spec.cast_mode import CastMode, cast_mode
from lakewright.storage.spec.changed_parts import ChangedPart, changed_parts
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.schema_gate import Finding, GateRules


@dataclass(frozen=True, kw_only=True)
class ProposedSchema:
    """A schema that a change would make, beside the current one, and how it is judged.

    `decides` asks only for findings that the verdict may depend on: a run tells no warnings.
    `engine` reads values if the rules ask for a scan. What finders read is read once. `counted` are
    the answers of scans, and `sampled` the findings of the sample once it was read, which a copy of
    this value keeps.
    """

    files: TableFiles
    old: TableSchema
    new: TableSchema
    rules: GateRules
    engine: Engine
    decides: bool = False
    counted: dict[Hashable, Count] = field(default_factory=dict)
    sampled: list[tuple[Finding, ...]] = field(default_factory=list)

    @cached_property
    def stored(self) -> StoredFiles:
        return StoredFiles(self.files)

    @property
    def judged_files(self) -> list[StoredFile]:
        """The files whose values are judged; tags and branches only warn of most losses."""
        if self.decides and not self.rules.compatibility.is_transitive:
            return self.stored.of_latest
        return self.stored.all

    @property
    def mode(self) -> CastMode:
        """The cast mode after the change."""
        return cast_mode(self.new, table=self.files.name)

    @property
    def changes_fates(self) -> bool:
        """Whether readers treat values that do not fit in another way after the change."""
        before = cast_mode(self.old, table=self.files.name)
        return before.fate != self.mode.fate

    def parts_of(self, seen: TableFiles, stored: TableSchema) -> tuple[ChangedPart, ...]:
        """The parts of a schema of a branch whose values the new schema may not keep."""
        key = (seen.paths.branch, stored.id)
        if key not in self._parts:
            fields = self.shared_fields(seen, stored)
            self._parts[key] = tuple(changed_parts(fields, self.new.fields))
        return self._parts[key]

    def shared_fields(self, seen: TableFiles, stored: TableSchema) -> tuple[DataField, ...]:
        """The fields of a schema of a branch that are fields of this branch too.

        After two branches part, each may give one id to another field.
        """
        branch = seen.paths.branch
        if branch == self.files.paths.branch:
            return stored.fields
        if branch not in self._shared_ids:
            self._shared_ids[branch] = highest_shared_id(self.files, seen)
        return fields_up_to(stored.fields, self._shared_ids[branch])

    @cached_property
    def _parts(self) -> dict[tuple[str, int], tuple[ChangedPart, ...]]:
        return {}

    @cached_property
    def _shared_ids(self) -> dict[str, int]:
        return {}

    def top_level_name(self, field_id: int | str, otherwise: str) -> str:
        """The name of a column before the change; of a new one, its name after it."""
        return self._names.get(field_id, otherwise)

    @cached_property
    def _names(self) -> dict[int | str, str]:
        return {each.id: each.name for each in (*self.new.fields, *self.old.fields)}
