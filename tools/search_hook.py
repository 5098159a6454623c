"""A hook of mkdocs: decisions are for developers, so the search of the site leaves them out."""

from __future__ import annotations

from typing import Any


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Mark pages below `decisions/` for the search plugin of Material."""
    if page.file.src_uri.startswith("decisions/"):
        page.meta["search"] = {"exclude": True}
    return markdown
