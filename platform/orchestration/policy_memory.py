"""The policies that last were right, kept in Dagster's own storage.

A typing mistake stops no upkeep by this: not in a daemon that starts anew, nor in the process of a
run. Only policies without a mistake are kept, and those hold no secrets.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress

import dagster as dg

from lakewright.platform.documents.yaml_files import DeclarationError, Problem
from lakewright.platform.policies.policy_watch import PolicyFiles


def keep_policies(instance: dg.DagsterInstance, files: PolicyFiles) -> tuple[Problem, ...]:
    """Keep the policies of now; where they are wrong, those of before are in force afterwards.

    Returns:
        What is wrong with the files.

    Raises:
        DeclarationError: something is wrong, and no policies of before are known.
    """
    problems = recall_policies(instance, files)
    if not problems:
        storage, key = instance.daemon_cursor_storage, _key(files)
        now = json.dumps(files.current().policies.texts)
        if storage.get_cursor_values({key}).get(key) != now:
            storage.set_cursor_values({key: now})
    return problems


def recall_policies(instance: dg.DagsterInstance, files: PolicyFiles) -> tuple[Problem, ...]:
    """The same, for what decides once and keeps nothing."""
    try:
        return files.current().problems
    except DeclarationError:
        key = _key(files)
        kept = instance.daemon_cursor_storage.get_cursor_values({key}).get(key)
        if kept is None:
            raise
    # Declarations may contradict the kept policies by now; then the error is that of the files.
    with suppress(DeclarationError):
        files.go_on_by([(file, text) for file, text in json.loads(kept)])
    return files.current().problems


def _key(files: PolicyFiles) -> str:
    return f"lakewright/policies/{hashlib.sha256(files.name.encode()).hexdigest()[:24]}"
