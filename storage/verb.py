"""A verb of a face of a table: planned by one function, and carried out by another."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, update_wrapper
from inspect import Parameter, signature, unwrap
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeVar, overload

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.named_errors import naming
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.running.plan import Plan, Runs

P = ParamSpec("P")
PlanT_co = TypeVar("PlanT_co", bound=Plan[Any], covariant=True)
ResultT = TypeVar("ResultT")


class Face(Protocol):
    """What verbs are called on: it knows the files of its table, and carries plans out."""

    @property
    def table_files(self) -> TableFiles: ...

    def run(self, plan: Any) -> Any: ...


class Verb(Generic[P, PlanT_co]):
    """A method of a face: it takes what the planning function takes, and returns the result.

    With `dry_run=True` it returns the plan. `engine` is for verbs that read or rewrite rows; other
    arguments of a run are for the face's `run`.
    """

    def __init__(
        self,
        plan: Callable[Concatenate[TableFiles, P], PlanT_co],
        run: Callable[..., Any],
        face: Any = None,
    ) -> None:
        self._plan = plan
        self.run = run
        self._face = face
        update_wrapper(self, plan)
        planned = signature(plan)
        self._plans_on_engine = "engine" in planned.parameters
        how = [
            Parameter("engine", Parameter.KEYWORD_ONLY, default=None, annotation=Engine | None),
            Parameter("dry_run", Parameter.KEYWORD_ONLY, default=False, annotation=bool),
        ]
        _, *taken = planned.parameters.values()
        taken = [each for each in taken if each.name != "engine"]
        # Help and completion show it.
        self.__signature__ = planned.replace(parameters=[*taken, *how])

    @property
    def plan_type(self) -> type[Plan[Any]]:
        """The plans that it carries out, as the planning function says."""
        # A decorated function has its names elsewhere.
        plan = unwrap(self._plan)
        found: type[Plan[Any]] = plan.__globals__[plan.__annotations__["return"]]
        return found

    def planning(self) -> Planning[P, PlanT_co]:
        """The method that only plans."""
        return Planning(self._plan)

    def __set_name__(self, face: type[Any], name: str) -> None:
        # Help names it so.
        self.__name__ = name

    def __get__(self, face: Face | None, kind: type[Any]) -> Verb[P, PlanT_co]:
        bound = Verb(self._plan, self.run, face)
        bound.__name__ = self.__name__
        return bound

    @overload
    def __call__(self: Verb[P, Plan[ResultT]], *args: P.args, **asked: P.kwargs) -> ResultT: ...

    @overload
    def __call__(self, *args: Any, dry_run: Literal[True], **asked: Any) -> PlanT_co: ...

    @overload
    def __call__(
        self: Verb[P, Plan[ResultT]], *args: Any, engine: Engine, **asked: Any
    ) -> ResultT: ...

    def __call__(self, *args: Any, **asked: Any) -> Any:
        dry_run = asked.pop("dry_run", False)
        engine = asked.pop("engine", None)
        how = {} if engine is None else {"engine": engine}
        if self._plans_on_engine:
            asked |= how
        files = self._face.table_files
        with naming(files.name):
            plan = self._plan(files, *args, **asked)
        return plan if dry_run else self._face.run(plan, **how)


class Planning(Generic[P, PlanT_co]):
    """A method of a face that plans, and writes nothing."""

    def __init__(
        self, plan: Callable[Concatenate[TableFiles, P], PlanT_co], face: Any = None
    ) -> None:
        self._plan = plan
        self._face = face
        update_wrapper(self, plan)
        planned = signature(plan)
        _, *taken = planned.parameters.values()
        self.__signature__ = planned.replace(parameters=taken)

    def __get__(self, face: Face | None, kind: type[Any]) -> Planning[P, PlanT_co]:
        return Planning(self._plan, face)

    def __call__(self, *args: P.args, **asked: P.kwargs) -> PlanT_co:
        files = self._face.table_files
        with naming(files.name):
            return self._plan(files, *args, **asked)


@cache
def runs_of(face: type[Any]) -> Runs:
    """What carries out the plans of a face's verbs, by their types."""
    verbs = [each for each in vars(face).values() if isinstance(each, Verb)]
    return {each.plan_type: each.run for each in verbs}


@cache
def takes_engine(run: Callable[..., Any]) -> bool:
    """Whether what carries a plan out works on an engine."""
    return "engine" in signature(run).parameters
