"""The formats of this package: identifier → the place of its factory."""

FORMATS: dict[str, str] = {}
