"""What every command of a verb of upkeep does alike: dry runs, JSON, and what is wrong."""

from __future__ import annotations

from collections.abc import Callable

import click
import pytest

from lakewright.cli.grammar.root import ROOT
from lakewright.storage import Catalog, Table
from tests.support.tables.builders import new_table
from tests.support.tables.fixtures import memory_catalog
from tests.support.tables.landed import land_beside
from tests.unit.cli.conftest import Lakewright
from tests.unit.platform.upkeep import test_procedure as made
from tests.unit.platform.upkeep.test_procedure import files_of

# Each command that saves a plan, with a table on which it has work, and its arguments.
CALLS: dict[str, tuple[Callable[[Catalog], Table], str]] = {
    "add-partitions": (made.landed, "FOLDER --age 0s"),
    "add-primary-key": (made.appended, "--keys day,id"),
    "alter": (made.appended, "--drop v"),
    "analyze": (made.appended, ""),
    "branch delete": (made.branched, "b"),
    "branch fast-forward": (made.branched, "b"),
    "changelog expire": (made.with_changelogs, "--all"),
    "compact": (made.appended, "--min-files 2"),
    "delete": (made.appended, "--where id=1"),
    "drop-partitions": (made.appended, "--where day='a'"),
    "exchange-partition": (made.beside_another, "--from db.other --partition day=x"),
    "expire-consumers": (made.with_idle_consumer, "--older-than 1d"),
    "expire-partitions": (made.dated, "--older-than 1d"),
    "expire-snapshots": (made.appended, "--retain-min 1 --older-than 0s"),
    "mark-done": (made.appended, "--partition day=a"),
    "publish-iceberg": (made.appended, ""),
    "postpone-compact": (made.postponed, ""),
    "condemned collect": (made.with_condemned, "--now"),
    "condemned put-back": (made.with_condemned, "ID"),
    "remove-orphans": (made.with_orphan, "--older-than 0s --even-recent"),
    "rename-partition": (made.keyed, "--partition day=a --to day=z"),
    "repair-partitions": (made.drifted, "--mode sync --age 0s"),
    "rescale": (made.keyed, "--buckets 3"),
    "respec": (made.appended, "--keys day,id"),
    "revert": (made.appended, "--snapshot 2"),
    "rewrite-manifests": (made.appended, "--min-count 2"),
    "rollback": (made.appended, "--snapshot 1"),
    "settle": (made.restated, ""),
    "sort-compact": (made.appended, "--by id"),
    "tag delete": (made.tagged, "brief"),
    "tag expire": (made.with_old_tags, "--older-than 1s"),
    "update": (made.appended, "--set v='new' --where id=1"),
}
# Those that read rows or declarations, and have tests of their own.
OTHERS = {"evolve-schema", "validate-schema"}


def saving_plans(command: click.Command, *words: str) -> set[str]:
    if not isinstance(command, click.Group):
        own = any("--save-plan" in each.opts for each in command.params)
        return {" ".join(words)} if own else set()
    context = click.Context(command)
    below = ((name, command.get_command(context, name)) for name in command.list_commands(context))
    return {found for name, each in below if each for found in saving_plans(each, *words, name)}


def test_every_command_that_saves_a_plan_is_called_here() -> None:
    assert saving_plans(ROOT) == CALLS.keys() | OTHERS


@pytest.mark.parametrize("name", CALLS)
def test_a_dry_run_and_a_saved_plan_are_json_and_change_no_file(
    lakewright: Lakewright, name: str
) -> None:
    catalog = memory_catalog()
    make, arguments = CALLS[name]
    table = make(catalog)
    places = {"FOLDER": land_beside, "ID": lambda table: table.upkeep.condemned()[0].id}
    words = [places[each](table) if each in places else each for each in arguments.split()]
    call = (*name.split(), table.name, *words)
    before = files_of(table)
    # A change of a schema that is judged and denied ends with 1.
    code = 1 if name == "alter" else 0
    said = lakewright(catalog, *call, "--dry-run", code=code)
    assert said.lines[-1] == "dry run: nothing was written" or name == "alter"
    assert lakewright(catalog, *call, "--dry-run", "--format", "json", code=code).json
    assert lakewright(catalog, *call, "--save-plan", "-").json
    assert files_of(table) == before


@pytest.mark.parametrize("name", CALLS)
def test_a_table_that_is_not_there_and_an_option_that_is_none_are_named(
    lakewright: Lakewright, name: str
) -> None:
    catalog = memory_catalog()
    new_table(catalog)
    words = [each for each in CALLS[name][1].split() if each != "FOLDER"]
    unknown = lakewright(catalog, *name.split(), "db.tt", *words, "--dry-run", code=3)
    assert not unknown.out
    assert "db.tt" in unknown.err
    wrong = lakewright(catalog, *name.split(), "db.t", *words, "--nope", code=2)
    assert not wrong.out
    assert "No such option '--nope'" in wrong.err
