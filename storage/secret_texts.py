"""Secrets in texts: which options keep one, and texts in which none is shown.

What is refused in a definition and what is hidden in an answer follow one rule, `_found_in`:

* the value of an option whose name says that it is a secret;
* a block of PEM that is private;
* the user and the password of a URL, however they are written;
* parameters of a URL that sign it or carry a token;
* a value behind a name such as `password`, in quotes or not, and in quotes behind such a word.

`${env:NAME}` stands for a variable of the environment, and is no secret itself.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

MASK = "***"
REFERENCE = re.compile(r"\$\{env:(\w+)\}")

# --- names ----------------------------------------------------------------------------------------

# Parts of names: a name that has one is that of a secret.
_PARTS = re.compile(
    r"pas+w|passphrase|passcode|secret|token|credential|authorization|cookie|apikey"
    r"|(?:^|-)(?:pwd|pass|sas|jwt|signature|client-assertion|oauthbearer-config"
    r"|(?:api|access|account|private|pvt|shared|encryption|storage|subscription|functions?"
    r"|application|app|auth|client|master|sse|ssl|keystore|signing|hmac)-key)(?:-|$)"
    r"|(?:^|-)(?:user-?info|auth-info|key-pem)$"
)
# Ends of names: what such a name says is about a secret, and is none.
_ABOUT = re.compile(
    r"(?:^|-)(?:url|uri|urls|endpoint|path|paths|file|files|keyfile|location|dir|directory|type"
    r"|class|loader|providers?|source|mode|format|names?|version|algorithm|alg|iterations|timeout"
    r"|interval|lifetime|duration|ms|seconds|size|length|count|enabled?|required|fields?|columns?"
    r"|parameter|prefix|suffix|expiry|expiration|ttl|issuer|audience|scope|arn"
    r"|(?:key|client|token|credentials?)-ids?)$"
)
# Options of columns: the column may be called `password`.
_OF_COLUMNS = "fields."
_CHARTED = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+")
_HEADER = "header."
# A header is judged by these too; in other options they have many meanings.
_IN_HEADERS = re.compile(r"(?:^|-)(?:auth|key)$")
# The same of parameters in an address, and of parameters in any text.
_IN_QUERIES = re.compile(
    r"(?:^|-)(?:sig|sign|hmac|pw|key|auth|code|delegation|ticket|hdnea|hdnts|hdntl)$"
)
_IN_TEXTS = re.compile(r"(?:^|-)(?:sig|pw|delegation)$")
# Shorter ones are words, such as a country's `code`.
_LEAST_CODE = 16


@lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """Whether an option or a parameter holds a secret, by its name."""
    words = _words(name)
    return _PARTS.search(words) is not None and _ABOUT.search(words) is None


@lru_cache(maxsize=4096)
def _words(name: str) -> str:
    """The words of a name, in lower case, with `-` between them: `trustStorePassword` has three."""
    return "-".join(filter(None, _CHARTED.split(name))).lower()


def _is_secret_option(name: str) -> bool:
    if name.startswith(_OF_COLUMNS):
        return False
    return is_secret(name) or (
        name.lower().startswith(_HEADER) and _IN_HEADERS.search(_words(name)) is not None
    )


def _is_secret_parameter(name: str, value: str, *, in_web: bool) -> bool:
    words = _words(unquote(name))
    if words.endswith("code") and len(value) < _LEAST_CODE:
        return False
    names = _IN_QUERIES if in_web else _IN_TEXTS
    return is_secret(unquote(name)) or names.search(words) is not None


def _is_secret_pair(name: str) -> bool:
    return _is_secret_option(name) or _IN_TEXTS.search(_words(name)) is not None


# --- values ---------------------------------------------------------------------------------------

_PEM = re.compile(
    r"-----BEGIN ([A-Z0-9 ]*)-----(?:(?!-----END ).)*(?:-----END \1-----)?", re.DOTALL
)
_PUBLIC = ("CERTIFICATE", "PUBLIC KEY", "CERTIFICATE REQUEST", "X509 CRL", "PARAMETERS")
_URL = re.compile(r"(?<![\w/])((?:[A-Za-z][\w+.-]*:){0,4})//", re.ASCII)
_HOST = r"(?:\[[^\]\s]*\]|[^\s/@:?#;,\[\]\"']*)(?::\d*)?"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*(?=[/?#;\s\"',)\]}}]|$)")
# Where a parameter begins behind a host of SQL Server and others.
_NEXT = r";(?=[\w.-]+=)"
# Browsers and clients of HTTP take `u:1/2@h` for a host `u`; clients of databases do not.
_OF_WEB = re.compile(r"(?:^|:)(?:https?|wss?|s3[an]?|gs|abfss?|wasbs?|file|hdfs):$", re.IGNORECASE)
_HTTP = re.compile(r"(?:^|:)(?:https?|wss?):$", re.IGNORECASE)
_THIN = re.compile(r"(?i)jdbc:oracle:\w+:(?P<secret>[^/@\s]*/[^@\s]*)@")
_PARAMETER = re.compile(r"[?&#;]([\w.%$-]+)=([^&#;\s\"'<>]*)")
_PAIR = re.compile(
    r"(?<![\w.%$-])([A-Za-z][\w.%-]*)[\"']?\s*(?:=|:(?=\s*[\"']))\s*"
    # A quote is doubled in a text of SQL.
    # A quote ends a text where no word follows it.
    r"(''[^']+''|\"(?:[^\"\\]|\\.|\"(?=\w)){0,9999}\"|'(?:[^'\\]|\\.|''|'(?=\w)){0,9999}'"
    r"|\{[^}]{0,9999}\}|(?:[^\s&;\"']|[\"'](?![\s,\]}:;)]|$))+)",
    re.DOTALL,
)
# What a statement of SQL says behind a word: `SECRET '…'`, `PASSWORD('…')`, `IDENTIFIED BY '…'`.
_CLAUSE = re.compile(
    r"(?i)(?<![\w.%$-])(?:(?P<name>[a-z]\w*)|identified\s+by)(?:\s+|\s*\(\s*)"
    # A statement within a text of SQL has its quotes doubled.
    r"(?P<quote>''(?=[^'\s,);])|['\"])"
    r"(?P<secret>(?:(?!(?P=quote))[^\n]|(?P=quote){2}){1,999})(?:(?P=quote)|$)"
)
_LINE = re.compile(
    r"(?i)(?<![\w-])(?:proxy-)?(?:authorization|cookie|set-cookie|x-api-key)[\"']?\s*:\s*"
    r"(?P<secret>[^\r\n]+)"
)
_BEARER = re.compile(r"(?i)\bbearer\s+(?P<secret>[\w.~+/=-]{8,})")
_BASIC = re.compile(r"\b[Bb]asic\s+(?P<secret>[A-Za-z0-9+/]{6,}={0,2})")
_QUERY = re.compile(r"(?i)\b(?:https?|wss?)://[^\s?\"'<>]*\?([\w.%$-]+=[^\s\"'<>]*(?<![:;,.)]))")
# Tokens that are known by their form: those of JWT, and what follows the address of a webhook.
_TOKEN = re.compile(
    r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|(?<=hooks\.slack\.com/services/)[\w/-]+|(?<=api/webhooks/)\d+/[\w-]+"
    r"|(?<=webhook\.office\.com/)[\w@/-]+|(?<=outlook\.office\.com/webhook/)[\w@/-]+"
    r"|(?<=api\.telegram\.org/bot)\d+:[\w-]+"
)
# Of a password with blanks the rest of the line may be a part.
_FAR = 300
# What may stand around variables: `Bearer`, a user, names of parameters.
_FRAME = r"(?:[\w.@%+-]+[ :=]\s*)*[\"']?\0+[\"']?"
_FRAMES = re.compile(rf"{_FRAME}(?:\s*[;,]\s*(?:{_FRAME})?)*")
_NO_SECRETS = ("", "true", "false")
# Variables of clients with credentials; a shorter value is a word.
_VARIABLES = re.compile(r"SECRET|TOKEN|PASSW|CREDENTIAL|CONNECTION_STRING|SAS|(ACCESS|ACCOUNT)_KEY")
_SHORTEST = 6


@dataclass(frozen=True, slots=True)
class _Span:
    """Where a secret is in a text, and what it is called; the name is empty for the whole text."""

    start: int
    end: int
    part: str


def kept_secret(name: str, text: str) -> str | None:
    """What of an option is a secret: the name of a part, empty for all of it; None if nothing."""
    found = _found_in_option(name, text)
    return found[0].part if found else None


def shown_option(name: str, text: str) -> str:
    """The value of an option without the secrets in it."""
    return _cut(text, _found_in_option(name, text))


def shown_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options without the secrets in them."""
    return {name: shown_option(name, text) for name, text in options.items()}


