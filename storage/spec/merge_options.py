"""Merge options: read from a table's schema, checked against its columns and each other.

Sources: Paimon `CoreOptions`, `SchemaValidation` and the factories of field aggregators.
"""

from __future__ import annotations

from lakewright.storage.errors import InvalidOption
from lakewright.storage.spec.aggregate_options import aggregates_of_all, aggregates_of_groups
from lakewright.storage.spec.data_types import AtomicType
from lakewright.storage.spec.merge_option_reader import (
    GROUP_PREFIX,
    GROUP_SUFFIX,
    MergeOptionReader,
    split_names,
)
from lakewright.storage.spec.merge_option_rows import MergeOptions
from lakewright.storage.spec.merge_spec import MergeEngine, MergeSpec, SequenceGroup
from lakewright.storage.spec.option_values import BOOLEAN
from lakewright.storage.spec.schema import VALUE_COUNT, TableSchema

_REMOVE_ON_DELETE = {
    MergeEngine.PARTIAL_UPDATE: MergeOptions.remove_on_delete,
    MergeEngine.AGGREGATION: MergeOptions.remove_aggregates_on_delete,
}
_VECTORS = "deletion-vectors.enabled"
_REMOVE_ON_GROUP = MergeOptions.remove_on_group.name


def read_merge_spec(schema: TableSchema, *, table: str = "the table") -> MergeSpec:
    """The schema's merge options as values, checked against its columns and each other.

    A table without a primary key merges nothing and gets the default.

    Raises:
        InvalidOption: a value is invalid, names no column, or contradicts another option.
        UnsupportedError: a merge engine or aggregate function is not implemented.
    """
    if schema.counts_rows:
        _check_counted(schema, table)
        return MergeSpec(engine=MergeEngine.VALUE_COUNT, table=table)
    if not schema.has_primary_key:
        return MergeSpec(table=table)
    return _Reader(schema, table).spec()


def _check_counted(schema: TableSchema, table: str) -> None:
    """Check that whole rows can be keys: each column is of a type that a key may have."""
    nested = [field for field in schema.fields if not isinstance(field.type, AtomicType)]
    if nested:
        raise InvalidOption(
            f"{table}: merge-engine={VALUE_COUNT} compares whole rows, and column "
            f"{nested[0].name} of type {nested[0].type} cannot be compared; leave the column out",
            option="merge-engine",
        )


