"""Settings of a session: what SET changes, and SHOWs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.option_values import parse_duration_ms

DATABASE = "database"
ENGINE = "query.engine"
OVERWRITE = "dynamic-partition-overwrite"
MODE = "execution.runtime-mode"
# How long nothing may have been written into a folder that ADD PARTITION or REPAIR takes over.
AGE = "folder.age"
# Where an INSERT from a source without end keeps how far it read.
CHECKPOINT = "stream.checkpoint"
# Options of tables that are created later begin with it.
TABLE_PREFIX = "table-storage."

LOCAL, SPARK = "local", "spark"
_CHOICES: Mapping[str, tuple[str, ...]] = {
    ENGINE: (LOCAL, SPARK),
    OVERWRITE: ("true", "false"),
    MODE: ("batch", "streaming"),
}
_DEFAULTS: Mapping[str, str] = {ENGINE: LOCAL, MODE: "batch"}
_NAMES = (DATABASE, *_CHOICES, AGE, CHECKPOINT, f"{TABLE_PREFIX}…")
# Other systems' names of the same setting.
_HERE = {"spark.sql.sources.partitionoverwritemode": f"{OVERWRITE} = true or false"}


@dataclass(frozen=True, slots=True)
class Settings:
    """Names with texts; a setting that was never made has its default."""

    values: Mapping[str, str] = field(default_factory=dict)

    def with_value(self, name: str, value: str) -> Settings:
        """The settings with another value of one.

        Raises:
            InvalidRequestError: there is no such setting, or it has no such value.
        """
        choices = _CHOICES.get(name)
        if choices is not None:
            value = value.strip().lower()
            if value not in choices:
                raise InvalidRequestError(
                    f"setting {name} is {value!r}; it can be {' or '.join(choices)}"
                )
        elif name == AGE:
            parse_duration_ms(value)
        elif name not in (DATABASE, CHECKPOINT) and not (
            name.startswith(TABLE_PREFIX) and name != TABLE_PREFIX
        ):
            way_out = _HERE.get(name.lower(), f"there are {', '.join(_NAMES)}")
            raise InvalidRequestError(f"{name!r} is no setting of a session; {way_out}")
        return replace(self, values={**self.values, name: value})

    def without(self, name: str | None) -> Settings:
        """The settings with the default of one, or of all."""
        if name is None:
            return Settings()
        return replace(self, values={key: text for key, text in self.values.items() if key != name})

    @property
    def all(self) -> dict[str, str]:
        """Every setting that has a value."""
        return dict(sorted({**_DEFAULTS, **self.values}.items()))

    @property
    def database(self) -> str | None:
        return self.values.get(DATABASE)

    @property
    def streaming(self) -> bool:
        """Whether statements follow tables without end."""
        return self.values.get(MODE) == "streaming"

    @property
    def checkpoint(self) -> str | None:
        return self.values.get(CHECKPOINT)

    @property
    def engine(self) -> str:
        return self.values.get(ENGINE, LOCAL)

    @property
    def dynamic_overwrite(self) -> bool | None:
        """Hive's meaning of an overwrite if true, Spark's if false, None for the table's own."""
        text = self.values.get(OVERWRITE)
        return None if text is None else text == "true"

    @property
    def age_ms(self) -> int | None:
        """The age of folders that may be taken over; None for the verb's own."""
        text = self.values.get(AGE)
        return None if text is None else parse_duration_ms(text)

    @property
    def table_options(self) -> dict[str, str]:
        """Options that tables are created with."""
        return {
            name.removeprefix(TABLE_PREFIX): value
            for name, value in self.values.items()
            if name.startswith(TABLE_PREFIX)
        }