def shown_text(text: str) -> str:
    """A text for people, such as an error: without secrets, and web addresses without a query."""
    return _cut(text, [*_found_in(text, is_option=False), *_queries(text)])


def covered_text(text: str) -> str:
    """The same with a star for each character of a secret, so that others keep their places."""
    spans = [*_found_in(text, is_option=False), *_queries(text)]
    for span in spans:
        stars = "".join(c if c == "\n" else "*" for c in text[span.start : span.end])
        text = text[: span.start] + stars + text[span.end :]
    return text


def without_secrets(text: str) -> str:
    """A text without secrets, and without the credentials of this process."""
    text = _without_credentials(text)
    return _cut(text, list(_found_in(text, is_option=False)))


def shown_value(value: Any, name: str = "") -> Any:
    """A value of JSON, which an option may have, as `without_secrets` would leave its texts."""
    match value:
        case str():
            return shown_option(name, _without_credentials(value))
        case Mapping():
            # All below the name of a secret is one.
            below = name if _is_secret_option(name) else None
            return {key: shown_value(each, below or str(key)) for key, each in value.items()}
        case list() | tuple():
            return [shown_value(each, name) for each in value]
        case _:
            return value


def _without_credentials(text: str) -> str:
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and _VARIABLES.search(name.upper()):
            text = text.replace(value, MASK)
    return text


