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
    "history": "snapshots",
}
# What each word may mean, as calls; a test parses each.
HINTS: dict[str, tuple[str, ...]] = {
    "append": ('sql "INSERT INTO db.name VALUES (1, 2)"',),
    "apply": ("upkeep --dry-run",),
    "cat": ("read TABLE --limit 10",),
    "clean": ("expire-snapshots TABLE --dry-run", "remove-orphans TABLE --dry-run"),
    "cleanup": ("expire-snapshots TABLE --dry-run", "remove-orphans TABLE --dry-run"),
    "cluster": ("sort-compact TABLE --help",),
    "columns": ("show TABLE",),
    "cost": ("savings",),
    "costs": ("savings",),
    "count": ('sql "SELECT count(*) FROM db.name"',),
    "create": ('sql "CREATE TABLE db.name (id BIGINT, v INT)"',),
    "dashboard": ("up", "top"),
    "databases": ('sql "SHOW DATABASES"',),
    "debt": ("adopt", "top"),
    "doctor": ("adopt", "show TABLE"),
    "drop": ("drop-partitions TABLE --help", 'sql "DROP TABLE db.name"'),
    "du": ("ls", "show TABLE"),
    "expire": ("expire-snapshots TABLE --dry-run", "expire-partitions TABLE --dry-run"),
    "export": ("read TABLE --output rows.parquet", "export-contract TABLE"),
    "gc": ("expire-snapshots TABLE --dry-run", "remove-orphans TABLE --dry-run"),
    "head": ("read TABLE --limit 10",),
    "health": ("show TABLE", "adopt", "top"),
    "import": ("backfill --help", 'sql "INSERT INTO db.name VALUES (1, 2)"'),
    "ingest": ("backfill --help", "stream --help"),
    "insert": ('sql "INSERT INTO db.name VALUES (1, 2)"', "backfill --help"),
    "load": ("backfill --help", 'sql "INSERT INTO db.name VALUES (1, 2)"'),
    "log": ("snapshots TABLE", "ledger"),
    "maintain": ("upkeep --help", "adopt"),
    "migrate": ("alter TABLE --help", "adopt --help"),
    "monitor": ("top", "up"),
    "optimize": ("compact TABLE --dry-run", "sort-compact TABLE --help"),
    "plan": ("upkeep --dry-run",),
    "policy": ("adopt --policy FILE", "explain TABLE"),
    "prune": ("expire-snapshots TABLE --dry-run", "expire-partitions TABLE --dry-run"),
    "purge": ("condemned collect TABLE --dry-run",),
    "query": ('sql "SELECT * FROM db.name"', "read TABLE --limit 10"),
    "rename": ("alter TABLE --help", "rename-partition TABLE --help"),
    "repair": ("repair-partitions TABLE --help", "sync --help"),
    "restore": ("undo RUN --dry-run", "condemned put-back TABLE ID --dry-run"),
    "rewrite": ("compact TABLE --dry-run", "rewrite-manifests TABLE --dry-run"),
    "run": ("upkeep --dry-run", "up"),
    "scan": ("read TABLE --limit 10", "files TABLE"),
    "schema": ("show TABLE", "alter TABLE --help"),
    "select": ('sql "SELECT * FROM db.name"', "read TABLE --limit 10"),
    "serve": ("up", "mcp"),
    "size": ("ls", "show TABLE"),
    "start": ("init", "up"),
    "stats": ("show TABLE", "analyze TABLE --dry-run"),
    "status": ("show TABLE", "adopt", "top"),
    "tail": ("read TABLE --limit 10",),
    "truncate": ("delete TABLE --all-rows --dry-run",),
    "ui": ("up",),
    "vacuum": ("expire-snapshots TABLE --dry-run", "remove-orphans TABLE --dry-run"),
    "validate": ("check --help", "validate-schema TABLE"),
    "version": ("--version",),
    "watch": ("top",),
    "web": ("up",),
    "write": ('sql "INSERT INTO db.name VALUES (1, 2)"', "backfill --help"),
    "zorder": ("sort-compact TABLE --help",),
}


def hint(word: str) -> str | None:
    """What leads on from a word that is no command."""
    calls = HINTS.get(word)
    if calls is None:
        return None
    told = " or ".join(f"`lakewright {call}`" for call in calls)
    return f"there is no command {word!r}; for that: {told}"
