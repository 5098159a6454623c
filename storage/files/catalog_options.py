"""Options of a catalog in Paimon's words: where its names are kept, and defaults of new tables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from lakewright.storage.errors import InvalidOption, InvalidRequestError, UnsupportedError
from lakewright.storage.files.rest_client import HTTP_SCHEMES, TOKEN_VARIABLE
from lakewright.storage.spec.arguments import text_argument
from lakewright.storage.spec.option_values import parse_duration_ms

# Options that every new table gets begin with it.
TABLE_DEFAULT = "table-default."
FILESYSTEM: Mapping[str, str] = {"metastore": "filesystem"}
# How a warehouse names a Hive metastore.
HIVE_SCHEME = "thrift://"
_METASTORES = ("filesystem", "jdbc", "hive", "rest")
_DEFAULTS = {
    "metastore": "filesystem",
    "uri": "",
    "catalog-key": "jdbc",
    "lock.enabled": "",
    "lock-check-max-sleep": "8 s",
    "lock-acquire-timeout": "8 min",
    "token": "",
    "token.provider": "bear",
}
_LEAST_TIMEOUT_MS = 1000
_NO_DLF = (
    "catalog option {} asks for signed requests of Alibaba's DLF, which are not implemented; a "
    "REST catalog is opened with token.provider bear and a token"
)
# Words of Hive's and Hadoop's configurations: the ways in which a client proves who it is.
_SECURED = ("sasl", "kerberos", "principal", "keytab", "use.ssl", "truststore", "keystore")
_CATALOG = "LAKEWRIGHT_CATALOG_"
_TABLE_DEFAULTS = "LAKEWRIGHT_TABLE_DEFAULTS"
_VARIABLES = {
    name: _CATALOG + name.upper().replace("-", "_").replace(".", "_").removeprefix("CATALOG_")
    for name in _DEFAULTS
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogOptions:
    """Where names are kept: `uri` is None for folders; `key` tells catalogs of a database apart.

    `lock_enabled` is None where the store decides. `table_defaults` are options of new tables.
    """

    uri: str | None = None
    metastore: str = "filesystem"
    token: str | None = field(default=None, repr=False)
    key: str = _DEFAULTS["catalog-key"]
    lock_enabled: bool | None = None
    longest_sleep_ms: int = 8_000
    lock_timeout_ms: int = 480_000
    table_defaults: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_hive(self) -> bool:
        return self.metastore == "hive"

    @property
    def is_rest(self) -> bool:
        return self.metastore == "rest"


def catalog_options(given: Mapping[str, str] | None, *, warehouse: str) -> CatalogOptions:
    """Options as they are given, or else from variables such as LAKEWRIGHT_CATALOG_URI.

    A warehouse that is the address of a Hive metastore says metastore and URI itself.

    Raises:
        UnsupportedError: an option asks for Kerberos or TLS, or for another kind of token.
        InvalidRequestError: an option is unknown, or the URI and the metastore do not agree; or the
            warehouse is the address of a server.
        InvalidOption: a value is invalid.
    """
    if given is None:
        given = {
            name: os.environ[each] for name, each in _VARIABLES.items() if os.environ.get(each)
        } | _defaults_of_variable()
    if warehouse.startswith(HTTP_SCHEMES):
        raise InvalidRequestError(
            "the warehouse is a web address; if a REST catalog answers there, set "
            f"{_VARIABLES['metastore']}=rest, {_VARIABLES['uri']} to the address and "
            f"{TOKEN_VARIABLE} to the token, and name the warehouse as the server does"
        )
    if warehouse.startswith(HIVE_SCHEME):
        given = _with_address(given, warehouse)
    defaults = {
        name.removeprefix(TABLE_DEFAULT): text_argument(value, f"catalog option {name}")
        for name, value in given.items()
        if name.startswith(TABLE_DEFAULT)
    }
    given = {name: value for name, value in given.items() if not name.startswith(TABLE_DEFAULT)}
    for name in given:
        if name.startswith("dlf."):
            raise UnsupportedError(_NO_DLF.format(name))
        if any(each in name.lower() for each in _SECURED):
            raise UnsupportedError(
                f"catalog option {name} asks for Kerberos or TLS, and neither is implemented for a "
                "metastore; name one that takes plain connections"
            )
        if "password" in name:
            raise InvalidRequestError(
                f"catalog option {name} holds a password; leave it out, and put it into "
                "PGPASSWORD, or into a file that PGPASSFILE names"
            )
        if name not in _DEFAULTS:
            raise InvalidRequestError(
                f"catalog option {name!r:.100} is unknown; there are {', '.join(_DEFAULTS)}, and "
                f"{TABLE_DEFAULT}… for options of new tables"
            )
    read = {
        **_DEFAULTS,
        **{name: text_argument(value, f"catalog option {name}") for name, value in given.items()},
    }
    metastore, uri = read["metastore"], read["uri"]
    if metastore not in _METASTORES:
        raise InvalidRequestError(
            f"metastore {metastore!r:.100} is not implemented; there are {', '.join(_METASTORES)}"
        )
    if bool(uri) != (metastore != "filesystem"):
        raise InvalidRequestError(
            f"catalog option metastore is {metastore}, and uri is {'' if uri else 'not '}given; a "
            "catalog in a database needs metastore jdbc and a uri, one in a Hive metastore needs "
            "metastore hive and a uri, a REST catalog metastore rest and a uri, a catalog of "
            "folders neither "
            f"({_VARIABLES['metastore']} and {_VARIABLES['uri']}, where they come from variables)"
        )
    if metastore == "rest" and read["token.provider"] != _DEFAULTS["token.provider"]:
        raise UnsupportedError(_NO_DLF.format(f"token.provider {read['token.provider']:.40}"))
    enabled = read["lock.enabled"].lower()
    if enabled not in ("", "true", "false"):
        raise InvalidOption(f"catalog option lock.enabled is {enabled!r:.100}; set true or false")
    timeout_ms = parse_duration_ms(read["lock-acquire-timeout"])
    if timeout_ms < _LEAST_TIMEOUT_MS:
        raise InvalidOption(
            f"catalog option lock-acquire-timeout is {timeout_ms} ms; a lock expires after that "
            "time, counted in seconds: set 1 s or more"
        )
    return CatalogOptions(
        uri=uri or None,
        metastore=metastore,
        token=read["token"] or None,
        key=read["catalog-key"],
        lock_enabled=enabled == "true" if enabled else None,
        longest_sleep_ms=parse_duration_ms(read["lock-check-max-sleep"]),
        lock_timeout_ms=timeout_ms,
        table_defaults=defaults,
    )


def _defaults_of_variable() -> dict[str, str]:
    """`LAKEWRIGHT_TABLE_DEFAULTS`: `name=value`, separated by commas.

    Raises:
        InvalidRequestError: a part has no value.
    """
    found: dict[str, str] = {}
    for pair in filter(None, map(str.strip, os.environ.get(_TABLE_DEFAULTS, "").split(","))):
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidRequestError(
                f"{pair!r:.100} in {_TABLE_DEFAULTS} has no value; write bucket=1,file.format=orc"
            )
        found[TABLE_DEFAULT + name.strip()] = value.strip()
    return found


def _with_address(given: Mapping[str, str], address: str) -> dict[str, str]:
    """Options with those that an address of a metastore stands for.

    Raises:
        InvalidRequestError: they name another metastore.
    """
    stands_for = {"metastore": "hive", "uri": address}
    for name, value in stands_for.items():
        if given.get(name, value) != value:
            raise InvalidRequestError(
                f"the warehouse is the address of a metastore, and catalog option {name} says "
                f"otherwise; leave {name} out, or name the warehouse by its path "
                f"({_VARIABLES[name]}, where it comes from a variable)"
            )
    return {**given, **stands_for}
