"""Which bucket of a partition each key belongs to after files came back to dynamic buckets.

The hash index of a bucket lists the keys that writers put there: all keys of its files, and maybe
others that it had once. A key that is listed too often does no harm. A key that is not listed, or
in two buckets, is stored twice by the next writer. So a revert

* leaves every index as it is where no file comes back: the files that go take no key of others
  with them, and a writer of another client may still count on the keys that it has added;
* adds to the index of a bucket the keys of the files that come back to it;
* takes these keys out of another bucket that an overwrite gave them, if no file is left there.

If files are left there, only reading them shows whether they have the key.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np


def with_returned(
    present: Mapping[int, np.ndarray], returned: Mapping[int, np.ndarray], filled: Collection[int]
) -> dict[int, np.ndarray]:
    """The hashes of each bucket of a partition, of those present and of those that return.

    `filled` are the buckets that keep files.
    """
    coming = np.concatenate(list(returned.values()))
    found: dict[int, np.ndarray] = {}
    for bucket in sorted(present.keys() | returned.keys()):
        own = returned.get(bucket, coming[:0])
        stay = present.get(bucket, coming[:0])
        if bucket not in filled:
            stay = stay[~np.isin(stay, coming)]
        found[bucket] = np.union1d(stay, own)
    return found


def shared_by(hashes: Mapping[int, np.ndarray]) -> list[int]:
    """The buckets of a partition that have a hash in common with another one."""
    together = np.concatenate(list(hashes.values()))
    values, counts = np.unique(together, return_counts=True)
    shared = values[counts > 1]
    return [bucket for bucket, own in hashes.items() if np.isin(own, shared).any()]
