"""Strings as bits."""

from thence.core.machine import NEVER
from thence.crdt import steps
from thence.crdt.bits import FAIL, GET, INCRBY, SAT, SET, WRAP, FieldOp, change, get_bit
from thence.crdt.numbers import INT_MAX, INT_MIN, integer, packed, text_of
from thence.store import ops
from thence.store.client import Client
from thence.store.executor import Executor
from thence.store.reply import Fail, Reply
from thence.store.table import command
from thence.store.words import SYNTAX, Options, number

NOT_OFFSET = "ERR bit offset is not an integer or out of range"
OFFSET_MAX = (512 << 20) * 8 - 1
OVERFLOWS = {b"WRAP": WRAP, b"SAT": SAT, b"FAIL": FAIL}


def _text(e: Executor, c: Client, key: bytes) -> bytes:
    value = e.string(c, key)
    return b"" if value is None else text_of(value)


def _offset(e: Executor, word: bytes) -> int:
    value = integer(word)
    if value is None or not 0 <= value < e.config.bulk_max * 8:
        raise Fail(NOT_OFFSET)
    return value


@command("GETBIT", 3, "readonly fast", group="bitmap")
def getbit(e: Executor, c: Client, a: list[bytes]) -> Reply:
    offset = _offset(e, a[1])
    return get_bit(_text(e, c, a[0]), offset)


@command("SETBIT", 4, "write denyoom", group="bitmap")
def setbit(e: Executor, c: Client, a: list[bytes]) -> Reply:
    offset = _offset(e, a[1])
    if a[2] not in (b"0", b"1"):
        raise Fail("ERR bit is not an integer or out of range")
    before = get_bit(_text(e, c, a[0]), offset)
    e.emit(c.db, ops.UPDATE, a[0], (steps.SET_BIT, offset, int(a[2])))
    return before


def _span(words: list[bytes], size: int) -> tuple[int, int]:
    """From and to which bit, given START END [BYTE|BIT]."""
    start, end, unit = number(words[0]), number(words[1]), 8
    if len(words) == 3:
        name = words[2].upper()
        if name not in (b"BYTE", b"BIT"):
            raise Fail(SYNTAX)
        unit = 8 if name == b"BYTE" else 1
    count = size * 8 // unit
    if start < 0 and end < 0 and start > end:
        return 1, 0
    start = max(0, start + count) if start < 0 else start
    end = max(0, end + count) if end < 0 else end
    return start * unit, (min(end, count - 1) + 1) * unit - 1


def _bits(text: bytes, start: int, end: int) -> str:
    """These bits, as digits."""
    first, last = start >> 3, (end >> 3) + 1
    part = text[first:last]
    digits = bin(int.from_bytes(b"\1" + part, "big"))[3:] if part else ""
    return digits[start - first * 8 : end - first * 8 + 1]


@command("BITCOUNT", -2, "readonly", group="bitmap")
def bitcount(e: Executor, c: Client, a: list[bytes]) -> Reply:
    if len(a) == 2 or len(a) > 4:
        raise Fail(SYNTAX)
    text = _text(e, c, a[0])
    if len(a) == 1:
        return int.from_bytes(text, "big").bit_count()
    start, end = _span(a[1:], len(text))
    return _bits(text, start, end).count("1") if start <= end else 0


@command("BITPOS", -3, "readonly", group="bitmap")
def bitpos(e: Executor, c: Client, a: list[bytes]) -> Reply:
    bit = number(a[1])
    if bit not in (0, 1):
        raise Fail("ERR The bit argument must be 1 or 0.")
    if len(a) > 5:
        raise Fail(SYNTAX)
    value = e.string(c, a[0])
    if len(a) > 2:
        words = [*a[2:], b"-1"] if len(a) == 3 else a[2:]
        size = 0 if value is None else len(text_of(value))
        start, end = _span(words, size)
    if value is None:
        return -1 if bit else 0
    text = text_of(value)
    if len(a) == 2:
        start, end = 0, len(text) * 8 - 1
    if start > end:
        return -1
    at = _bits(text, start, end).find(str(bit))
    if at >= 0:
        return start + at
    return len(text) * 8 if not bit and len(a) < 4 else -1


