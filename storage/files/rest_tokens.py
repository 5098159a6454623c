"""Tokens with which the server of a REST catalog lets a client into the store of one table."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from lakewright.storage.codec.json_values import as_object, as_text, as_whole
from lakewright.storage.env import FileSystem
from lakewright.storage.errors import UnavailableError, UnsupportedError
from lakewright.storage.files.local_files import LocalFiles
from lakewright.storage.files.rest_client import RestServer
from lakewright.storage.files.s3_files import S3Files

# A token is renewed so long before it expires, or when half of its life is over: what is being
# written then can end with the old one.
_SAFE_MS = 3_600_000
# The names of options for S3 in Paimon's clients: one of these, and one of the words below.
_PREFIXES = ("fs.s3a.", "fs.s3.", "s3a.", "s3.")
_PARTS = {
    "key": ("accessKeyId", "access-key", "access.key"),
    "secret": ("accessKeySecret", "secret-key", "secret.key"),
    "token": ("securityToken", "session-token", "session.token"),
    "endpoint_url": ("endpoint",),
    "region": ("region", "endpoint.region"),
}


@dataclass(frozen=True, slots=True)
class _Held:
    """A token of this process; it is shown nowhere."""

    access: Mapping[str, str]
    renew_ms: int


_HELD: dict[TableTokens, _Held] = {}
_LOCK = threading.Lock()


@dataclass(frozen=True)
class TableTokens:
    """Implements `StoreAccess` for the files of one table; each process asks for its own token."""

    server: RestServer
    database: str
    table: str

    def options(self) -> Mapping[str, str]:
        """What the store's client needs, valid for a while.

        Raises:
            UnavailableError, AccessError: the server does not answer, or refuses.
            UnsupportedError: the token is for another store.
        """
        with _LOCK:
            held = _HELD.get(self)
            if held is None or self.server.env.now_ms() >= held.renew_ms:
                held = _HELD[self] = self._asked()
        return held.access

    def _asked(self) -> _Held:
        name = f"{self.database}.{self.table}"
        answer = self.server.get("databases", self.database, "tables", self.table, "token")
        try:
            given = {key: as_text(value) for key, value in as_object(answer.get("token")).items()}
            expires_ms = as_whole(answer.get("expiresAtMillis"))
        except ValueError:
            raise UnavailableError(
                f"the REST catalog at {self.server.uri} gives no token for the files of {name}"
            ) from None
        access = {
            part: given[each]
            for part, words in _PARTS.items()
            for each in (prefix + word for prefix in _PREFIXES for word in words)
            if given.get(each)
        }
        if not {"key", "secret"} <= access.keys():
            raise UnsupportedError(
                f"the token for the files of {name} is not one for S3: it has "
                f"{', '.join(sorted(given)) or 'nothing'}, and fs.s3.accessKeyId, s3.access-key "
                "and the like are known"
            )
        now_ms = self.server.env.now_ms()
        left_ms = max(0, expires_ms - now_ms)
        return _Held(access, now_ms + max(left_ms - _SAFE_MS, left_ms // 2))


def with_tokens(fs: FileSystem, tokens: TableTokens, name: str) -> FileSystem:
    """The store with the tokens of a table; a local disk needs none.

    Raises:
        UnsupportedError: the store does not take tokens.
    """
    if isinstance(fs, LocalFiles):
        return fs
    if isinstance(fs, S3Files):
        return replace(fs, access=tokens)
    raise UnsupportedError(
        f"the files of {name} lie in {fs.scheme}://, and the REST catalog gives tokens for them "
        "(data-token.enabled), which are implemented for s3:// alone"
    )
