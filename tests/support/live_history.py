"""Rows of the traces that live nodes leave."""

from pathlib import Path

import msgspec

from thence.trace.schema import Event


def decode(data: bytes) -> list[Event]:
    """The rows of a file; a last line without its newline is passed over."""
    whole = data[: data.rfind(b"\n") + 1]
    return msgspec.json.Decoder(Event).decode_lines(whole)


def read(folder: Path) -> list[Event]:
    return [row for path in sorted(folder.iterdir()) for row in decode(path.read_bytes())]