class _Reader(MergeOptionReader):
    """Reads the merge options of one schema as a whole."""

    def spec(self) -> MergeSpec:
        self.check_field_names()
        engine = self._engine()
        sequence = self._sequence_fields(engine)
        ignore_delete = self.value(MergeOptions.ignore_delete)
        groups = self._sequence_groups() if engine is MergeEngine.PARTIAL_UPDATE else ()
        remove = self._remove_on_delete(engine, ignore_delete, groups)
        if engine is MergeEngine.AGGREGATION:
            aggregates = aggregates_of_all(self, sequence, remove)
        elif engine is MergeEngine.PARTIAL_UPDATE:
            groups = self._with_removals(groups, ignore_delete)
            aggregates = aggregates_of_groups(self, groups)
        else:
            aggregates = {}
        return MergeSpec(
            engine=engine,
            table=self.table,
            primary_keys=self.schema.primary_keys,
            sequence_fields=sequence,
            sequence_descending=self.value(MergeOptions.descending),
            ignore_delete=ignore_delete,
            ignore_update_before=self.value(MergeOptions.ignore_update_before),
            rowkind_field=self._rowkind_field(),
            remove_record_on_delete=remove,
            sequence_groups=groups,
            aggregates=aggregates,
        )

    # --- the engine and what orders rows -----------------------------------------------------

    def _engine(self) -> MergeEngine:
        option, text = MergeOptions.engine.name, str(self.value(MergeOptions.engine))
        if text.lower() not in {each.value for each in MergeEngine}:
            keyed = [each.value for each in MergeEngine if each is not MergeEngine.VALUE_COUNT]
            self.unsupported(option, text, f"implemented: {', '.join(keyed)}")
        engine = MergeEngine(text.lower())
        if engine is MergeEngine.VALUE_COUNT:
            self.invalid(option, text, "is for tables without a primary key; use deduplicate")
        if engine is MergeEngine.FIRST_ROW:
            self._check_first_row()
        return engine

    def _check_first_row(self) -> None:
        producer = self.options.get("changelog-producer", "none").lower()
        if producer not in ("none", "lookup"):
            self.invalid(
                "changelog-producer",
                producer,
                "does not go with merge-engine=first-row; use none or lookup",
            )
        if self.parsed(_VECTORS, BOOLEAN, self.options.get(_VECTORS, "false")):
            self.invalid(
                _VECTORS,
                "true",
                "does not go with merge-engine=first-row, where no row is ever replaced; "
                "leave it out",
            )

    def _sequence_fields(self, engine: MergeEngine) -> tuple[str, ...]:
        option = MergeOptions.sequence_field.name
        text = self.options.get(option)
        if text is None:
            return ()
        names = split_names(text)
        for name in names:
            self.check_column(option, text, name)
            self.check_orders(option, text, name)
            function = MergeOptions.function.of(name)
            if function in self.options:
                self.invalid(
                    option,
                    text,
                    f"names {name!r}, which has an aggregate function too; leave out {function}",
                )
        self.check_once(option, text, names)
        if engine is MergeEngine.FIRST_ROW:
            self.invalid(
                option,
                text,
                "does not go with merge-engine=first-row, which keeps the row written first; "
                "leave it out or choose another engine",
            )
        outside = set(self.schema.partition_keys) - set(self.schema.primary_keys)
        if outside:
            self.invalid(
                option,
                text,
                f"needs every partition key in the primary key, and {min(outside)!r} is not: "
                "rows of one key would be ordered in each partition alone",
            )
        return names

    def _rowkind_field(self) -> str | None:
        option = MergeOptions.rowkind_field.name
        name = self.options.get(option)
        if name is None:
            return None
        self.check_column(option, name, name)
        data_type = self.types[name]
        if not (isinstance(data_type, AtomicType) and data_type.root.is_text):
            self.invalid(
                option, name, f"is {data_type}; kinds are texts such as '+I', so take a STRING"
            )
        return name

    # --- what deletions do -------------------------------------------------------------------

    def _remove_on_delete(
        self, engine: MergeEngine, ignore_delete: bool, groups: tuple[SequenceGroup, ...]
    ) -> bool:
        row = _REMOVE_ON_DELETE.get(engine)
        if row is None or not self.value(row):
            return False
        option = row.name
        if engine is MergeEngine.PARTIAL_UPDATE:
            if ignore_delete:
                self.invalid(option, "true", "contradicts ignore-delete=true; leave one out")
            if groups:
                self.invalid(
                    option,
                    "true",
                    f"does not go with sequence groups; use {_REMOVE_ON_GROUP} instead",
                )
        return True

    def _with_removals(
        self, groups: tuple[SequenceGroup, ...], ignore_delete: bool
    ) -> tuple[SequenceGroup, ...]:
        text = self.options.get(_REMOVE_ON_GROUP)
        if text is None:
            return groups
        if ignore_delete:
            self.invalid(_REMOVE_ON_GROUP, text, "contradicts ignore-delete=true; leave one out")
        names = split_names(text)
        known = [name for group in groups for name in group.sequence_fields]
        for name in names:
            if name not in known:
                self.invalid(
                    _REMOVE_ON_GROUP,
                    text,
                    f"names {name!r}, which is not a sequence field of a group; "
                    f"there are {', '.join(known) or 'none'}",
                )
        return tuple(
            SequenceGroup(
                group.sequence_fields,
                group.protected,
                removes_record=any(name in names for name in group.sequence_fields),
            )
            for group in groups
        )

    # --- sequence groups ---------------------------------------------------------------------

    def _sequence_groups(self) -> tuple[SequenceGroup, ...]:
        groups = []
        owners: dict[str, str] = {}
        for option, text in sorted(self.options.items()):
            if not (option.startswith(GROUP_PREFIX) and option.endswith(GROUP_SUFFIX)):
                continue
            sequence = split_names(option[len(GROUP_PREFIX) : -len(GROUP_SUFFIX)])
            protected = tuple(name for name in split_names(text) if name not in sequence)
            for name in sequence:
                self.check_orders(option, text, name)
            self.check_once(option, text, sequence)
            for name in dict.fromkeys(sequence + protected):
                self.check_column(option, text, name)
                if name in self.schema.primary_keys:
                    self.invalid(
                        option, text, f"holds {name!r} of the primary key; leave it out there"
                    )
                if name in owners:
                    self.invalid(
                        option,
                        text,
                        f"holds {name!r}, which {owners[name]} holds too; "
                        "a column belongs to one sequence group",
                    )
                owners[name] = option
            groups.append(SequenceGroup(sequence, tuple(dict.fromkeys(protected))))
        return tuple(groups)
