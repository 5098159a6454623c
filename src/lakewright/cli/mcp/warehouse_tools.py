"""The tools: health, why, policy, verbs, plan, ledger and savings of one warehouse.

All of them work on a catalog that refuses every change.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeAlias

from pydantic import AfterValidator, Field

from lakewright.cli.commands.adopt import survey_record
from lakewright.cli.output.ledger_text import no_ledger
from lakewright.cli.output.partitions import plain_spec
from lakewright.cli.output.report_text import plain, report_record
from lakewright.cli.output.text import iso_time
from lakewright.cli.upkeep.policies import plain_budget, plain_setting, policies_of, spent_today
from lakewright.platform.decide.debt import total_debt, worst_first
from lakewright.platform.decide.kept_tables import KeptTables
from lakewright.platform.decide.look import TableWatch
from lakewright.platform.decide.take_survey import survey_table, survey_warehouse
from lakewright.platform.decide.upkeep import look_now, plain_decision, states_of
from lakewright.platform.ledger.action_rows import row_of
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.ledger.savings import By, savings, total
from lakewright.platform.policies.policy_watch import PolicyFiles
from lakewright.platform.tables.workspace import Workspace
from lakewright.platform.upkeep.procedure import AnyProcedure, Work, carry_out
from lakewright.platform.upkeep.procedures import PROCEDURES
from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError, NotFoundError
from lakewright.storage.operations.running.verb_options import OptionField, option_fields
from lakewright.storage.spec.durations import duration_ms

INSTRUCTIONS = """\
Lakewright keeps Apache Paimon tables healthy. These tools report their state, what upkeep is due \
and why, what a verb would do, and what upkeep cost and saved. They change nothing. Begin with \
`health`, then ask `why` of a table. A `plan` that was saved to a file is carried out by a person, \
with `lakewright VERB TABLE --plan FILE`.\
"""
_WORST_PARTITIONS = 20
_MOST_ROWS = 40
# The options by which verbs read files that are not the warehouse's.
_OUTSIDE = {"folder", "inventory"}


def _known_verb(verb: str) -> str:
    if verb not in PROCEDURES:
        raise ValueError(f"there is no verb {verb}; there are {', '.join(PROCEDURES)}")
    return verb


Value: TypeAlias = Mapping[str, object]
_Table = Annotated[str, Field(description="A table, as database.table.")]
_AnyTable = Annotated[str | None, Field(description="Only this table, as database.table.")]
_Verb = Annotated[
    str, AfterValidator(_known_verb), Field(json_schema_extra={"enum": [*PROCEDURES]})
]
_Since = Annotated[str, Field(description="What began within that time, such as 7d.")]
_Limit = Annotated[int, Field(description="So many at most.", strict=True, ge=0, le=1_000_000)]


@dataclass(frozen=True)
class WarehouseTools:
    """Answers about one warehouse, under the policies of some files."""

    catalog: Catalog
    policy: Sequence[Path] = ()
    workspace: Workspace = field(default_factory=Workspace)

    def questions(self) -> dict[str, Callable[..., Value]]:
        """All tools by name; the docstring of each is what agents read of it."""
        return {
            "health": self.health,
            "why": self.why,
            "policy": self.explain,
            "verbs": self.verbs,
            "plan": self.plan,
            "ledger": self.ledger,
            "savings": self.savings,
        }

    # --- how tables are -------------------------------------------------------------------------

    def health(
        self,
        *,
        table: _AnyTable = None,
        pattern: Annotated[
            str, Field(description="Only tables whose name fits, such as sales.*.", max_length=300)
        ] = "*",
        limit: _Limit = 20,
    ) -> Value:
        """How tables are, from their metadata alone: files, snapshots, manifests, debt, defects.

        With a table, its worst partitions too; otherwise those with something wrong, the worst
        first.
        """
        if table is not None:
            survey = survey_table(self.catalog.table(table), worst=_WORST_PARTITIONS)
            worst = [{**asdict(each), "spec": plain_spec(each.spec)} for each in survey.worst]
            return {**survey_record(survey), "worst_partitions": worst}
        surveys = list(survey_warehouse(self.catalog, pattern=pattern))
        ill = [
            record
            for record in (survey_record(each) for each in worst_first(surveys))
            if record["findings"]
        ]
        return {
            "warehouse": self.catalog.uri,
            "tables": len(surveys),
            "tables_with_something_wrong": len(ill),
            "debt": asdict(total_debt(surveys)),
            "worst": ill[:limit],
        }

    # --- what is due and why --------------------------------------------------------------------

    def why(self, *, table: _AnyTable = None, limit: _Limit = 100) -> Value:
        """What upkeep is due now, in shadow or waiting, and why, with predicted cost and benefit.

        Of a table also what is declined, and why.
        """
        policies_of(self.policy, self.workspace)
        look = look_now(self.catalog, self._watch)
        if table is not None and table not in look.decisions:
            raise NotFoundError(f"{self.catalog.uri} has no table {table}")
        found = [
            _with_time(plain_decision(state, decision))
            for state, decision in states_of(look, everything=table is not None)
            if table in (None, decision.table)
        ]
        return {
            "tables": len(look.decisions),
            "states": Counter(str(each["state"]) for each in found),
            "decisions": found[:limit],
            "left_out": max(len(found) - limit, 0),
        }

    @cached_property
    def _watch(self) -> TableWatch:
        files = PolicyFiles(self.policy, workspace=self.workspace)
        return TableWatch(KeptTables(files=files, adopted=("*",)))

    def explain(self, *, table: _Table) -> Value:
        """The upkeep policy of a table.

        Each setting with the line of a file that decided it, and those that lost.
        """
        self.catalog.table(table)
        policies = policies_of(self.policy, self.workspace)
        resolved = policies.of(table)
        settings = (*resolved.settings, *policies.warehouse_settings)
        budgets = policies.budgets_of(table)
        spent = spent_today(self.catalog, policies) if budgets else {}
        return {
            "table": table,
            "settings": [plain_setting(setting) for setting in settings],
            "budgets": [plain_budget(budget, spent) for budget in budgets],
            "problems": [str(problem) for problem in resolved.problems],
        }

    # --- what a verb would do -------------------------------------------------------------------

    def verbs(self, *, verb: _Verb | None = None) -> Value:
        """The verbs that `plan` takes, with their options."""
        chosen = PROCEDURES.values() if verb is None else [PROCEDURES[verb]]
        return {
            "verbs": [
                {
                    "verb": each.name,
                    "does": each.summary,
                    "options": {
                        option.written_name: _described(option)
                        for option in option_fields(each.options)
                    },
                }
                for each in chosen
            ]
        }

    def plan(
        self,
        *,
        table: _Table,
        verb: _Verb,
        options: Annotated[
            dict[str, Any] | None,
            Field(description="Options of the verb, by their names; `verbs` lists them."),
        ] = None,
        whole: Annotated[
            bool,
            Field(
                description="Give the whole plan too, which `--plan FILE` of the command takes.",
                strict=True,
            ),
        ] = False,
    ) -> Value:
        """What a verb would do to a table (a dry run): which files, bytes and rows, and why.

        It carries nothing out.
        """
        opened, known = self.catalog.table(table), PROCEDURES[verb]
        chosen = known.options(**dict(_chosen(known, options or {}, opened)))
        work = Work(run="lakewright mcp", session=_no_session)
        try:
            outcome = carry_out(known, opened, chosen, work, dry_run=True)
        except InvalidRequestError as error:
            if "refused" not in error.details:
                raise
            # Ages by the clock of the store are known once it has dated a file.
            command = shlex.join(["lakewright", verb.replace("_", "-"), table, "--dry-run"])
            raise InvalidRequestError(
                f"a plan of {verb} must {error.details['refused']}, and no tool here writes: run "
                f"`{command}`, with these options, where commands may write"
            ) from error
        report = known.report(opened, outcome)
        rows = {
            name: [plain(each) for each in islice(found, _MOST_ROWS)]
            for name, found in report.tables.items()
        }
        return {
            "table": table,
            "verb": verb,
            "summary": report.summary,
            "nothing_to_do": report.is_empty,
            "figures": report_record(report),
            "parts": rows,
            "parts_left_out": {
                name: len(found) - _MOST_ROWS
                for name, found in report.tables.items()
                if len(found) > _MOST_ROWS
            },
            "notes": list(report.notes),
            **({"plan": json.loads(outcome.plan.to_json())} if whole else {}),
        }

    # --- what was done --------------------------------------------------------------------------

    def ledger(
        self,
        *,
        table: _AnyTable = None,
        verb: Annotated[
            str | None, Field(description="Only this verb, such as compact or expire.")
        ] = None,
        run: Annotated[str | None, Field(description="Only what this run did.")] = None,
        since: _Since = "7d",
        limit: _Limit = 50,
    ) -> Value:
        """The actions of upkeep that were recorded, newest first.

        Each with what it took and gained, predicted and actual.
        """
        actions = self._ledger().actions(
            table=table,
            verb=None if verb is None else verb.replace("-", "_"),
            run=run,
            since_ms=self._since_ms(since),
        )
        return {
            "actions": [
                {
                    **row_of(action),
                    "started": iso_time(action.started_ms),
                    "ended": iso_time(action.ended_ms),
                }
                for action in islice(reversed(actions), limit)
            ],
            "left_out": max(len(actions) - limit, 0),
        }

    def savings(
        self,
        *,
        table: _AnyTable = None,
        since: _Since = "7d",
        by: Annotated[By, Field(description="What the sums are for.")] = By.TABLE,
    ) -> Value:
        """What upkeep cost and saved in sum, predicted and actual."""
        actions = self._ledger().actions(table=table, since_ms=self._since_ms(since))
        return {
            "by": by.value,
            "savings": [asdict(saving) for saving in savings(actions, by)],
            "total": asdict(total(actions)),
        }

    def _ledger(self) -> Ledger:
        ledger = Ledger(self.catalog)
        if not ledger.exists():
            raise NotFoundError(no_ledger(self.catalog))
        return ledger

    def _since_ms(self, age: str) -> int:
        return max(0, self.catalog.env.now_ms() - duration_ms(age))


def _no_session() -> NoReturn:
    raise InvalidRequestError(
        "this plan needs Spark, which is not started here; give the option engine=local"
    )


def _chosen(
    verb: AnyProcedure, given: Mapping[str, Any], table: Table
) -> Iterator[tuple[str, object]]:
    """Pairs of names and values for the options of a verb."""
    known = {each.written_name: each for each in option_fields(verb.options)}
    for name, value in given.items():
        if name not in known:
            raise InvalidRequestError(
                f"{verb.name} has no option {name}; it has {', '.join(known) or 'none'}"
            )
        if name in _OUTSIDE:
            raise InvalidRequestError(
                f"{name} leads out of the warehouse, and no answer reads anything there; a person "
                f"may ask `lakewright {verb.name.replace('_', '-')} --help` for it"
            )
        yield known[name].name, known[name].kind.read(value, name, table.table_files)


def _described(option: OptionField) -> dict[str, object]:
    found: dict[str, object] = {"meaning": option.text, "type": option.kind.says}
    default = plain(getattr(option.default, "value", option.default))
    return found if default is None else {**found, "default": default}


def _with_time(decision: dict[str, object]) -> dict[str, object]:
    """With the moment at which it is asked again as a time."""
    again_ms = decision.pop("again_ms", None)
    if isinstance(again_ms, int):
        decision["again"] = iso_time(again_ms)
    return decision
