"""Environment variables in the paths of sources, as `${NAME}`.

A declaration keeps the name; the value is looked up when a run reads the source. So no value
stands in definitions or metadata, and errors name the variable in place of its value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lakewright.platform.documents.marked_yaml import Place
from lakewright.platform.documents.wrong_places import Finding
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.storage.errors import InvalidOption, InvalidRows, NotFoundError, StorageError
from lakewright.storage.secret_texts import kept_secret
from lakewright.storage.spec.kept_secrets import check_no_secret

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_VARIABLE = re.compile(rf"\$\{{({_NAME})\}}")
_BEGIN = "${"
_LEAST_FORM = 3


def check_source_variables(declaration: TableDeclaration) -> Iterator[Finding]:
    """References that name no variable, and secrets in place of one."""
    source = declaration.source
    if source is None:
        return
    kept = source if source.stream is None else source.stream
    place: Place = ("source",) if source.stream is None else ("source", "stream")
    for kind, path in source.paths.items():
        if _BEGIN in _VARIABLE.sub("", path):
            message = f"{path!r} has a {_BEGIN} without a name and }}; write ${{NAME}}"
            yield (*place, kind), message
        plain = _VARIABLE.sub(r"${env:\1}", path)
        # The check of stores refuses the credentials of a path that it can tell.
        if _BEGIN in path or kept_secret(kind, plain) not in ("user", "password"):
            yield from _secrets((*place, kind), plain, "${{{}}}")
    for name, text in kept.options.items():
        yield from _secrets((*place, "options", name), text, "${{env:{}}}")


def _secrets(place: Place, text: str, form: str) -> Iterator[Finding]:
    """Why a text may not stand in a file; `form` is how a variable is written there."""
    try:
        check_no_secret({str(place[-1]): text}, "the source", form=form)
    except InvalidOption as error:
        yield place, error.message


def with_source_variables(
    declaration: TableDeclaration, environment: Mapping[str, str] | None = None
) -> tuple[TableDeclaration, Mapping[str, str]]:
    """The declaration with the values of variables in its source, and these values by name.

    Raises:
        NotFoundError: a variable is not set, or empty.
    """
    environment = os.environ if environment is None else environment
    source, values = declaration.source, dict[str, str]()
    paths = _paths(declaration)
    for kind, path in paths.items():
        for name in _VARIABLE.findall(path):
            if not environment.get(name):
                raise NotFoundError(
                    f"the source of {declaration.table} is {kind} {path}, and the environment "
                    f"variable {name} is not set; set it where the runs are executed; nothing was "
                    "written"
                )
            values[name] = environment[name]
    if source is None or not values:
        return declaration, {}
    given = {kind: _VARIABLE.sub(lambda m: values[m[1]], path) for kind, path in paths.items()}
    return declaration.model_copy(update={"source": source.with_paths(given)}), values


@contextmanager
def values_hidden(values: Mapping[str, str]) -> Iterator[None]:
    """Errors name variables in place of their values, and have no cause that would show them."""
    try:
        yield
    except Exception as error:
        told = list(_told(error))
        forms = [(form, name) for name, value in values.items() for form in _forms(value)]
        if not any(form in text for text in told for form, _ in forms):
            raise
        is_ours = isinstance(error, StorageError)
        hidden = str(error) if is_ours else f"{type(error).__name__}: {error}"
        # A value may contain another one.
        for form, name in sorted(forms, key=lambda each: -len(each[0])):
            hidden = hidden.replace(form, f"${{{name}}}")
        if isinstance(error, StorageError):
            raise type(error)(hidden) from None
        raise InvalidRows(hidden) from None


def _forms(value: str) -> set[str]:
    """A value, and what stores make of it: no scheme, `..` followed, slashes once, escapes."""
    path = value.partition("://")[2] or value.removeprefix("file:")
    found = {path, os.path.normpath(re.sub("/+", "/", path)), repr(value)[1:-1]}
    if "://" not in value or value.startswith("file:"):
        found.add(os.path.normpath(Path(path).absolute()))
    # Shorter ones are in too many words that tell nothing.
    return {value, *(each for each in found if len(each) >= _LEAST_FORM)}


def _told(error: BaseException | None) -> Iterator[str]:
    """What a trace shows of an error and of its causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield f"{type(error).__name__}: {error} {vars(error)}"
        error = error.__cause__ or error.__context__


def _paths(declaration: TableDeclaration) -> Mapping[str, str]:
    return {} if declaration.source is None else declaration.source.paths
