"""Files that may hold a data contract."""

from __future__ import annotations

import re
from pathlib import Path

from lakewright.platform.documents.marked_yaml import MalformedYamlError, read_typed
from lakewright.platform.documents.text_files import text_of
from lakewright.platform.tables.odcs import Record, is_contract
from lakewright.storage.errors import InvalidRequestError

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
        documents = list(read_typed(text))
    except MalformedYamlError as error:
        why = f"{error.message} (line {error.line})"
    else:
        if not any(map(is_contract, documents)):
            return None
        if len(documents) > 1:
            raise InvalidRequestError(
                f"{file} holds {len(documents)} YAML documents, and a contract is one; "
                "write each to a file of its own"
            )
        (contract,) = documents
        assert isinstance(contract, dict)
        return contract
    if _LOOKS_LIKE_CONTRACT.search(text) is None:
        return None
    raise InvalidRequestError(f"the contract {file} is no valid YAML: {why}")
