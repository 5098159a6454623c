"""A verb of a table: its options, the function that plans, and the one that carries a plan out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from inspect import Parameter, Signature, signature, unwrap
from typing import (
    Any,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
    overload,
)

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.named_errors import naming
from lakewright.storage.operations.running.effects import Effect
from lakewright.storage.operations.running.engine import Engine, engine_or_local
from lakewright.storage.operations.running.plan import Plan, check_table
from lakewright.storage.operations.running.work_name import working_on
from lakewright.storage.operations.write.verify import verify_level

P = ParamSpec("P")
OptionsT = TypeVar("OptionsT")
PlanT = TypeVar("PlanT", bound=Plan[Any])
ResultT = TypeVar("ResultT")


class Face(Protocol):
    """What verbs are called on: it knows the files of its table."""

    @property
    def table_files(self) -> TableFiles: ...


class Verb(Generic[P, OptionsT, PlanT, ResultT]):
    """One verb, wherever it is called from; a class whose attribute it is has it as a method.

    `name` has underscores, as jobs and tags do, and `summary` says in one line what it does.
    `options` makes a dataclass of `option`s (`running/verb_options.py`) of what a call gives.
    `plan` gets files and options, and writes nothing; `run` gets files and a plan, and carries out
    exactly that. Both take an `engine` if they read or write many rows. `effect` decides what the
    verb goes beside. `not_undone` says why a run cannot be taken back, and what helps instead;
    where it says nothing, `undo` takes the run back.
    """

    def __init__(
        self,
        name: str,
        summary: str,
        options: Callable[P, OptionsT],
        plan: Callable[..., PlanT],
        run: Callable[..., ResultT],
        *,
        effect: Effect = Effect.ALONE,
        not_undone: str = "",
    ) -> None:
        self.name = name
        self.summary = summary
        self.options = options
        self.plan = plan
        self.run = run
        self.effect = effect
        self.not_undone = not_undone

    @cached_property
    def plan_type(self) -> type[PlanT]:
        """The plans that it carries out, as the planning function says."""
        plan = unwrap(self.plan)
        found: type[PlanT] = plan.__globals__[plan.__annotations__["return"]]
        return found

    @cached_property
    def how(self) -> frozenset[str]:
        """What a run takes besides the plan, such as `engine`, `verify` and `lease`."""
        return frozenset(list(signature(self.run).parameters)[2:])

    @cached_property
    def plans_on_engine(self) -> bool:
        """Whether its plan reads rows, so that it takes an engine."""
        return "engine" in signature(self.plan).parameters

    def planned(
        self, files: TableFiles, options: OptionsT, *, engine: Engine | None = None
    ) -> PlanT:
        """The plan by some options; it is made in this process unless an engine is given."""
        how = {"engine": engine} if self.plans_on_engine else {}
        with naming(files.name), working_on(f"plan {self.name}", files.name):
            return self.plan(files, options, **how)

    def carry_out(
        self, files: TableFiles, plan: Plan[Any], *, engine: Engine | None = None, **how: Any
    ) -> ResultT:
        """Carry a plan of this verb out, in this process unless an engine is given.

        Raises:
            InvalidRequestError: the plan is for another table.
        """
        check_table(plan, files)
        if "verify" in how:
            how["verify"] = verify_level(how["verify"])
        if "engine" in self.how:
            how["engine"] = engine_or_local(engine, files.env)
        with naming(files.name), working_on(self.name, files.name):
            return self.run(files, plan, **how)

    def planning(self) -> Planning[P, PlanT]:
        """The method that only plans."""
        return Planning(self)

    @overload
    def __get__(self, face: None, kind: type[Any]) -> Verb[P, OptionsT, PlanT, ResultT]: ...

    @overload
    def __get__(self, face: Face, kind: type[Any]) -> Call[P, PlanT, ResultT]: ...

    def __get__(self, face: Face | None, kind: type[Any]) -> Any:
        return self if face is None else Call(self, face)


class Planning(Generic[P, PlanT]):
    """The planning of a verb; a class whose attribute it is has it as a method."""

    def __init__(self, verb: Verb[P, Any, PlanT, Any]) -> None:
        self._verb = verb

    def __get__(self, face: Face, kind: type[Any]) -> PlanCall[P, PlanT]:
        return PlanCall(self._verb, face)


class _Method:
    """What the methods of verbs have alike: help shows the options, and what the plan says."""

    _how: tuple[Parameter, ...] = ()

    def __init__(self, verb: Verb[Any, Any, Any, Any], face: Face) -> None:
        self._verb = verb
        self._files = face.table_files
        self.__doc__ = verb.plan.__doc__
        self.__name__ = verb.name

    @property
    def __signature__(self) -> Signature:
        options = signature(self._verb.options)
        return options.replace(
            parameters=[*options.parameters.values(), *self._how],
            return_annotation=Signature.empty,
        )


class PlanCall(_Method, Generic[P, PlanT]):
    """The method that plans, and writes nothing."""

    @overload
    def __call__(self, *args: P.args, **asked: P.kwargs) -> PlanT: ...

    @overload
    def __call__(self, *args: Any, engine: Engine | None, **asked: Any) -> PlanT: ...

    def __call__(self, *args: Any, **asked: Any) -> Any:
        engine = asked.pop("engine", None)
        with naming(self._files.name):
            options = self._verb.options(*args, **asked)
        return self._verb.planned(self._files, options, engine=engine)


class Call(_Method, Generic[P, PlanT, ResultT]):
    """The method that plans and carries out; `dry_run=True` returns the plan.

    `engine` is for verbs that read or write many rows; other arguments of a run are for the `run`
    of the table's `upkeep` or `history`.
    """

    _how = (
        Parameter("engine", Parameter.KEYWORD_ONLY, default=None, annotation=Engine | None),
        Parameter("dry_run", Parameter.KEYWORD_ONLY, default=False, annotation=bool),
    )

    @overload
    def __call__(self, *args: P.args, **asked: P.kwargs) -> ResultT: ...

    @overload
    def __call__(self, *args: Any, dry_run: Literal[True], **asked: Any) -> PlanT: ...

    @overload
    def __call__(self, *args: Any, engine: Engine, **asked: Any) -> ResultT: ...

    def __call__(self, *args: Any, **asked: Any) -> Any:
        dry_run = asked.pop("dry_run", False)
        engine = asked.pop("engine", None)
        verb, files = self._verb, self._files
        with naming(files.name):
            options = verb.options(*args, **asked)
        plan = verb.planned(files, options, engine=engine)
        return plan if dry_run else verb.carry_out(files, plan, engine=engine)


AnyVerb = Verb[Any, Any, Any, Any]


def verbs_of(face: type[Any]) -> Iterator[AnyVerb]:
    """The verbs that a class has as methods."""
    return (var for var in vars(face).values() if isinstance(var, Verb))


def verb_of(face: type[Any], plan: Plan[Any]) -> AnyVerb:
    """The verb of a class that carries a plan out.

    Raises:
        InvalidRequestError: the plan belongs to none of its verbs.
    """
    for verb in verbs_of(face):
        if isinstance(plan, verb.plan_type):
            return verb
    known = ", ".join(each.plan_type.__name__ for each in verbs_of(face))
    raise InvalidRequestError(f"{type(plan).__name__} is none of the plans that run here: {known}")