def _found_in_option(name: str, text: str) -> list[_Span]:
    if _is_secret_option(name):
        plain = text.strip()
        is_framed = _FRAMES.fullmatch(REFERENCE.sub("\0", plain)) is not None
        if is_framed or plain.lower() in _NO_SECRETS:
            return []
        return [_Span(0, len(text), "")]
    return list(_found_in(text, is_option=True))


def _found_in(text: str, *, is_option: bool) -> Iterator[_Span]:
    """The secrets in a text; that of an option is a value, and no sentence goes on behind it."""
    if "-----BEGIN " in text:
        for spans in _PEM.finditer(text):
            if not spans[1].endswith(_PUBLIC):
                yield from _span(text, *spans.span(), "pem")
    if "//" in text:
        yield from _users(text)
        in_web = "http" in text.lower()
        for spans in _PARAMETER.finditer(text):
            if _is_secret_parameter(spans[1], spans[2], in_web=in_web):
                yield from _span(text, *spans.span(2), spans[1])
    if "jdbc:oracle" in text.lower():
        for spans in _THIN.finditer(text):
            yield from _span(text, *spans.span("secret"), "password")
    if "=" in text or ":" in text:
        yield from _pairs(text, is_option=is_option)
    yield from _clauses(text)
    for pattern, part in ((_LINE, "header"), (_BEARER, "token"), (_TOKEN, "token")):
        for spans in pattern.finditer(text):
            group = "secret" if "secret" in pattern.groupindex else 0
            yield from _span(text, *spans.span(group), part)
    for spans in _BASIC.finditer(text):
        if _is_user_and_password(spans["secret"]):
            yield from _span(text, *spans.span("secret"), "password")


