"""Writes what the reference says of commands, keys and options, from the code that defines them.

    python tools/write_reference.py

It writes pages of docs/reference, and the table of commands in README.md.
"""

from __future__ import annotations

import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from lakewright.cli.grammar.root import COMMANDS, ROOT
from lakewright.connectors.formats.built_in import BUILT_IN_FORMATS
from lakewright.connectors.registry import CONNECTORS, installed
from lakewright.platform.documents.declared_values import Declared
from lakewright.platform.documents.document_kinds import DocumentKind
from lakewright.platform.policies.json_schema import json_schema_of
from lakewright.platform.policies.policies import LIMITS
from lakewright.platform.policies.setting_text import KEYS, setting_text
from lakewright.platform.tables.upkeep_policies import UpkeepPolicy, WarehousePolicy
from lakewright.storage.spec.ignored_options import IGNORED_OPTIONS
from lakewright.storage.spec.known_options import ALL, Option
from lakewright.storage.spec.options import HONOURED_OPTIONS
from lakewright.storage.spec.refused_options import REFUSED_OPTIONS

FOLDER = Path(__file__).resolve().parent.parent
README = FOLDER / "README.md"
REFERENCE = FOLDER / "docs" / "reference"
_BEGIN = "<!-- commands: written by tools/write_reference.py -->\n"
_END = "<!-- end of commands -->\n"
_NOTE = "<!-- written by tools/write_reference.py -->\n"
_COLUMNS = 98
# An option that so many commands have alike stands once, before them.
_MANY = 5
# Of such a share of the commands, those that lack it are named.
_MOST = 0.7


def pages() -> dict[Path, str]:
    """Each file with the text that it must have."""
    return {
        REFERENCE / "commands.md": _NOTE + "".join(_commands()),
        REFERENCE / "policy-keys.md": _NOTE + "".join(_policy_keys()),
        REFERENCE / "declaration-keys.md": _NOTE + "".join(_declaration_keys()),
        REFERENCE / "table-options.md": _NOTE + "".join(_table_options()),
        REFERENCE / "format-options.md": _NOTE + "".join(_format_options()),
        REFERENCE / "connector-options.md": _NOTE + "".join(_connector_options()),
        README: with_commands(README.read_text(encoding="utf-8")),
    }


