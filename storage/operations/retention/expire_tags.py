"""Expiry of tags past their retention time, and of automatic tags beyond the number to retain.

1. Choose tags whose `tagCreateTime` plus `tagTimeRetained` has passed by the wall clock, tags
   older than a given age, but those that it spares by name, and the oldest automatic tags beyond
   `tag.num-retained-max`.
2. Run: refuse a tag that is to be retained for longer by now; delete the tags as
   `references/tags.py` does.

Source: Paimon specification, chapter Manage Tags; `TagTimeExpire`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from lakewright.storage.errors import StalePlan
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.tags import (
    DeleteTagsPlan,
    DeleteTagsResult,
    plan_delete_tags,
    run_delete_tags,
    surplus_tags,
)
from lakewright.storage.operations.running.local_clock import local_now, local_time
from lakewright.storage.operations.running.verb_options import DURATION, grace, names, option
from lakewright.storage.operations.state.store_clock import check_machine_clock, check_not_ahead
from lakewright.storage.spec.arguments import listed_names, text_argument, whole_or_none

_MS = dt.timedelta(milliseconds=1)


@dataclass(frozen=True)
class ExpireTagsOptions:
    """Which tags go besides those whose own time is over."""

    older_than_ms: int | None = option(
        DURATION,
        None,
        "Also delete tags of this age whose own retention is longer.",
    )
    spare: Sequence[str] = option(
        names(),
        (),
        "Patterns of tags that no age deletes, such as release-*; their own time to live still "
        "ends.",
    )
    grace_ms: int = grace()


def plan_expire_tags(files: TableFiles, options: ExpireTagsOptions) -> DeleteTagsPlan:
    """Plan the expiry of tags; `older_than_ms` also selects tags of that age, in milliseconds.

    A tag without a creation time is as old as its file. `spare` are patterns of names: no age
    selects the tags that match one, and their own time to live still ends.

    Raises:
        InvalidRequestError: the age is negative, or no whole number, or a pattern is no text.
        ClockJumped: the latest snapshot is dated in the future, so ages are unknown.
    """
    spare = listed_names(options.spare, "spare")
    older_than_ms = whole_or_none(options.older_than_ms, "older_than_ms", minimum=0)
    spared = tuple(text_argument(each, "spare") for each in spare)
    check_machine_clock(files, files.snapshots.latest())
    now = local_now(files)
    modified = files.references.tag_modified_ms()
    reasons: dict[str, str] = {}
    for tag in files.references.tags().values():
        expires = tag.expires_at
        made = tag.create_time or local_time(modified.get(tag.name, files.env.now_ms()), None)
        if expires is not None and expires < now:
            reasons[tag.name] = f"tag {tag.name} was to be retained until {_shown(expires)}"
        elif is_spared(tag.name, spared):
            continue
        elif older_than_ms is not None and (now - made) / _MS > older_than_ms:
            reasons[tag.name] = f"tag {tag.name} was made {_shown(made)}"
    for name in surplus_tags(files):
        most = files.options.tag_num_retained_max
        reasons.setdefault(name, f"tag {name} is beyond the {most} automatic tags to retain")
    plan = plan_delete_tags(files, reasons, reasons=reasons.values(), grace_ms=options.grace_ms)
    return replace(plan, older_than_ms=older_than_ms, spare=spared)


def is_spared(name: str, patterns: Sequence[str]) -> bool:
    """Whether a tag stays however old it is, by patterns with `*`, `?`, `[ab]` and `[!ab]`."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def run_expire_tags(files: TableFiles, plan: DeleteTagsPlan) -> DeleteTagsResult:
    """Carry out a plan of `plan_expire_tags`.

    Raises:
        StalePlan: a tag is to be retained for longer by now; and as `run_delete_tags`.
        ClockJumped: the clock of this machine is ahead of the store's; no tag is deleted.
    """
    if plan.tags:
        check_not_ahead(files)
    due = plan_expire_tags(files, ExpireTagsOptions(plan.older_than_ms, plan.spare)).tags
    kept = sorted(set(plan.tags).difference(due))
    if kept:
        raise StalePlan(
            f"{len(kept)} of the {len(plan.tags)} tags of {files.name} to expire are to be "
            f"retained for longer by now: {', '.join(kept)}; plan again"
        )
    return run_delete_tags(files, plan, verb="expire_tags")


def _shown(time: dt.datetime) -> str:
    return time.isoformat(sep=" ", timespec="seconds")
