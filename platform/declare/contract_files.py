"""Files that may hold a data contract."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from lakewright.platform.declare.odcs import Record, is_contract
from lakewright.platform.declare.text_files import text_of
from lakewright.storage.errors import InvalidRequestError

# What YAML's constructors raise where a value does not fit its tag or form, as in `2024-13-45`.
_WRONG_VALUES = (ValueError, TypeError, LookupError, AttributeError, OverflowError)
# A key of a contract at the beginning of a line, for files that cannot be read as YAML.
_LOOKS_LIKE_CONTRACT = re.compile(
    r"""^[\s{]*["']?(apiVersion["']?\s*:|kind["']?\s*:\s*["']?DataContract)""", re.MULTILINE
)


def contract_in(file: Path) -> Record | None:
    """The contract in a file; None if it holds something else, such as declarations.

    Raises:
        InvalidRequestError: the file holds several contracts, or one that is no valid YAML.
    """
    if not file.is_file():
        return None
    try:
        text = text_of(file)
    except UnicodeDecodeError:
        return None
    try:
        documents = [each for each in yaml.safe_load_all(text) if each is not None]
    except RecursionError:
        why = "lists and mappings are nested too deeply"
    except (yaml.YAMLError, *_WRONG_VALUES) as error:
        why = str(error)
    else:
        if not any(map(is_contract, documents)):
            return None
        if len(documents) > 1:
            raise InvalidRequestError(
                f"{file} holds {len(documents)} YAML documents, and a contract is one; "
                "write each to a file of its own"
            )
        contract: Record = documents[0]
        return contract
    if _LOOKS_LIKE_CONTRACT.search(text) is None:
        return None
    raise InvalidRequestError(f"the contract {file} is no valid YAML: {why}")
