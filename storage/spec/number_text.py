"""Numbers as the texts that Java makes of them."""

from __future__ import annotations

import math
import struct
from decimal import Decimal

from lakewright.storage.spec.values import EXACT_DECIMALS

# Java writes values from the second bound on with an exponent, and so those below the first.
_LEAST_PLAIN, _LEAST_SCIENTIFIC = 0.001, 10_000_000


def float_text(value: float, *, single: bool, shortest: str | None = None) -> str:
    """A floating number as `Double.toString` of Java 19 and later, or `Float.toString`, prints it.

    Older releases of Java print a few numbers otherwise, such as 2e23. `shortest` is the
    shortest text that reads as the number, in any spelling, where the caller knows it.
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if shortest is None:
        shortest = _shortest_single(value) if single else repr(value)
    number = Decimal(shortest)
    if value == 0:
        return "-0.0" if number.is_signed() else "0.0"
    if _LEAST_PLAIN <= abs(value) < _LEAST_SCIENTIFIC:
        plain = format(number, "f")
        return plain if "." in plain else f"{plain}.0"
    sign, digits, _ = number.normalize(EXACT_DECIMALS).as_tuple()
    if len(digits) == 1:
        # Java writes two digits at least, and takes those nearest to the number.
        nearest = f"{value:.1e}"
        if _bits(float(nearest), single=single) == _bits(value, single=single):
            number = Decimal(nearest)
            _, digits, _ = number.normalize(EXACT_DECIMALS).as_tuple()
    rest = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{rest}E{number.adjusted()}"


def fraction_text(nanos: int, precision: int) -> str:
    """A fraction of a second: as many digits as the precision says, and more if there are."""
    digits = f"{nanos:09d}"
    kept = digits[:precision] + digits[precision:].rstrip("0")
    return f".{kept}" if kept else ""


def _shortest_single(value: float) -> str:
    """The shortest text that four bytes read back as the same number."""
    bits = struct.pack("<f", value)
    texts = (f"{value:.{digits}g}" for digits in range(1, 9))
    found = (text for text in texts if _bits(float(text), single=True) == bits)
    return next(found, f"{value:.9g}")


def _bits(value: float, *, single: bool) -> bytes | None:
    """The number as it is stored; None where four bytes hold no number so large."""
    try:
        return struct.pack("<f" if single else "<d", value)
    except OverflowError:
        return None
