"""The branches of a table, and the files of the table on one branch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lakewright.storage.errors import TableNotFound
from lakewright.storage.files.table_files import TableFiles

FIRST_SCHEMA_ID = 0


def whole_branches(files: TableFiles) -> Iterator[TableFiles]:
    """Main and every existing branch."""
    yield on_branch(files, "")
    for name in files.references.branches():
        if is_whole_branch(files, name):
            yield on_branch(files, name)


def is_whole_branch(files: TableFiles, name: str) -> bool:
    """Whether a branch exists: its first schema is written last and deleted first."""
    if files.fs.exists(replace(files.paths, branch=name).schema(FIRST_SCHEMA_ID)):
        return True
    # Other writers copy the schemas that exist; main may have lost its first one.
    main = replace(files.paths, branch="")
    is_first_gone = not files.fs.exists(main.schema(FIRST_SCHEMA_ID))
    return is_first_gone and bool(on_branch(files, name).schemas.ids())


def shell_name(files: TableFiles) -> str:
    """The name of the table, or of its branch, as a shell takes it."""
    return f"'{files.name}$branch_{files.paths.branch}'" if files.paths.branch else files.name


def on_branch(files: TableFiles, branch: str) -> TableFiles:
    """The same table on a branch, empty for main; a half-made branch has main's schema."""
    if branch == files.paths.branch:
        return files
    seen = replace(files, paths=replace(files.paths, branch=branch))
    try:
        return replace(seen, schema=seen.schemas.latest(table=files.name))
    except TableNotFound:
        return seen
