"""Which files of a plan still become unreachable, since a plan may be old or edited."""

from __future__ import annotations

from collections.abc import Sequence

from lakewright.storage.errors import StalePlan
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.reachable import Reach
from lakewright.storage.operations.references.roots import all_roots
from lakewright.storage.operations.running.plan import UnreachableFile


def files_of_both(
    files: TableFiles, planned: Sequence[UnreachableFile], fresh: Sequence[UnreachableFile]
) -> tuple[UnreachableFile, ...]:
    """The files of a plan that a new plan names too, since a plan may be edited.

    A file that a root keeps since the plan was made, or that is gone, is left out.

    Raises:
        StalePlan: a new plan would not delete a planned file that no root keeps.
    """
    paths = {file.path for file in planned}
    others = paths.difference(file.path for file in fresh)
    if others:
        roots, reach = all_roots(files), Reach(wanted=others)
        kept = reach.data_of_all(roots).keys() | reach.metadata_of_all(roots)
        for path in sorted(others):
            place = files.paths.below(path)
            if place not in kept and files.fs.exists(place):
                raise StalePlan(
                    f"the plan deletes {path} of {files.name}, which a new plan would not delete: "
                    "the table has changed since, or the plan; plan again"
                )
    return tuple(file for file in fresh if file.path in paths)
