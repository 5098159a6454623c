"""A verb in one call: what a planning method plans is carried out at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from inspect import Parameter, signature
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, overload

from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.running.plan import Plan

P = ParamSpec("P")
PlanT_co = TypeVar("PlanT_co", bound=Plan[Any], covariant=True)
ResultT = TypeVar("ResultT")


class AtOnce(Generic[P, PlanT_co]):
    """A method of a face: it takes what the planning method takes, and returns the result.

    With `dry_run=True` it returns the plan. `engine` is for verbs that read or rewrite rows; other
    arguments of a run are for `run`.
    """

    def __init__(self, plan: Callable[Concatenate[Any, P], PlanT_co], face: Any = None) -> None:
        self._plan = plan
        self._face = face
        update_wrapper(self, plan)
        planned = signature(plan)
        self._plans_on_engine = "engine" in planned.parameters
        how = [
            Parameter("engine", Parameter.KEYWORD_ONLY, default=None, annotation=Engine | None),
            Parameter("dry_run", Parameter.KEYWORD_ONLY, default=False, annotation=bool),
        ]
        taken = list(planned.parameters.values())[0 if face is None else 1 :]
        taken = [each for each in taken if each.name != "engine"]
        # Help and completion show it.
        self.__signature__ = planned.replace(parameters=[*taken, *how])

    def __get__(self, face: Any, kind: type[Any]) -> AtOnce[P, PlanT_co]:
        return AtOnce(self._plan, face)

    @overload
    def __call__(self: AtOnce[P, Plan[ResultT]], *args: P.args, **asked: P.kwargs) -> ResultT: ...

    @overload
    def __call__(self, *args: Any, dry_run: Literal[True], **asked: Any) -> PlanT_co: ...

    @overload
    def __call__(
        self: AtOnce[P, Plan[ResultT]], *args: Any, engine: Engine, **asked: Any
    ) -> ResultT: ...

    def __call__(self, *args: Any, **asked: Any) -> Any:
        dry_run = asked.pop("dry_run", False)
        how = {"engine": asked.pop("engine")} if asked.get("engine") else {}
        if self._plans_on_engine:
            asked |= how
        plan = self._plan(self._face, *args, **asked)
        return plan if dry_run else self._face.run(plan, **how)
