"""What may come of two verbs at once, as a table for people: `python -m tests.races.matrix`.

With a number, actors are held up so often at most; without, as often as the deep tests do.
"""

from __future__ import annotations

import sys

from tests.races.pairs import PAIRS, deep_bound, explore


def lines(preemptions: int | None) -> list[str]:
    """A table in Markdown: a line for each pair."""
    found = [
        "| verbs | what may come of them | held up | interleavings | states |",
        "|---|---|--:|--:|--:|",
    ]
    for pair in PAIRS:
        bound = deep_bound(pair) if preemptions is None else preemptions
        finding = explore(*pair, preemptions=bound)
        outcomes = sorted(_told(pair, each) for each in finding.race.outcomes)
        often = "any" if bound is None else str(bound)
        counts = f"{finding.explored.ends:,} | {finding.explored.states:,}"
        told = "; ".join(dict.fromkeys(outcomes))
        wrong = f" **{len(finding.race.problems)} wrong**" if finding.race.problems else ""
        found.append(f"| {pair[0]}, {pair[1]} | {told}{wrong} | {often} | {counts} |")
    return found


def _told(pair: tuple[str, str], outcome: tuple[str, ...]) -> str:
    ended = [
        f"{name}: {how}"
        for name, how in zip(pair, outcome, strict=True)
        if how != "done" and name != "read"
    ]
    return " and ".join(ended) or "both done"


if __name__ == "__main__":
    bound = int(sys.argv[1]) if len(sys.argv) > 1 else None
    sys.stdout.write("\n".join(lines(bound)) + "\n")
