"""What Dagster works out anew for each job and each instance, worked out once in a process.

Tests load some thousand jobs and open some hundred instances; a code server does each once. The
results depend on their arguments alone, and nothing changes them.
"""

from __future__ import annotations

from functools import cache

from alembic.config import Config
from alembic.script import ScriptDirectory
from dagster._config import pythonic_config

_read_scripts = ScriptDirectory.from_config
_scripts: dict[str | None, ScriptDirectory] = {}


def work_out_once() -> None:
    """Keep the schema of a class of run config, and the scripts that migrate a database."""
    inferred = pythonic_config.infer_schema_from_config_annotation
    pythonic_config.infer_schema_from_config_annotation = cache(inferred)
    ScriptDirectory.from_config = staticmethod(_scripts_of)  # type: ignore[method-assign]  # a method of the class


def _scripts_of(config: Config) -> ScriptDirectory:
    folder = config.get_main_option("script_location")
    if folder not in _scripts:
        _scripts[folder] = _read_scripts(config)
    return _scripts[folder]
