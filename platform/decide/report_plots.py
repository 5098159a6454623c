"""The plots of the report of a warehouse, as Vega-Lite specs; the page gives each its values.

Texts and lines have the colour of the page, so that the plots follow its light or dark scheme.
"""

from __future__ import annotations

from typing import Any

from lakewright.platform.upkeep.words import size_text
from lakewright.storage.operations.state.bucket_columns import LEAST_SIZES

Spec = dict[str, Any]

_GREY = "#8888"
_PALETTE = ["#3d8b7d", "#e07a5f", "#5b7db1", "#d9a441", "#8e6aa8", "#6f9b3f", "#9aa0a6"]
_WORDS = {"labelColor": "currentColor", "titleColor": "currentColor", "titleFontWeight": "normal"}
_MOMENT: Spec = {
    "field": "at",
    "type": "temporal",
    "scale": {"type": "utc"},
    "title": None,
    "axis": {"format": "%b %d %H:%M", "tickCount": 6},
}
_LEGEND: Spec = {"title": None, "orient": "bottom", "columns": 2, "labelLimit": 150}


def _spec(height: int, **parts: Any) -> Spec:
    return {
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "config": {
            "background": None,
            "font": "system-ui, sans-serif",
            "view": {"stroke": None},
            "axis": {
                **_WORDS,
                "gridColor": "#8883",
                "domainColor": _GREY,
                "tickColor": _GREY,
                "labelOverlap": True,
                "labelSeparation": 12,
            },
            "legend": _WORDS,
            "range": {"category": _PALETTE},
        },
        **parts,
    }


def size_range(least_bytes: int) -> str:
    """The sizes of files from one of the bounds on, as the plot of files names them."""
    return f"≥ {size_text(least_bytes)}" if least_bytes else f"< {size_text(LEAST_SIZES[1])}"


def _quantity(name: str, title: str, **more: Any) -> Spec:
    return {"field": name, "type": "quantitative", "title": title, **more}


def _told(*names: str) -> list[Spec]:
    """What a tooltip says; moments in UTC."""
    utc = {"type": "temporal", "timeUnit": "utcyearmonthdatehoursminutes", "title": "UTC"}
    return [{"field": name, **(utc if name == "at" else {"type": "nominal"})} for name in names]


def _by_day(title: str, color: str) -> Spec:
    # A bar and a tick for each day, in their order.
    day = {
        "field": "day",
        "type": "ordinal",
        "sort": None,
        "title": None,
        "axis": {"labelAngle": 0},
    }
    return _spec(
        150,
        mark={"type": "bar", "color": color},
        encoding={
            "x": day,
            "y": _quantity("value", title),
            "tooltip": _told("day", "told"),
        },
    )


SPECS: dict[str, Spec] = {
    "debt": _spec(
        220,
        mark={"type": "area", "interpolate": "step-after", "opacity": 0.85},
        encoding={
            "x": _MOMENT,
            "y": _quantity("files", "files of debt"),
            "color": {"field": "table", "type": "nominal", "sort": None, "legend": _LEGEND},
            "order": {"field": "rank", "type": "quantitative"},
            "tooltip": _told("table", "files", "at"),
        },
    ),
    "took": _by_day("minutes of upkeep", _PALETTE[1]),
    "saved": _by_day("files removed", _PALETTE[0]),
    "predicted": _spec(
        220,
        layer=[
            {
                "mark": {"type": "rule", "color": "currentColor", "strokeDash": [4, 4]},
                "encoding": {"y": {"datum": 1}},
            },
            {
                "mark": {"type": "point", "filled": True, "opacity": 0.7, "size": 40},
                "encoding": {
                    "x": _quantity("predicted", "predicted seconds", scale={"type": "log"}),
                    "y": _quantity("ratio", "actual / predicted", scale={"type": "log"}),
                    "color": {"field": "verb", "type": "nominal", "legend": _LEGEND},
                    "tooltip": _told("table", "verb", "told", "at"),
                },
            },
        ],
    ),
    "files": _spec(
        160,
        mark="bar",
        encoding={
            "x": {
                "field": "size",
                "type": "ordinal",
                "scale": {"domain": [size_range(each) for each in LEAST_SIZES]},
                "title": None,
                "axis": {"labelAngle": 0},
            },
            "y": _quantity("files", "files", axis={"tickMinStep": 1}),
            "color": {"field": "level", "type": "nominal", "sort": None, "legend": _LEGEND},
            "tooltip": _told("level", "size", "files", "bytes"),
        },
    ),
    "trend": _spec(
        160,
        mark={"type": "line", "interpolate": "step-after"},
        encoding={
            "x": _MOMENT,
            "y": _quantity("count", "files", axis={"tickMinStep": 1}),
            "color": {
                "field": "what",
                "type": "nominal",
                "scale": {"domain": ["files", "debt"]},
                "legend": _LEGEND,
            },
            "tooltip": _told("what", "count", "at"),
        },
    ),
}
