"""Putting other code into a module that is loaded, where everybody has its functions already."""

from __future__ import annotations

from functools import cached_property
from types import FunctionType, ModuleType
from typing import Any


def graft(module: ModuleType, source: str) -> None:
    """Let the functions and values of `module` be those of `source`, the same module otherwise.

    Functions and classes stay the objects that others have imported; what is in them is replaced.
    """
    before = dict(vars(module))
    exec(compile(source, str(module.__file__), "exec"), vars(module))
    for name, old in before.items():
        new = vars(module)[name]
        if getattr(old, "__module__", None) == module.__name__ and callable(old):
            _graft_member(old, new)
        if callable(old) or repr(old) == repr(new):
            # A value that is equal may hold a class of its own, which no other module knows.
            vars(module)[name] = old


def _graft_member(old: Any, new: Any) -> None:
    match old:
        case FunctionType():
            if hasattr(old, "__wrapped__"):
                _graft_member(old.__wrapped__, new.__wrapped__)
            else:
                old.__code__ = new.__code__
                old.__defaults__, old.__kwdefaults__ = new.__defaults__, new.__kwdefaults__
        case type():
            for name, member in vars(old).items():
                _graft_member(member, vars(new).get(name))
        case property():
            _graft_member(old.fget, new.fget)
        case cached_property():
            _graft_member(old.func, new.func)
        case staticmethod() | classmethod():
            _graft_member(old.__func__, new.__func__)
