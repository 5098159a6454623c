"""What is installed, for people: names, roles, who brings them, and their options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakewright.connectors.options import Option
from lakewright.connectors.registry import ROLES, Registry, installed
from lakewright.storage.errors import StorageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A connector or a format; `options` say whether each is required."""

    identifier: str
    roles: tuple[str, ...]
    distribution: str
    description: str
    options: tuple[tuple[Option, bool], ...]


def listed(group: str, registry: Registry | None = None) -> list[Listed]:
    """All of a group; one that cannot be loaded says why in its description."""
    registry = registry or installed()
    found = []
    for name in registry.names(group):
        try:
            found.append(one(group, name, registry))
        except StorageError as error:
            brought = ", ".join(entry.distribution for entry in registry.entries(group, name))
            found.append(
                Listed(
                    identifier=name,
                    roles=(),
                    distribution=brought,
                    description=f"cannot be used: {error.message}",
                    options=(),
                )
            )
    return found


def one(group: str, identifier: str, registry: Registry | None = None) -> Listed:
    """One of a group.

    Raises:
        NotFoundError: there is none of this name.
    """
    registry = registry or installed()
    factory: Any = registry.factory(group, identifier)
    entries = registry.entries(group, identifier)
    required, optional = factory.required_options, factory.optional_options
    return Listed(
        identifier=identifier,
        roles=tuple(text for kind, text in ROLES.items() if isinstance(factory, kind)),
        distribution=entries[0].distribution if entries else "the catalog",
        description=getattr(factory, "description", ""),
        options=(*((each, True) for each in required), *((each, False) for each in optional)),
    )
