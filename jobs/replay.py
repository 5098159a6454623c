"""Replay: a job that shows what another policy would have cost and gained; it writes nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from lakewright.jobs.warehouse_job import build_warehouse_job
from lakewright.platform.decide import replay_text as text
from lakewright.platform.decide.kept_tables import check_patterns, names_of_tables
from lakewright.platform.decide.recorded_history import read_history
from lakewright.platform.decide.replay import Replay, replay
from lakewright.platform.decide.surveys import OWN_TABLES
from lakewright.platform.documents.durations import duration_ms
from lakewright.platform.documents.yaml_files import DeclarationError
from lakewright.platform.orchestration.names import UpkeepNames
from lakewright.platform.orchestration.reports import markdown_table
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.policies.policies import PolicySet
from lakewright.platform.policies.policy_files import load_policies, parse_policies
from lakewright.platform.tables.workspace import Workspace
from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRequestError

VERB = "replay"
_DESCRIPTION = "Show what another policy would have cost and gained over the recorded history."
_MOST_SHOWN = 200


class ReplayConfig(dg.Config):
    """The policy that is replayed, over which time, and for which tables."""

    policy_files: list[str] = Field(
        default=[], description="Paths of policy files and folders, where the run is executed."
    )
    policy: str = Field(
        default="", description="The policy itself, as the YAML text of a policy file."
    )
    since: str = Field(default="7d", description="Replay the time since so long ago.")
    only: list[str] = Field(
        default=[], description="Patterns of tables, such as sales.*; without any, all."
    )


def build_replay_job(
    workspace: Workspace,
    *,
    names: UpkeepNames | None = None,
    resources: ResourceKeys | None = None,
) -> dg.JobDefinition:
    """The job; `maintenance` of the workspace's declarations counts under the replayed policy."""

    def run(context: dg.OpExecutionContext, catalog: Catalog, config: ReplayConfig) -> None:
        policies = _policies(config, workspace)
        tables = _tables(catalog, config.only)
        since_ms = catalog.env.now_ms() - duration_ms(config.since)
        history = read_history(
            catalog,
            tables,
            since_ms=max(since_ms, 0),
            respec_of=lambda name: policies.of(name).policy.respec,
        )
        found = replay(
            history,
            lambda name: policies.of(name).policy,
            policies.budgets_of,
            timezone=policies.warehouse.budget.timezone,
            declared_keys=policies.declared_keys,
        )
        context.add_output_metadata(_told(found, rebuilt=sum(history.rebuilt.values())))

    return build_warehouse_job(
        VERB, run, description=_DESCRIPTION, names=names, resources=resources
    )


def _told(found: Replay, *, rebuilt: int) -> dict[str, Any]:
    shown: dict[str, Any] = {"time": text.span_text(found)}
    rows = found.rows()
    if rows:
        cells = [text.compared_cells(each) for each in (*rows, found.total())]
        shown["then / now"] = _shown(text.COMPARED, cells)
    else:
        shown["then / now"] = "neither did anything"
    if files := text.changed_files(found):
        cells = [text.file_cells(each) for each in files]
        shown["files of a table, on average"] = _shown(text.OPEN_FILES, cells)
    if found.differences:
        cells = [text.difference_cells(each) for each in found.differences]
        shown["decisions that differ"] = _shown(text.DIFFERENCES, cells)
    notes = [*text.notes(found, rebuilt=rebuilt)]
    shown["notes"] = dg.MetadataValue.md("\n".join(f"- {each}" for each in notes))
    return shown


def _policies(config: ReplayConfig, workspace: Workspace) -> PolicySet:
    if bool(config.policy_files) == bool(config.policy.strip()):
        raise InvalidRequestError(
            "the run names no policy, or two: give policy_files, or the text of one in policy"
        )
    try:
        if config.policy_files:
            paths = [Path(each) for each in config.policy_files]
            return load_policies(paths, workspace=workspace)
        return parse_policies(config.policy, "policy", workspace=workspace)
    except DeclarationError as error:
        raise InvalidRequestError(f"the policies are wrong:\n{error}") from error


def _tables(catalog: Catalog, only: Sequence[str]) -> list[str]:
    if only:
        check_patterns(only, frozenset(names_of_tables(catalog, ("*",))))
    found = names_of_tables(catalog, tuple(only) or ("*",))
    return [each for each in found if each not in OWN_TABLES]


def _shown(names: Sequence[str], cells: Sequence[Sequence[str]]) -> dg.MarkdownMetadataValue:
    more = len(cells) - _MOST_SHOWN
    table = markdown_table(names, cells[:_MOST_SHOWN])
    return dg.MetadataValue.md(f"{table}\n\nand {more:,} more" if more > 0 else table)
