"""Policies of upkeep on the command line: reads them, and shows their settings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lakewright.cli.upkeep.dagster_home import known_instance
from lakewright.cli.upkeep.project_paths import policy_option, tables_option
from lakewright.platform.decide.kept_tables import IN_FORCE
from lakewright.platform.documents.declared_values import plain
from lakewright.platform.documents.yaml_files import DeclarationError, Problem
from lakewright.platform.policies.policies import DayBudget, Given, PolicySet, Setting
from lakewright.platform.policies.policy_files import load_policies
from lakewright.platform.policies.policy_watch import PolicyFiles
from lakewright.platform.policies.setting_text import setting_text
from lakewright.storage.errors import InvalidRequestError

if TYPE_CHECKING:
    from lakewright.cli.grammar.call import Call
    from lakewright.platform.tables.workspace import Workspace
    from lakewright.platform.upkeep.measures import Cost
    from lakewright.storage import Catalog

Command = TypeVar("Command", bound=Callable[..., object])


def policy_options(*, of_project: bool = True) -> Callable[[Command], Command]:
    """The options `--policy` and `--tables` of commands that ask the policies."""
    policy = policy_option(
        "Policy files, and folders of them; may be repeated", of_project=of_project
    )
    what = "Declarations, whose `maintenance:` counts too"
    tables = tables_option(what, of_project=of_project)
    return lambda command: policy(tables(command))


def policies_of(paths: Sequence[Path], workspace: Workspace) -> PolicySet:
    """The policies in files, over the declarations of a workspace.

    Raises:
        InvalidRequestError: a path does not exist, or a policy is wrong.
    """
    try:
        return load_policies(paths, workspace=workspace)
    except DeclarationError as error:
        raise InvalidRequestError(f"the policies are wrong:\n{error}") from error


def policies_in_force(paths: Sequence[Path], workspace: Workspace) -> PolicyFiles:
    """The policies in files; while these are wrong, the last valid ones that Dagster knows.

    What is wrong is printed as a warning then.

    Raises:
        InvalidRequestError: a policy is wrong, and none of before is known.
    """
    files = PolicyFiles(paths, workspace=workspace)
    try:
        files.current()
    except DeclarationError as wrong:
        try:
            problems = _recalled(files)
        except DeclarationError:
            problems = ()
        if not problems:
            told = "no valid policies of before are known, as none was kept by an upkeep sensor"
            raise InvalidRequestError(f"the policies are wrong:\n{wrong}\n{told}") from wrong
        for each in problems:
            sys.stderr.write(f"lakewright: warning: {each}; {IN_FORCE}\n")
    return files


def _recalled(files: PolicyFiles) -> Sequence[Problem]:
    with known_instance() as instance:
        if instance is None:
            return ()
        from lakewright.platform.orchestration.policy_memory import recall_policies

        return recall_policies(instance, files)


def known_tables(call: Call) -> frozenset[str]:
    """The tables of the warehouse.

    Raises:
        NotFoundError: the warehouse does not exist.
    """
    catalog = call.catalog()
    databases = catalog.list_databases()
    return frozenset(
        f"{database}.{name}" for database in databases for name in catalog.list_tables(database)
    )


def plain_setting(setting: Setting) -> dict[str, object]:
    """A setting as JSON: its value, the line that decided, and those that lost."""
    decided = setting.decided
    return {
        "setting": setting.name,
        "value": plain(setting.value),
        "text": setting_text(setting.key, setting.value),
        "decided": None if decided is None else _plain_given(decided),
        "lost": [_plain_given(each) for each in setting.lost],
    }


def spent_today(catalog: Catalog, policies: PolicySet) -> dict[DayBudget, Cost]:
    """What the ledger says was spent today of each budget."""
    from lakewright.platform.decide.budget import spent_of
    from lakewright.platform.ledger.ledger import Ledger
    from lakewright.platform.ledger.past import day_of, spent_since

    begins_ms, _ = day_of(catalog.env.now_ms(), policies.warehouse.budget.timezone)
    return spent_of(policies.budgets_of, spent_since(Ledger(catalog), begins_ms))


def plain_budget(budget: DayBudget, spent: Mapping[DayBudget, Cost] | None) -> dict[str, object]:
    """A budget as JSON; what was spent is null without a warehouse."""
    cost = None if spent is None else spent.get(budget)
    return {
        "section": budget.section,
        "bytes": budget.bytes,
        "bytes_decided": budget.bytes_place or None,
        "milliseconds": budget.time,
        "milliseconds_decided": budget.time_place or None,
        "spent_bytes": None if spent is None else 0 if cost is None else cost.bytes,
        "spent_milliseconds": None if spent is None else 0 if cost is None else cost.milliseconds,
    }


def _plain_given(given: Given) -> dict[str, object]:
    return {
        "value": plain(given.value),
        "level": given.level.name.lower(),
        "name": given.name,
        "file": given.file,
        "line": given.line,
    }