def _clauses(text: str) -> Iterator[_Span]:
    if "'" not in text and '"' not in text:
        return
    at = 0
    while (clause := _CLAUSE.search(text, at)) is not None:
        if clause["name"] is None or is_secret(clause["name"]):
            yield from _span(text, *clause.span("secret"), clause["name"] or "password")
            at = clause.end()
        else:
            # A quoted text, such as a name in an error, may be a statement with clauses in it.
            at = clause.start("secret")


def _pairs(text: str, *, is_option: bool) -> Iterator[_Span]:
    at = 0
    while (found := _PAIR.search(text, at)) is not None:
        start, end = found.span(2)
        # A value may be a text with pairs in it.
        at = start
        if not _is_secret_pair(unquote(found[1])):
            continue
        quoted = text[start] in "\"'{" and text[end - 1] in "\"'}" and end - start > 1
        if quoted:
            start, end = start + 1, end - 1
        elif is_option:
            # Blanks may be a part of it.
            end = start + len(_until(r"[;&\r\n]", text[start:]))
        at = max(end, at)
        yield from _span(text, start, end, found[1])


def _users(text: str) -> Iterator[_Span]:
    """The users of URLs that are a secret, or come with one."""
    # A variable is a word in any place.
    plain = REFERENCE.sub(lambda found: "v" * len(found[0]), text)
    for found in _URL.finditer(plain):
        begin, scheme = found.end(), found[1]
        line = plain[begin : begin + _FAR]
        size = _size_of_user(line, scheme)
        if size is None:
            continue
        user = line[:size]
        if (colon := re.search(r":|%3[Aa]", user)) is not None:
            secret = text[begin + colon.end() : begin + size]
            yield from _span(text, begin, begin + size, "password", secret)
        elif _HTTP.search(scheme):
            yield from _span(text, begin, begin + size, "user")


def _size_of_user(line: str, scheme: str) -> int | None:
    """How many characters are before the `@` behind a user; `line` follows the slashes of a URL."""
    is_web = _OF_WEB.search(scheme) is not None
    authority = _until(r"[/?#\s<>]" if is_web else rf"[/\s<>]|{_NEXT}", line)
    word = _until(r"[\s<>]", line)
    if "@" in authority:
        # Clients of databases take all up to the last one, and other `@` are those of a path.
        return (authority if is_web else word).rfind("@")
    hosts = _HOSTS.match(line)
    if hosts is not None:
        # The host is over before an `@`. But `u:12/34@h` is a password to clients of databases.
        before = _until(rf"\?(?=[\w.%-]+=)|[\s<>]|{_NEXT}", line)
        return before.rfind("@") if ":" in hosts[0] and not is_web and "@" in before else None
    if "@" in word:
        return word.rfind("@")
    # No port is such a text, so it begins a password with a blank in it.
    at = _until(r"[\r\n]", line).find("@") if ":" in authority else -1
    return at if at >= 0 else None


def _until(ends: str, text: str) -> str:
    """The beginning of a text up to what ends it."""
    return re.split(ends, text, maxsplit=1)[0]


def _queries(text: str) -> Iterator[_Span]:
    """What follows the `?` of web addresses."""
    if "?" in text:
        for found in _QUERY.finditer(text):
            yield from _span(text, *found.span(1), "query")


def _span(text: str, start: int, end: int, part: str, secret: str | None = None) -> Iterator[_Span]:
    """A part of a text, unless the secret in it is empty or a variable."""
    left = text[start:end] if secret is None else secret
    if left.strip() and _FRAMES.fullmatch(REFERENCE.sub("\0", left.strip())) is None:
        yield _Span(start, end, unquote(part))


def _is_user_and_password(text: str) -> bool:
    try:
        return b":" in base64.b64decode(text, validate=True)
    except ValueError:
        return False


def _cut(text: str, spans: list[_Span]) -> str:
    if not spans:
        return text
    made, at = "", 0
    for each in sorted(spans, key=lambda span: (span.start, -span.end)):
        if each.start >= at:
            made += text[at : each.start] + MASK
        at = max(at, each.end)
    return made + text[at:]