@command("BITOP", -4, "write denyoom", (2, -1, 1), group="bitmap")
def bitop(e: Executor, c: Client, a: list[bytes]) -> Reply:
    name, target, sources = a[0].upper(), a[1], a[2:]
    if name not in (b"AND", b"OR", b"XOR", b"NOT", b"DIFF", b"DIFF1", b"ANDOR", b"ONE"):
        raise Fail(SYNTAX)
    if name == b"NOT" and len(sources) != 1:
        raise Fail("ERR BITOP NOT must be called with a single source key.")
    if name in (b"DIFF", b"DIFF1", b"ANDOR") and len(sources) < 2:
        raise Fail(f"ERR BITOP {name.decode()} must be called with at least two source keys.")
    texts = [_text(e, c, key) for key in sources]
    size = max(map(len, texts))
    values = [int.from_bytes(text.ljust(size, b"\0"), "big") for text in texts]
    full = (1 << size * 8) - 1
    result = values[0]
    others = 0
    for value in values[1:]:
        others |= value
        if name == b"AND":
            result &= value
        elif name == b"OR":
            result |= value
        elif name == b"XOR":
            result ^= value
    if name == b"NOT":
        result ^= full
    elif name == b"DIFF":
        result &= ~others
    elif name == b"DIFF1":
        result = others & ~result
    elif name == b"ANDOR":
        result &= others
    elif name == b"ONE":
        once = twice = 0
        for value in values:
            twice |= once & value
            once |= value
        result = once & ~twice
    if size:
        e.emit(c.db, ops.SET, target, packed(result.to_bytes(size, "big")), NEVER)
    elif e.get(c, target) is not None:
        e.delete(c.db, target)
    return size


def _field(word: bytes) -> tuple[bool, int]:
    bad = Fail(
        "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is."
    )
    bits = integer(word[1:])
    if word[:1] not in (b"i", b"u") or bits is None:
        raise bad
    signed = word[:1] == b"i"
    if not 1 <= bits <= (64 if signed else 63):
        raise bad
    return signed, bits


def _place(e: Executor, word: bytes, bits: int) -> int:
    by_field = word[:1] == b"#"
    value = integer(word[1:] if by_field else word)
    if value is None or value < 0:
        raise Fail(NOT_OFFSET)
    value *= bits if by_field else 1
    if value + bits > e.config.bulk_max * 8:
        raise Fail(NOT_OFFSET)
    return value


def _bitfield(e: Executor, c: Client, a: list[bytes], reads: bool) -> Reply:
    options, overflow, made = Options(a[1:]), WRAP, list[FieldOp]()
    while options:
        word = options.name()
        if word == b"OVERFLOW":
            name = options.name()
            if name not in OVERFLOWS:
                raise Fail("ERR Invalid OVERFLOW type specified")
            overflow = OVERFLOWS[name]
            if reads:
                raise Fail("ERR BITFIELD_RO only supports the GET subcommand")
            continue
        what = {b"GET": GET, b"SET": SET, b"INCRBY": INCRBY}.get(word)
        if what is None:
            raise Fail(SYNTAX)
        if what != GET and reads:
            raise Fail("ERR BITFIELD_RO only supports the GET subcommand")
        if options.left < (2 if what == GET else 3):
            raise Fail(SYNTAX)
        signed, bits = _field(options.word())
        offset = _place(e, options.word(), bits)
        value = number(options.word()) if what != GET else 0
        made.append(FieldOp(what, signed, bits, offset, value, overflow))
    _, answers = change(_text(e, c, a[0]), made)
    writes = [list(map(int, one)) for one in made if one.what != GET]
    if writes:
        e.emit(c.db, ops.UPDATE, a[0], (steps.BIT_FIELD, writes))
    assert all(one is None or INT_MIN <= one <= INT_MAX for one in answers)
    return answers


@command("BITFIELD", -2, "write denyoom", group="bitmap")
def bitfield(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return _bitfield(e, c, a, False)


@command("BITFIELD_RO", -2, "readonly fast", group="bitmap")
def bitfield_ro(e: Executor, c: Client, a: list[bytes]) -> Reply:
    return _bitfield(e, c, a, True)
