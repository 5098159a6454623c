"""The schemas and columns by which the folders of a table's data files may be named, on any branch.

All branches write their data files below the table's root, in folders of their partition keys. A
writer may leave files there that nothing refers to, and may do so after its branch was deleted. The
names of columns that only this branch had are kept then, as files, so that orphan removal knows
the folders.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.branch_files import on_branch
from lakewright.storage.spec.schema import TableSchema


def schemas_of_branches(files: TableFiles) -> Iterator[TableSchema]:
    """The schemas of main, and those by which branches differ from it.

    Raises:
        SchemaNotFound: a branch was deleted meanwhile.
    """
    main = on_branch(files, "").schemas
    own = {each: main.read(each) for each in main.ids()}
    yield from own.values()
    for name in files.references.branches():
        schemas = on_branch(files, name).schemas
        for schema_id in reversed(schemas.ids()):
            schema = schemas.read(schema_id)
            if schema == own.get(schema_id):
                # A branch begins with copies of main's schemas.
                break
            yield schema


def keep_columns(files: TableFiles, branch: TableFiles) -> None:
    """Keep the names of a branch's columns that no schema of main has, before it is deleted."""
    main = on_branch(files, "").schemas
    known = {name for each in main.ids() for name in main.read(each).field_names}
    ids = branch.schemas.ids()
    lost = {name for each in ids for name in branch.schemas.read(each).field_names} - known
    if lost:
        files.references.keep_columns(lost)
