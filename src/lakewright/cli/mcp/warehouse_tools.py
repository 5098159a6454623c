"""The tools: health, why, policy, verbs, plan, ledger and savings of one warehouse.

All of them work on a catalog that refuses every change.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn, get_args, get_origin

from lakewright.cli.commands.adopt import survey_record
from lakewright.cli.mcp.tools import Parameter, Tool, Value
from lakewright.cli.output.partitions import plain_spec
from lakewright.cli.output.report_text import plain, report_record
from lakewright.cli.output.text import iso_time
from lakewright.cli.upkeep.looking import look_now, plain_decision, states_of
from lakewright.cli.upkeep.policies import plain_budget, plain_setting, policies_of, spent_today
from lakewright.platform.declare.durations import duration_ms
from lakewright.platform.declare.policy_watch import PolicyFiles
from lakewright.platform.declare.workspace import Workspace
from lakewright.platform.upkeep.option_values import option_value
from lakewright.platform.upkeep.rewrites import Partitions
from lakewright.platform.upkeep.verb import AnyVerb, OptionField, Work, carry_out, option_fields
from lakewright.platform.upkeep.verbs import VERBS
from lakewright.platform.warehouse.action_rows import row_of
from lakewright.platform.warehouse.debt import total_debt, worst_first
from lakewright.platform.warehouse.kept_tables import KeptTables
from lakewright.platform.warehouse.ledger import Ledger
from lakewright.platform.warehouse.look import Watch
from lakewright.platform.warehouse.savings import By, savings, total
from lakewright.platform.warehouse.take_survey import survey_table, survey_warehouse
from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError, NotFoundError

INSTRUCTIONS = """\
Lakewright keeps Apache Paimon tables healthy. These tools tell how tables are, what upkeep is due \
and why, what a verb would do, and what upkeep cost and saved. They change nothing. Begin with \
`health`, then ask `why` of a table. A `plan` that was saved to a file is carried out by a person, \
with `lakewright VERB TABLE --plan FILE`.\
"""
_WORST_PARTITIONS = 20
_MOST_ROWS = 40
# The option by which a verb reads files that are not the warehouse's.
_OUTSIDE = "folder"

_TABLE = Parameter(name="table", text="A table, as database.table.", needed=True)
_ANY_TABLE = Parameter(name="table", text="Only this table, as database.table.")
_SINCE = Parameter(name="since", text="What began within that time, such as 7d.", default="7d")


def _limit(most: int) -> Parameter:
    return Parameter(name="limit", text="So many at most.", kind="integer", default=most)


@dataclass(frozen=True)
class WarehouseTools:
    """Answers about one warehouse, under the policies of some files."""

    catalog: Catalog
    policy: Sequence[Path] = ()
    workspace: Workspace = field(default_factory=Workspace)

    def tools(self) -> tuple[Tool, ...]:
        """All tools."""
        return (
            Tool(
                name="health",
                text="How tables are, from their metadata alone: files, snapshots, manifests, "
                "their debt and what is wrong. With a table, its worst partitions too; otherwise "
                "those with something wrong, the worst first.",
                parameters=(
                    _ANY_TABLE,
                    Parameter(
                        name="pattern",
                        text="Only tables whose name fits, such as sales.*.",
                        default="*",
                    ),
                    _limit(20),
                ),
                answer=self.health,
            ),
            Tool(
                name="why",
                text="What upkeep is due now, in shadow or waiting, and why, with its predicted "
                "cost and benefit; of a table also what is declined, and why.",
                parameters=(_ANY_TABLE, _limit(100)),
                answer=self.why,
            ),
            Tool(
                name="policy",
                text="The upkeep policy of a table: each setting, with the line of a file that "
                "decided it and those that lost.",
                parameters=(_TABLE,),
                answer=self.explain,
            ),
            Tool(
                name="verbs",
                text="The verbs that `plan` takes, with their options.",
                parameters=(Parameter(name="verb", text="Only this verb.", choices=tuple(VERBS)),),
                answer=self.verbs,
            ),
            Tool(
                name="plan",
                text="What a verb would do to a table (a dry run): which files, bytes and rows, "
                "and why. It carries nothing out.",
                parameters=(
                    _TABLE,
                    Parameter(name="verb", text="The verb.", needed=True, choices=tuple(VERBS)),
                    Parameter(
                        name="options",
                        text="Options of the verb, by their names; `verbs` lists them.",
                        kind="object",
                    ),
                    Parameter(
                        name="whole",
                        text="Give the whole plan too, which `--plan FILE` of the command takes.",
                        kind="boolean",
                        default=False,
                    ),
                ),
                answer=self.plan,
            ),
            Tool(
                name="ledger",
                text="The actions of upkeep that were recorded, newest first: what each took and "
                "gained, predicted and actual.",
                parameters=(
                    _ANY_TABLE,
                    Parameter(name="verb", text="Only this verb, such as compact or expire."),
                    Parameter(name="run", text="Only what this run did."),
                    _SINCE,
                    _limit(50),
                ),
                answer=self.ledger,
            ),
            Tool(
                name="savings",
                text="What upkeep cost and saved in sum, predicted and actual.",
                parameters=(
                    _ANY_TABLE,
                    _SINCE,
                    Parameter(
                        name="by",
                        text="What the sums are for.",
                        default=By.TABLE.value,
                        choices=tuple(each.value for each in By),
                    ),
                ),
                answer=self.savings,
            ),
        )

    # --- how tables are -------------------------------------------------------------------------

    def health(self, *, table: str | None, pattern: str, limit: int) -> Value:
        """The survey of a table, or those of the tables of a pattern, the worst first."""
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

    def why(self, *, table: str | None, limit: int) -> Value:
        """The decisions of now."""
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
    def _watch(self) -> Watch:
        files = PolicyFiles(self.policy, workspace=self.workspace)
        return Watch(KeptTables(files=files, adopted=("*",)))

    def explain(self, *, table: str) -> Value:
        """The settings of a table."""
        self.catalog.table(table)
        policies = policies_of(self.policy, self.workspace)
        resolved = policies.of(table)
        settings = (*resolved.settings, *policies.warehouse_settings)
        budgets = policies.budgets_of(table)
        spent = spent_today(self.catalog, policies) if budgets else {}
        return {
            "table": table,
            "settings": [plain_setting(each) for each in settings],
            "budgets": [plain_budget(each, spent) for each in budgets],
            "problems": [str(problem) for problem in resolved.problems],
        }

    # --- what a verb would do -------------------------------------------------------------------

    def verbs(self, *, verb: str | None) -> Value:
        """The verbs and their options."""
        chosen = VERBS.values() if verb is None else [VERBS[verb]]
        return {
            "verbs": [
                {
                    "verb": each.name,
                    "does": each.description,
                    "options": {
                        option.written_name: _described(option)
                        for option in option_fields(each.options)
                    },
                }
                for each in chosen
            ]
        }

    def plan(
        self, *, table: str, verb: str, options: Mapping[str, Any] | None, whole: bool
    ) -> Value:
        """A dry run of a verb."""
        opened, known = self.catalog.table(table), VERBS[verb]
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
                f"`{command}`, with these options, where commands may write",
                table=table,
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
        self, *, table: str | None, verb: str | None, run: str | None, since: str, limit: int
    ) -> Value:
        """The recorded actions, newest first."""
        actions = self._ledger().actions(
            table=table,
            verb=None if verb is None else verb.replace("-", "_"),
            run=run,
            since_ms=self._since_ms(since),
        )
        return {
            "actions": [
                {
                    **row_of(each),
                    "started": iso_time(each.started_ms),
                    "ended": iso_time(each.ended_ms),
                }
                for each in islice(reversed(actions), limit)
            ],
            "left_out": max(len(actions) - limit, 0),
        }

    def savings(self, *, table: str | None, since: str, by: str) -> Value:
        """What upkeep cost and saved."""
        actions = self._ledger().actions(table=table, since_ms=self._since_ms(since))
        return {
            "by": by,
            "savings": [asdict(each) for each in savings(actions, By(by))],
            "total": asdict(total(actions)),
        }

    def _ledger(self) -> Ledger:
        ledger = Ledger(self.catalog)
        if not ledger.exists():
            raise NotFoundError(
                f"{self.catalog.uri} has no ledger; `lakewright history --create` begins one"
            )
        return ledger

    def _since_ms(self, age: str) -> int:
        return max(0, self.catalog.env.now_ms() - duration_ms(age))


def _no_session() -> NoReturn:
    raise InvalidRequestError(
        "this plan needs Spark, which is not started here; give the option engine=local"
    )


def _chosen(verb: AnyVerb, given: Mapping[str, Any], table: Table) -> Iterator[tuple[str, object]]:
    """Pairs of names and values for the options of a verb."""
    known = {each.written_name: each for each in option_fields(verb.options)}
    for name, value in given.items():
        if name not in known:
            raise InvalidRequestError(
                f"{verb.name} has no option {name}; it has {', '.join(known) or 'none'}"
            )
        if name == _OUTSIDE:
            raise InvalidRequestError(
                f"{name} leads out of the warehouse, and no answer reads anything there; "
                f"`lakewright {verb.name.replace('_', '-')} {table.name} FOLDER --dry-run` does"
            )
        yield known[name].name, option_value(known[name], value, table)


def _described(option: OptionField) -> dict[str, object]:
    found: dict[str, object] = {"meaning": option.text, "type": _type_text(option)}
    default = plain(getattr(option.default, "value", option.default))
    return found if default is None else {**found, "default": default}


def _type_text(option: OptionField) -> str:
    kind = option.kind
    if option.is_duration:
        return "a duration, such as 1h or 7d"
    if option.is_size:
        return "a number of bytes, or a size such as 64 MB"
    if kind == Partitions:
        return "a list of keys of partitions: a value, or dt=…/hh=… for several columns"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"one of {', '.join(str(each.value) for each in kind)}"
    if get_origin(kind) is tuple:
        return f"a list of {get_args(kind)[0].__name__}"
    return str(kind.__name__)


def _with_time(decision: dict[str, object]) -> dict[str, object]:
    """With the moment at which it is asked again as a time."""
    again_ms = decision.pop("again_ms", None)
    if isinstance(again_ms, int):
        decision["again"] = iso_time(again_ms)
    return decision
