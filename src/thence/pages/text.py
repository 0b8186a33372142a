"""Numbers as people read them; nothing here needs the laboratory."""


def significant(value: float) -> str:
    """Three significant digits, without powers of ten."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def number(value: float) -> str:
    """Whole ones whole, others with two places."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def duration(us: float | None) -> str:
    """Microseconds in the unit in which they are read best."""
    if us is None:
        return "–"
    if us < 1000:
        return f"{us:.0f} µs"
    return f"{us / 1000:.4g} ms" if us < 1_000_000 else f"{us / 1e6:.4g} s"
