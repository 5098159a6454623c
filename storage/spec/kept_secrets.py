"""Refuses options that would keep a secret in a file of the warehouse."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from lakewright.storage.errors import InvalidOption
from lakewright.storage.secret_texts import kept_secret

# Variables that processes have anyway, whether they are set here or not.
_TAKEN = {"DISPLAY", "EDITOR", "HOME", "HOSTNAME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL"}
_TAKEN |= {"TEMP", "TERM", "TMP", "TMPDIR", "TZ", "URI", "URL", "USER", "USERNAME"}


def check_no_secret(
    options: Mapping[str, str], owner: str, *, resolved: bool = True, form: str = "${{env:{}}}"
) -> None:
    """Refuse options that hold a secret; `resolved` ones may name a variable instead, in a form.

    Raises:
        InvalidOption: names the option and the part of it, not its value.
    """
    for name, text in options.items():
        part = kept_secret(name, text)
        if part is None:
            continue
        what = f"a secret ({part})" if part else "a secret"
        if not resolved:
            raise InvalidOption(
                f"option {name} of {owner} holds {what}, which the table would keep in a file of "
                "the warehouse, for all who read it; leave it out, and put credentials where the "
                "store's own client looks for them (docs/how-to/stores.md)",
                option=name,
            )
        variable = _variable(name, part, owner)
        raise InvalidOption(
            f"option {name} of {owner} holds {what}, which a definition would keep in a file of "
            f"the warehouse; write '{form.format(variable)}' in its place, and set the environment "
            f"variable {variable} where the table is used",
            option=name,
        )


def _variable(name: str, part: str, owner: str) -> str:
    """A variable for a part of an option that is not set for something else."""
    words = [name] if name.lower().endswith(part.lower()) else [name, part]
    variable = _as_variable(*words)
    if variable in _TAKEN or variable in os.environ:
        variable = _as_variable(owner.rpartition(" ")[2], *words)
    while variable in os.environ:
        variable += "_SECRET"
    return variable


def _as_variable(*words: str) -> str:
    found = re.sub(r"\W+", "_", "_".join(words), flags=re.ASCII).strip("_").upper()
    return f"OPTION_{found}" if found[:1].isdigit() else found
