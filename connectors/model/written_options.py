"""Options as definitions write them: older names, and values that the environment keeps.

A definition holds no secret (`check_no_secret`). It writes `${env:NAME}`, which is the value of an
environment variable where the table is used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import quote

from lakewright.storage.errors import InvalidOption
from lakewright.storage.secret_texts import REFERENCE
from lakewright.storage.spec.kept_secrets import check_no_secret

__all__ = ["check_no_secret", "modern_options", "with_environment"]

# The names of the first SQL connectors.
_OLDER = {
    "connector.type": "connector",
    "connector.path": "path",
    "connector.url": "url",
    "connector.table": "table-name",
    "format.type": "format",
    "format.field-delimiter": "csv.field-delimiter",
}
# They said what is settled otherwise now.
_WITHOUT_EFFECT = {
    "connector.version",
    "connector.property-version",
    "format.property-version",
    "partition-support",
}
_MODES = ("append", "upsert", "retract")
# The user and the password of an address, in which a variable stands.
_USER = re.compile(r"(?<=://)[^/?#\s@]*@")


def modern_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options by their present names.

    Raises:
        InvalidOption: an option is given by both names, or an update mode is none.
    """
    found: dict[str, str] = {}
    for name, text in options.items():
        if name in _WITHOUT_EFFECT:
            continue
        if name == "update-mode":
            if text not in _MODES:
                raise InvalidOption(f"update-mode is {text!r}; it can be {', '.join(_MODES)}")
            continue
        now = _OLDER.get(name, name)
        if now in found:
            raise InvalidOption(f"options {name} and {now} are the same; leave one out")
        found[now] = text
    return found


def with_environment(options: Mapping[str, str], table: str) -> dict[str, str]:
    """Options with the values of environment variables that they refer to.

    Raises:
        InvalidOption: a variable is not set.
    """

    def value(option: str, found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise InvalidOption(
                f"option {option} of {table} is the environment variable {found[1]}, which is not "
                "set in this process",
                option=option,
            )
        return os.environ[found[1]]

    def resolved(option: str, text: str) -> str:
        def in_user(found: re.Match[str]) -> str:
            # A password has any characters; those that are escaped already stay so.
            return REFERENCE.sub(lambda each: quote(value(option, each), safe="%"), found[0])

        return REFERENCE.sub(lambda each: value(option, each), _USER.sub(in_user, text))

    return {name: resolved(name, text) for name, text in options.items()}
