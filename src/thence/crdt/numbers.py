"""Numbers as Redis reads and writes them."""

from decimal import Decimal, InvalidOperation, localcontext
from math import isnan
from typing import Final

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1
EXPONENT_MAX: Final = 4932
"""Of a long double."""

Value = bytes | int
"""Of a string: integers in their canonical form are kept as such."""

_DIGITS: Final = frozenset(b"0123456789")


def integer(text: bytes) -> int | None:
    """No spaces, no plus, no leading zeros, no `-0`, 64 bits."""
    size = len(text)
    if not 0 < size <= 20:
        return None
    digits = text[1:] if text[0] == 45 else text
    if not digits or not _DIGITS.issuperset(digits) or (digits[0] == 48 and (size > 1)):
        return None
    value = int(text)
    return value if INT_MIN <= value <= INT_MAX else None


def packed(text: bytes) -> Value:
    """A string as it is kept."""
    if len(text) > 20 or not text or text[-1] not in _DIGITS:
        return text
    value = integer(text)
    return text if value is None else value


def text_of(value: Value) -> bytes:
    return value if isinstance(value, bytes) else b"%d" % value


def decimal(text: bytes) -> Decimal | None:
    """What INCRBYFLOAT takes: exponents are fine; spaces, infinities, NaN are not."""
    if not text or len(text) > 256 or not text.isascii() or text != text.strip() or b"_" in text:
        return None
    try:
        value = Decimal(text.decode())
    except InvalidOperation:
        return None
    return value if value.is_finite() and abs(value.adjusted()) <= EXPONENT_MAX else None


def is_infinite(text: bytes) -> bool:
    """As a number that is refused."""
    return text.lower().lstrip(b"+-") in (b"inf", b"infinity")


def decimal_text(value: Decimal) -> bytes:
    """Seventeen places, zeros trimmed, no exponent."""
    with localcontext() as context:
        context.prec = EXPONENT_MAX + 64
        text = format(value, ".17f")
    text = text.rstrip("0").rstrip(".")
    return b"0" if text in ("-0", "") else text.encode()


def added(one: Decimal, other: Decimal) -> Decimal:
    with localcontext() as context:
        context.prec = 64 if max(one.adjusted(), other.adjusted()) < 40 else EXPONENT_MAX + 64
        return one + other


def double(text: bytes) -> float | None:
    """A score: `inf` in its spellings, no NaN, no spaces."""
    if not text or text != text.strip() or b"_" in text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return None if isnan(value) else value


def double_text(value: float) -> bytes:
    """The shortest text that reads back, integral ones as plain digits."""
    if value == int(value) if abs(value) < 1 << 62 else False:
        return b"-0" if value == 0 and str(value)[0] == "-" else b"%d" % int(value)
    text = repr(value)
    if "e" not in text:
        return text.encode()
    mantissa, exponent = text.split("e")
    mantissa = mantissa.removesuffix(".0")
    sign, digits = (exponent[0], exponent[1:]) if exponent[0] in "+-" else ("+", exponent)
    return f"{mantissa}e{sign}{digits.zfill(2)}".encode()
