"""Options as definitions write them: older names, and values that the environment keeps.

A definition holds no secret. It writes `${env:NAME}`, which is the value of an environment variable
where the table is used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from lakewright.storage.errors import InvalidOption

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
_REFERENCE = re.compile(r"\$\{env:(\w+)\}")
_PASSWORD_IN_URI = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
_PARAMETER = re.compile(r"[?&]([\w.-]+)=([^&]+)")
_SECRET_WORDS = (
    "api-key",
    "apikey",
    "authorization",
    "cookie",
    "credential",
    "password",
    "secret",
    "token",
)


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

    return {
        name: _REFERENCE.sub(lambda found, name=name: value(name, found), text)  # type: ignore[misc]
        for name, text in options.items()
    }


def check_no_secret(options: Mapping[str, str], table: str) -> None:
    """Refuse a definition that would keep a secret in a file.

    Raises:
        InvalidOption: names the option, not its value.
    """
    for name, text in options.items():
        in_uri = _PASSWORD_IN_URI.search(text)
        is_kept = in_uri is not None and _REFERENCE.fullmatch(in_uri[1]) is None
        is_kept |= any(
            is_secret(each) and _REFERENCE.search(value) is None
            for each, value in _PARAMETER.findall(text)
        )
        if not is_kept and not (is_secret(name) and _REFERENCE.search(text) is None and text):
            continue
        variable = re.sub(r"\W+", "_", name).upper()
        raise InvalidOption(
            f"option {name} of {table} holds a secret, which a definition would keep in a file of "
            f"the warehouse; write '${{env:{variable}}}' in its place, and set the environment "
            f"variable {variable} where the table is used",
            option=name,
        )


def is_secret(name: str) -> bool:
    """Whether an option holds a secret, by its name."""
    lowered = name.lower().replace("_", "-").replace(".", "-")
    return any(word in lowered for word in _SECRET_WORDS)
