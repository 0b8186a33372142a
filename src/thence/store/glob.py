"""Patterns as Redis matches them: `*`, `?`, `[a-z]`, `[^a]`, `\\x`. Bytes, and no blow-up by many stars."""


def matches(pattern: bytes, text: bytes) -> bool:
    at = place = 0
    star = resume = -1
    while place < len(text):
        step = _one(pattern, at, text[place]) if at < len(pattern) else 0
        if at < len(pattern) and pattern[at] == 42:  # *
            star, resume = at, place
            at += 1
        elif step:
            at += step
            place += 1
        elif star >= 0:  # only the last star ever has to take more
            resume += 1
            at, place = star + 1, resume
        else:
            return False
    while at < len(pattern) and pattern[at] == 42:
        at += 1
    return at == len(pattern)


def _one(pattern: bytes, at: int, byte: int) -> int:
    """How much of the pattern matches this byte; 0: nothing does."""
    sign = pattern[at]
    if sign == 63:  # ?
        return 1
    if sign == 92 and at + 1 < len(pattern):  # a backslash
        return 2 if pattern[at + 1] == byte else 0
    if sign != 91:  # [
        return 1 if sign == byte else 0
    start, at = at, at + 1
    negated = at < len(pattern) and pattern[at] == 94
    at += negated
    found = False
    while at < len(pattern) and pattern[at] != 93:
        if pattern[at] == 92 and at + 1 < len(pattern):
            at += 1
            found = found or pattern[at] == byte
        elif at + 2 < len(pattern) and pattern[at + 1] == 45:
            low, high = sorted((pattern[at], pattern[at + 2]))
            found = found or low <= byte <= high
            at += 2
        else:
            found = found or pattern[at] == byte
        at += 1
    return min(at + 1, len(pattern)) - start if found != negated else 0
