"""Names: how a table is called in Dagster."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg

# The job of all verbs of upkeep.
UPKEEP = "upkeep"
# The tag by which runs that write or keep a table are found.
TABLE_TAG = "lakewright/table"
# The tables of a run that it left to a later one, such as those whose lease another process held.
DEFERRED_TAG = "lakewright/deferred"
# The tag with the work of a run: ingest, compact or expire_snapshots.
VERB_TAG = "lakewright/verb"
# The tag of runs that the upkeep sensor asks for, with the verb: dagster.yaml limits how many work.
KEEPS_TAG = "lakewright/upkeep"
# The tag of runs that a stream's sensor asked for: they stay for the declared delay.
CONTINUOUS_TAG = "lakewright/continuous"
# Between the names of tables in the tag of a run of several.
_BETWEEN_TABLES = ", "


def table_tag(tables: Iterable[str]) -> str:
    """The value of the tag for a run on these tables."""
    return _BETWEEN_TABLES.join(tables)


def tables_of_tag(value: str) -> tuple[str, ...]:
    """The tables that a tag names."""
    return tuple(value.split(_BETWEEN_TABLES))


def usual_key(table: str) -> dg.AssetKey:
    """The key of a table's asset, unless a component gives it another one.

    Dagster makes names of ops and outputs from keys, of ASCII letters, digits, _ and -. A part with
    other characters gets _ for each, and a checksum, which tells it from the names it resembles.
    A name without a dot is the key of an asset that is none of ours, with / between its parts.
    """
    if "." not in table:
        return dg.AssetKey(table.split("/"))
    return dg.AssetKey([_as_key_part(each) for each in table.split(".")])


def _as_key_part(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    return name if plain == name else f"{plain}_{zlib.crc32(name.encode()):08x}"


class AssetKeys:
    """The one mapping between the names of tables and the keys of their assets.

    A table that is none of `known` gets its key from `key_of` when it is first asked for, or the
    usual one if that is another table's: one asset has the events of one table.
    """

    def __init__(
        self,
        known: Mapping[str, dg.AssetKey] | None = None,
        key_of: Callable[[str], dg.AssetKey] = usual_key,
    ) -> None:
        self._keys = dict(known or {})
        self._tables = {key: table for table, key in self._keys.items()}
        self._key_of = key_of

    def of(self, table: str) -> dg.AssetKey:
        """The key of a table's asset, whether it exists or not."""
        key = self._keys.get(table)
        if key is None:
            key = self._key_of(table)
            if self._tables.setdefault(key, table) != table:
                key = usual_key(table)
                self._tables.setdefault(key, table)
            self._keys[table] = key
        return key

    def table(self, key: dg.AssetKey) -> str:
        """The table whose asset has a key, or the name of another asset in the same form."""
        found = self._tables.get(key)
        if found is not None:
            return found
        name = ".".join(key.path)
        # A table of that name has another key: this is the asset of something else.
        return key.to_user_string() if self._keys.get(name, key) != key else name


@dataclass(frozen=True, slots=True)
class UpkeepNames:
    """The names in Dagster of the upkeep of all tables.

    `group` tells those of several components in one code location apart. `keys` has the keys of the
    tables' assets.
    """

    group: str = ""
    keys: AssetKeys = field(default_factory=AssetKeys, compare=False, repr=False)

    def of(self, table: str) -> TableNames:
        """The names of one table."""
        return TableNames(table, self.keys, self.group)

    def job(self, verb: str) -> str:
        """The name of a job and of its step; run config uses the step's name.

        Names begin with the group, so that a list has the jobs of one component together.
        """
        return f"{self.group}__{verb}" if self.group else verb

    def op(self, verb: str) -> str:
        """The name of the op behind the step; Dagster requires it to differ from the job's name."""
        return self.job(f"{verb}_op")

    def run_config(self, verb: str, config: Mapping[str, object]) -> dict[str, object]:
        """The config of a run of the job `upkeep` for a verb, with its tables in `config`."""
        return {"ops": {self.job(UPKEEP): {"config": {"verb": {verb: dict(config)}}}}}

    def pool(self, verb: str) -> str:
        """The pool that admits one run of a job at a time."""
        return f"lakewright/{self.job(verb)}"

    def schedule(self, verb: str, timezone: str) -> str:
        """The name of a verb's schedule in a time zone; that in UTC has no zone in its name."""
        name = self.job(f"{verb}_schedule")
        zone = re.sub(r"\W", "_", timezone.replace("+", "_plus_"))
        return name if timezone == "UTC" else f"{name}__{zone}"

    @property
    def sensor(self) -> str:
        return self.job("upkeep_sensor")

    @property
    def automation_sensor(self) -> str:
        return self.job("automation_sensor")

    @property
    def schema_sensor(self) -> str:
        return self.job("schema_sensor")

    @property
    def declarations_sensor(self) -> str:
        return self.job("declarations_sensor")


@dataclass(frozen=True, slots=True)
class TableNames:
    """Every name in Dagster that is derived from one table; `group` is that of its upkeep."""

    table: str
    keys: AssetKeys = field(default_factory=AssetKeys, compare=False, repr=False)
    group: str = ""

    @property
    def asset_key(self) -> dg.AssetKey:
        return self.keys.of(self.table)

    @property
    def identifier(self) -> str:
        """The table's name with ASCII letters, digits and _ only: `nyc__flights`."""
        return usual_key(self.table).to_python_identifier()

    @property
    def pool(self) -> str:
        """The pool that admits one upkeep step of the table at a time."""
        return f"lakewright/{self.table.replace('.', '/')}"

    @property
    def writers_pool(self) -> str:
        """The pool of steps that write the table; they never queue behind upkeep."""
        return f"{self.pool}/write"

    @property
    def dynamic_partitions(self) -> str:
        return f"lakewright/{self.table}"

    @property
    def checks(self) -> str:
        """The step that checks the stored table."""
        return f"{self.identifier}__checks"

    def job_of_all(self, verb: str) -> str:
        """The name of a job of all tables, and of its step."""
        return UpkeepNames(self.group).job(verb)

    def run_config(self, verb: str, options: Mapping[str, object]) -> dict[str, object]:
        """The config of a run that carries out a verb on this table only."""
        return UpkeepNames(self.group).run_config(verb, {"tables": {self.table: dict(options)}})

    def schedule(self, verb: str) -> str:
        return f"{verb}_schedule__{self.identifier}"

    def source_key(self, connector: str, names: Sequence[str]) -> dg.AssetKey:
        """The key of what a connector reads, by its names; without any it is the table's alone."""
        found = [name for name in names if name] or self.table.split(".")
        return dg.AssetKey(["sources", *map(_as_key_part, (connector, *found))])

    @property
    def stream_sensor(self) -> str:
        return f"stream_sensor__{self.identifier}"

    def tags(self, verb: str) -> dict[str, str]:
        """Tags of the runs of a verb."""
        return {TABLE_TAG: self.table, VERB_TAG: verb}
