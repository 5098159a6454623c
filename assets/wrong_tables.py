"""Tables whose declarations are wrong: assets and sensors that say so, in place of their own.

A table keeps its page, with its earlier events. Its runs fail, and so does the sensor
of its stream: a process that began before the mistake may ask for them.
"""

from collections.abc import Mapping
from contextlib import suppress

import dagster as dg

from lakewright.platform.decide.alerts import DECLARATIONS, Alerts, wrong_files
from lakewright.platform.decide.kept_tables import KeptTables
from lakewright.platform.documents.yaml_files import DeclarationError
from lakewright.platform.orchestration.names import TableNames, UpkeepNames
from lakewright.platform.orchestration.policy_memory import recall_policies
from lakewright.platform.orchestration.reports import STORAGE_KIND, code_reference
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.platform.tables.declaration_files import WrongDeclaration
from lakewright.platform.tables.declaration_watch import DeclarationWatch
from lakewright.platform.tables.upkeep_policies import AlertEvent
from lakewright.platform.upkeep.words import counted
from lakewright.storage.errors import StorageError

_INTERVAL_SECONDS = 60


def wrong_spec(wrong: WrongDeclaration, table: str) -> dg.AssetSpec:
    """The spec of a table whose declaration cannot be read."""
    names, first = TableNames(table), wrong.problems[0]
    return dg.AssetSpec(
        names.asset_key,
        description=f"The declaration is wrong, and nothing is done until it is right:\n\n{wrong}",
        group_name=TableNames(table.partition(".")[0]).identifier,
        kinds={STORAGE_KIND},
        metadata={
            "dagster/table_name": table,
            "wrong declaration": str(wrong),
            **code_reference(first.file, max(first.line, 1)),
        },
    )


def build_wrong_tables(
    wrong: Mapping[str, WrongDeclaration], specs: Mapping[str, dg.AssetSpec], names: UpkeepNames
) -> dg.Definitions:
    """The assets of wrong declarations by table, and the sensors of those that are streams."""
    # Names in Dagster do not distinguish all names of tables.
    shown = {names.of(table).identifier: table for table in wrong}
    return dg.Definitions(
        assets=[_asset(wrong[each], specs[each], names.of(each)) for each in shown.values()],
        sensors=[
            _stream_sensor(wrong[each], names.of(each))
            for each in shown.values()
            if wrong[each].is_stream
        ],
    )


def _asset(wrong: WrongDeclaration, spec: dg.AssetSpec, names: TableNames) -> dg.AssetsDefinition:
    @dg.multi_asset(name=names.identifier, specs=[spec], pool=names.writers_pool)
    def wrong_table(_: dg.AssetExecutionContext) -> None:
        told = f"{wrong}\nnothing of {names.table} was written; correct the declaration"
        raise dg.Failure(told, allow_retries=False)

    return wrong_table


def _stream_sensor(wrong: WrongDeclaration, names: TableNames) -> dg.SensorDefinition:
    @dg.sensor(
        name=names.stream_sensor,
        target=dg.AssetSelection.assets(names.asset_key),
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Fails until the declaration of {names.table} is right.",
    )
    def stream_sensor(_: dg.SensorEvaluationContext) -> dg.SensorResult:
        raise DeclarationError(wrong.problems)

    return stream_sensor


def build_declarations_sensor(
    watch: DeclarationWatch, tables: KeptTables, names: UpkeepNames, keys: ResourceKeys
) -> dg.SensorDefinition:
    """The sensor whose tick fails while a declaration is wrong, and names each with its line.

    It sends an alert, too, where a policy says where alerts go.
    """
    alerts = Alerts()

    @dg.sensor(
        name=names.declarations_sensor,
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={keys.warehouse},
        description="Fails while a declaration is wrong. The tables of the others go on.",
    )
    def declarations_sensor(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        problems = watch.problems()
        for problem in problems:
            context.log.error("%s", problem)
        with suppress(DeclarationError, StorageError):
            recall_policies(context.instance, tables.files)
            warehouse: WarehouseResource = getattr(context.resources, keys.warehouse)
            alerts.tell(
                warehouse.catalog(),
                tables.warehouse.alerts,
                [*wrong_files(DECLARATIONS, problems, "the tables of the others go on")],
                lambda key, _: key == ("", AlertEvent.FAILED, DECLARATIONS) and not problems,
                warn=context.log.warning,
            )
        if problems:
            raise DeclarationError(problems)
        if watch.loaded.wrong:
            raise dg.Failure(
                "the declarations are right by now, and this code location was loaded before: "
                "reload it, so that it serves all of their tables"
            )
        count = len(watch.loaded.declarations)
        return dg.SkipReason(f"{counted(count, 'declaration')}: nothing is wrong")

    return declarations_sensor
