"""Policy files under watch: read again when one of them changes, without a restart."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lakewright.platform.documents.yaml_files import (
    DeclarationError,
    FileStamp,
    Problem,
    stamps_of,
    yaml_files,
)
from lakewright.platform.policies.policies import PolicySet
from lakewright.platform.policies.policy_files import load_policies, policies_of_texts
from lakewright.platform.tables.workspace import Workspace


@dataclass(frozen=True, slots=True)
class CurrentPolicies:
    """The policies that hold, and what is wrong with the files if these are older ones."""

    policies: PolicySet
    problems: tuple[Problem, ...] = ()


class PolicyFiles:
    """Policies over the declarations of a workspace, as their files are at the moment.

    A file that becomes invalid, or that is gone, leaves the policies of before in force, so that a
    typing mistake brings no defaults back that delete more. `go_on_by` does the same
    in a process that begins after the mistake.
    """

    def __init__(self, paths: Sequence[str | Path], *, workspace: Workspace | None = None) -> None:
        self._paths = tuple(map(Path, paths))
        self._workspace = workspace or Workspace()
        self._stamps: tuple[FileStamp, ...] | None = None
        self._current: CurrentPolicies | None = None

    def current(self) -> CurrentPolicies:
        """The policies of now; looks at each file, and reads them if one has changed.

        Raises:
            DeclarationError: something is wrong, and no policies of before are known.
        """
        # Taken first: a file that changes while it is read is read again by the next call.
        stamps = stamps_of(yaml_files(self._paths, []))
        if self._current is not None and stamps == self._stamps:
            return self._current
        try:
            policies = load_policies(self._paths, workspace=self._workspace)
        except DeclarationError as error:
            if self._current is None:
                raise
            self._current = CurrentPolicies(self._current.policies, error.problems)
        else:
            self._current = CurrentPolicies(policies)
        self._stamps = stamps
        return self._current

    @property
    def name(self) -> str:
        """What tells these policies from others: the paths of their files and folders."""
        return os.pathsep.join(str(path.resolve()) for path in self._paths)

    def go_on_by(self, texts: Sequence[tuple[str, str]]) -> None:
        """Take files as they were before for those in force, while those of now are wrong.

        Raises:
            DeclarationError: the files were wrong before, too.
        """
        files = {Path(file): text for file, text in texts}
        before = policies_of_texts(files, workspace=self._workspace)
        self._current, self._stamps = CurrentPolicies(before), None

    def shown(self) -> PolicySet:
        """The policies by which definitions are loaded, which may need none.

        Wrong files fail what asks for the policies (`current`): the upkeep, and no write of rows.
        """
        try:
            return self.current().policies
        except DeclarationError:
            return load_policies((), workspace=self._workspace)
