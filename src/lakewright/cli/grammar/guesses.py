"""Words that people type first, and the commands that do what they mean.

An alias does exactly what its command does, and only reads. Everything else is a hint: the word
may mean more than one thing, needs a table, or would change one.
"""

from __future__ import annotations

ALIASES = {
    "tables": "ls",
    "list": "ls",
    "describe": "show",
    "desc": "show",
    "info": "show",
}
# What each word may mean, as calls; a test parses each.
HINTS: dict[str, tuple[str, ...]] = {
    "clean": ("expire-snapshots TABLE --dry-run", "remove-orphans TABLE --dry-run"),
    "cluster": ("sort-compact TABLE --help",),
    "count": ('sql "SELECT count(*) FROM db.name"',),
    "create": ('sql "CREATE TABLE db.name (id BIGINT, v INT)"',),
    "databases": ('sql "SHOW DATABASES"',),
    "delete": ("drop-partitions TABLE --help", 'sql "DROP TABLE db.name"'),
    "drop": ("drop-partitions TABLE --help", 'sql "DROP TABLE db.name"'),
    "expire": ("expire-snapshots TABLE --dry-run", "expire-partitions TABLE --dry-run"),
    "export": ("read TABLE --format csv", "export-contract TABLE"),
    "gc": ("expire-snapshots TABLE --dry-run", "remove-orphans TABLE --dry-run"),
    "head": ("read TABLE --limit 10",),
    "health": ("show TABLE", "adopt", "top"),
    "help": ("--help",),
    "insert": ('sql "INSERT INTO db.name VALUES (1, 2)"', "backfill --help"),
    "log": ("snapshots TABLE", "history"),
    "maintain": ("upkeep --help", "adopt"),
    "merge": ("compact TABLE --dry-run", "branch --help"),
    "migrate": ("alter TABLE --help", "adopt --help"),
    "optimize": ("compact TABLE --dry-run", "sort-compact TABLE --help"),
    "query": ('sql "SELECT * FROM db.name"', "read TABLE --limit 10"),
    "repair": ("repair-partitions TABLE --help", "sync --help"),
    "rewrite": ("compact TABLE --dry-run", "rewrite-manifests TABLE --dry-run"),
    "scan": ("read TABLE --limit 10", "files TABLE"),
    "schema": ("show TABLE", "alter TABLE --help"),
    "select": ('sql "SELECT * FROM db.name"', "read TABLE --limit 10"),
    "serve": ("up", "mcp"),
    "stats": ("show TABLE", "analyze TABLE --dry-run"),
    "status": ("show TABLE", "adopt", "top"),
    "vacuum": ("expire-snapshots TABLE --dry-run", "remove-orphans TABLE --dry-run"),
    "validate": ("check --help", "validate-schema TABLE"),
    "version": ("--version",),
    "write": ('sql "INSERT INTO db.name VALUES (1, 2)"', "backfill --help"),
    "zorder": ("sort-compact TABLE --help",),
}


def hint(word: str) -> str | None:
    """What leads on from a word that is no command."""
    calls = HINTS.get(word)
    if calls is None:
        return None
    told = " or ".join(f"`lakewright {each}`" for each in calls)
    return f"there is no command {word!r}; for that: {told}"
