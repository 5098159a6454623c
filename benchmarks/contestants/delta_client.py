"""delta-rs, by the Python package `deltalake`, in its own environment."""

# mypy: disable-error-code="import-not-found, import-untyped"

from __future__ import annotations

from collections.abc import Callable

from deltalake import DeltaTable

from benchmarks.contestants.serving import Outcome, Request, Work, serve, where


def plan(request: Request) -> Work:
    """Open the table, and list the files that a read of what is asked for opens.

    Its fastest plan: `to_pyarrow_dataset` prunes alike, and then makes an object for each file.
    """

    def work() -> Callable[[], Outcome]:
        table = DeltaTable(f"{request['warehouse']}/{request['table']}")
        files = table.file_uris(file_pruning_predicate=where(request))
        return lambda: (len(files), None)

    return work


if __name__ == "__main__":
    serve({"plan": plan})