def with_commands(text: str) -> str:
    """The README with the table of commands as it must be."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    rows = (
        f"| {'' if number else purpose} | {line.rstrip(',')} |\n"
        for purpose, names in COMMANDS.items()
        for number, line in enumerate(textwrap.wrap(", ".join(f"`{name}`" for name in names), 190))
    )
    return f"{before}{_BEGIN}| purpose | commands |\n|---|---|\n{''.join(rows)}{_END}{after}"


# -- commands


def _commands() -> Iterator[str]:
    yield (
        "# Commands\n\n"
        "Each command as `lakewright COMMAND --help` prints it. "
        "The options that many commands have alike stand here, "
        "and a command names those that it has.\n\n"
    )
    named = {purpose: dict(_with_members(names)) for purpose, names in COMMANDS.items()}
    records = Counter(
        record
        for commands in named.values()
        for name, command in commands.items()
        for record in _options(command, name).values()
    )
    shared = [record for record, count in records.items() if count >= _MANY]
    formatter = click.HelpFormatter(width=_COLUMNS)
    formatter.write_dl(shared)
    yield f"```text\n{formatter.getvalue()}```\n\n"
    every = {
        name: _options(command, name).values()
        for commands in named.values()
        for name, command in commands.items()
        if not isinstance(command, click.Group)
    }
    usual = [record for record, count in records.items() if count > _MOST * len(every)]
    for record in usual:
        lacking = ", ".join(f"`{name}`" for name, found in every.items() if record not in found)
        option = record[0].partition(" ")[0]
        yield f"All commands{f' but {lacking}' if lacking else ''} take `{option}`.\n"
    yield "\n"
    yield f"```text\n{_help(_without_members(ROOT), 'lakewright')}\n```\n"
    for purpose, commands in named.items():
        yield f"\n## {purpose}\n"
        for name, command in commands.items():
            options = _options(command, name)
            own = _without_members(command)
            common = [option for option, record in options.items() if record in shared]
            own.params = [param for param in command.params if param not in common]
            own.add_help_option = False
            yield f"\n### {name}\n\n```text\n{_help(own, f'lakewright {name}')}\n```\n"
            if few := [option for option in common if options[option] not in usual]:
                yield f"\nAnd {', '.join(f'`{option.opts[-1]}`' for option in few)}.\n"


def _without_members(command: click.Command) -> click.Command:
    """A copy whose help does not list members, since a section for each follows."""
    made = copy(command)
    if isinstance(made, click.Group):
        kind = type(made)
        made.__class__ = type(kind.__name__, (kind,), {"format_commands": lambda *_: None})
    return made


def _with_members(names: Iterable[str]) -> Iterator[tuple[str, click.Command]]:
    for name in names:
        command = ROOT.get_command(click.Context(ROOT), name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            for member, inner in command.commands.items():
                yield f"{name} {member}", inner


def _options(command: click.Command, name: str) -> Mapping[click.Option, tuple[str, str]]:
    """What help says of each option, but for --help."""
    context = _context(command, name)
    options = [param for param in command.params if isinstance(param, click.Option)]
    records = {option: option.get_help_record(context) for option in options}
    return {each: record for each, record in records.items() if record is not None}


def _help(command: click.Command, name: str) -> str:
    return command.get_help(_context(command, name))


def _context(command: click.Command, name: str) -> click.Context:
    return click.Context(command, info_name=name, terminal_width=_COLUMNS, max_content_width=None)


# -- policies


def _policy_keys() -> Iterator[str]:
    yield (
        "# Keys of policies\n\n"
        "Each key of a policy file, with the value that holds without it. "
        "[Policies of upkeep](policies.md) explains levels, budgets and patterns.\n"
    )
    for section, keys in groupby(KEYS.items(), lambda each: each[0][0] if each[0][1:] else ""):
        yield f"\n## {section}\n\n" if section else "\n## Whole keys\n\n"
        for key, field in keys:
            value: object = WarehousePolicy()
            for name in key:
                assert isinstance(value, Declared)
                value = getattr(value, name)
            # Every level has limits of its own.
            only = "" if key[0] in UpkeepPolicy.model_fields else " Of the warehouse only."
            only = " Of all tables of its level together." if key in LIMITS else only
            means = (field.description or "").partition("; without it")[0]
            shown = setting_text(key, value)
            shown = f"`{shown}`" if key[-1] == "schedule" else shown
            yield f"* `{'.'.join(key)}`: {means}.{only} Default: {shown}.\n"


# -- declarations


def _declaration_keys() -> Iterator[str]:
    yield (
        "# Keys of declarations\n\n"
        "Each key of a declared table. [Declaring tables](declarations.md) shows them in use.\n"
        "`lakewright yaml-schema declarations` prints the same as JSON Schema, for editors.\n"
    )
    known: Mapping[str, Any] = json_schema_of(DocumentKind.DECLARATIONS)["$defs"]  # type: ignore[assignment]
    written = {"SectionPolicy"}
    sections = [("", "TableDeclaration")]
    for path, model in sections:
        if model in written:
            continue
        written.add(model)
        yield f"\n## {path.strip('.') or 'A table'}\n\n"
        found = known[model]
        for name, field in found.get("properties", {}).items():
            inner = _model(field)
            is_section = inner is not None and "properties" in known[inner]
            more = f"{path}{name}"
            if inner and is_section:
                sections.append((f"{more}{'[]' if 'items' in field else ''}.", inner))
            yield from _declared_key(more, name, field, found, known)


def _declared_key(
    path: str, name: str, field: dict[str, Any], model: dict[str, Any], known: Mapping[str, Any]
) -> Iterator[str]:
    inner = _model(field)
    referred = known.get(inner or "", {})
    means = field.get("description") or _first_line(referred)
    if "items" in field and inner:
        means = f"a list. {means}"
    text = f"* `{path}`: {means.rstrip('.')}."
    if choices := referred.get("enum"):
        text += f" One of {', '.join(f'`{each}`' for each in choices)}."
    if inner == "SectionPolicy":
        text += " It has the [keys of policies](policy-keys.md)."
    if name in model.get("required", ()):
        text += " Required."
    elif field.get("default") not in (None, ""):
        text += f" Default: `{_yaml(field['default'])}`."
    yield f"{text}\n"


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _model(field: dict[str, Any]) -> str | None:
    """The model that a field holds, alone or as members of a list."""
    for each in (field, field.get("items", {}), *field.get("anyOf", ())):
        if "$ref" in each:
            return str(each["$ref"]).rpartition("/")[2]
    return None


def _first_line(model: dict[str, Any]) -> str:
    return str(model.get("description", "")).partition("\n\n")[0].replace("\n", " ")


# -- options of tables


def _table_options() -> Iterator[str]:
    yield (
        "# Options of tables\n\n"
        "Every option of Apache Paimon, and what Lakewright does with it. The value after a type\n"
        "is Paimon's default; a duration is such as `1 h`, a size such as `128 mb`. A `*` stands\n"
        "for a column, an index or a class. An option with a lock (🔒) cannot change once its\n"
        "table has a snapshot. What can be done to tables of later versions stands by their\n"
        "[kind](kinds-of-tables.md).\n"
    )
    for heading, says, options, lines in (
        ("Obeyed", "They have the effect that Paimon gives them.", HONOURED_OPTIONS, _obeyed),
        (
            "Refused",
            "A table with such an option is refused for the uses in brackets.",
            REFUSED_OPTIONS,
            _refused,
        ),
        ("Without effect", "They change no row and no guarantee.", IGNORED_OPTIONS, _named),
    ):
        yield f"\n## {heading}\n\n{says}\n"
        for meaning, group in groupby(options, lambda each: each.meaning):
            yield f"\n**{meaning[:1].upper()}{meaning[1:]}:**\n\n"
            yield from lines(group)


def _obeyed(options: Iterable[Option[object]]) -> Iterator[str]:
    for option in options:
        default = "" if option.default is None else f", `{option.default or '(empty)'}`"
        kind = option.kind.says.partition(" such as ")[0]
        yield f"* {_named_option(option)}: {kind}{default}{_refusals(option)}\n"


def _refused(options: Iterable[Option[object]]) -> Iterator[str]:
    yield from (f"* {_named_option(option)}{_refusals(option)}\n" for option in options)


def _named(options: Iterable[Option[object]]) -> Iterator[str]:
    yield f"{', '.join(map(_named_option, options))}\n"


def _named_option(option: Option[object]) -> str:
    return f"`{option.name}`{' 🔒' if option.immutable else ''}"


def _refusals(option: Option[object]) -> str:
    text = ""
    for refusal in option.refusals:
        is_all = set(refusal.uses) == ALL
        uses = "all" if is_all else ", ".join(sorted(each.value for each in refusal.uses))
        unless = ", ".join(f"`{each}`" for each in sorted(refusal.unless))
        text += f" ({uses}{f'; unless it is {unless}' if unless else ''})"
        if refusal.reason != option.meaning:
            text += f": {refusal.reason}"
    return text


# -- options of formats and connectors


def _format_options() -> Iterator[str]:
    yield (
        "# Options of formats\n\n"
        "Each option stands behind the name of its format: `'csv.field-delimiter' = '|'`. What\n"
        "the formats hold is in [formats](formats.md).\n"
    )
    formats = {}
    for name, place in BUILT_IN_FORMATS.items():
        module, factory = place.split(":")
        formats[name] = getattr(import_module(module), factory)()
    for name in formats:
        yield f"\n## {name}\n"
        yield from _options_of(name, formats, f"{name}.")


def _connector_options() -> Iterator[str]:
    yield (
        "# Options of connectors\n\n"
        "What connectors do is in [external tables](../how-to/external-tables.md). `format` and\n"
        "the options of a [format](formats.md) stand beside them, where one is taken.\n"
    )
    names = installed().connectors()
    connectors = {name: installed().factory(CONNECTORS, name) for name in names}
    for name, found in connectors.items():
        says = found.description[:1].upper() + found.description[1:]
        yield f"\n## {found.identifier}\n\n{says}.\n"
        if found.format_options:
            yield f"\nIt takes a format: `{'`, `'.join(found.format_options)}`.\n"
        if found.option_prefixes:
            prefixes = "`, `".join(f"{each}…" for each in found.option_prefixes)
            yield f"\nFurther options begin with `{prefixes}`.\n"
        yield from _options_of(name, connectors, "")


def _options_of(name: str, holders: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Rows of a table, but for those that another holder has alike, whose name is shorter."""
    rows = _option_rows(holders[name])
    alike: dict[str, list[str]] = {}
    for option, row in rows.items():
        owners = [each for each in holders if _option_rows(holders[each]).get(option) == row]
        alike.setdefault(min(owners, key=lambda owner: (len(owner), owner)), []).append(option)
    if own := alike.pop(name, []):
        yield "\n| option | kind | default | meaning |\n|---|---|---|---|\n"
        yield from (f"| `{prefix}{option}` | {rows[option]} |\n" for option in own)
    for owner, options in alike.items():
        listed = "`, `".join(f"{prefix}{option}" for option in options)
        yield f"\nAs in [{owner}](#{owner}): `{listed}`.\n"


def _option_rows(found: Any) -> dict[str, str]:
    rows = {}
    for option in (*found.required_options, *found.optional_options):
        default = option.default
        text = str(default).lower() if isinstance(default, bool) else default
        shown = "" if text in (None, "") else f"`{text}`".replace("|", "\\|")
        shown = "required" if option in found.required_options else shown
        kind = " or ".join(option.choices) or option.kind.value
        rows[option.name] = f"{kind} | {shown} | {option.description}"
    return rows


def main() -> int:
    """Write the pages."""
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
