"""Tells a plan that was carried out before from one that another schema change made stale."""

from __future__ import annotations

from lakewright.storage.errors import SchemaMoved
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.respec.cut_over import keys_stand
from lakewright.storage.operations.respec.respec_plan import RespecPlan
from lakewright.storage.operations.state.keys_of_files import late_entries
from lakewright.storage.operations.state.table_state import ANY_KEYS, latest_state
from lakewright.storage.spec.schema_difference import differences

# So many differences of two schemas stand in a message.
_MOST_SHOWN = 5


def check_carried_out(files: TableFiles, plan: RespecPlan) -> None:
    """Check that a table of a later schema has all that a plan was made for.

    Raises:
        SchemaMoved: it has other keys, or a change of its keys is under way or was stopped.
    """
    schema = files.schema
    moved = (
        f"the plan to change the partition keys of {files.name} was made for schema "
        f"{plan.schema_id}, and the table has schema {schema.id}"
    )
    primary = schema.primary_keys if plan.primary_key is None else plan.primary_key
    has_keys = schema.partition_keys == plan.keys and set(schema.primary_keys) == set(primary)
    # Where files of a moved table lie says no schema.
    if not has_keys or plan.moved_from is not None:
        told = _what_changed(files, plan)
        raise SchemaMoved(f"{moved}{told}; plan again")
    entries = latest_state(files, takes=ANY_KEYS).entries
    is_under_way = files.staged_changes.latest() is not None
    if is_under_way or not keys_stand(files) or late_entries(files, entries):
        raise SchemaMoved(
            f"{moved}, which has these keys; files of others are left, of a change that was "
            "stopped or of a client that had opened the table before; plan again"
        )


def _what_changed(files: TableFiles, plan: RespecPlan) -> str:
    if plan.schema_id not in files.schemas.ids():
        return ""
    then = files.at_schema(plan.schema_id).schema
    found = [str(each) for each in differences(then, files.schema)]
    more = len(found) - _MOST_SHOWN
    shown = "; ".join(found[:_MOST_SHOWN]) + (f"; and {more} more" if more > 0 else "")
    return f" ({shown})" if found else ""
