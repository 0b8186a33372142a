"""Several operations of one sender as one message of the order, the spread, the log and stability.

The operations of a run have consecutive counters, of which the last names the message. A run is never split:
it is delivered, written, acknowledged and stable as a whole.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from thence.core.errors import PeerError
from thence.core.groups import OPERATION, RUN, STARTED, plain

RUN_MAX: Final = 4095
"""Operations in a run: positions count them in twelve bits."""
RUN_BYTES: Final = 256 * 1024
"""That a run has at most, unless its one operation has more."""
HEAD_BYTES: Final = 5
"""Before each operation at most."""

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[bytes])
_RUN: Final = bytes((RUN,))
_OPERATION: Final = bytes((OPERATION,))
_LONG, _LONGER = 0xDC, 0xDD
_OF_RUNS: Final = (RUN, STARTED)


def run_payload(operations: Sequence[bytes]) -> bytes:
    """One operation is a message of its own kind."""
    if len(operations) == 1:
        return _OPERATION + operations[0]
    return _RUN + _ENCODER.encode(operations)


def payload_run(payload: bytes) -> list[bytes]:
    """The operations of a RUN. `PeerError`: it is none."""
    try:
        found = _DECODER.decode(memoryview(payload)[1:])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise PeerError(f"a run that cannot be read: {error}") from error
    if not 2 <= len(found) <= RUN_MAX:
        raise PeerError(f"a run of {len(found)} operations")
    return found


def span_of_payload(payload: bytes) -> int:
    """How many counters a message has, as its first bytes tell."""
    if not payload or payload[0] not in _OF_RUNS:
        return 1
    payload = plain(payload)
    if payload[:1] != _RUN:
        return 1
    head = payload[1] if len(payload) > 1 else 0
    if head & 0xF0 == 0x90:
        return head & 0x0F
    if head in (_LONG, _LONGER):
        return int.from_bytes(payload[2 : 4 if head == _LONG else 6], "big")
    raise PeerError("a run that does not say how many operations it holds")


def in_runs(operations: Sequence[bytes], most: int = RUN_BYTES) -> Iterable[Sequence[bytes]]:
    """As they are to be sent: as few messages as the limits of a run allow, and of a payload (`most`)."""
    most, count = min(most, RUN_BYTES), len(operations)
    if count == 1 or (0 < count <= RUN_MAX and sum(map(len, operations)) + HEAD_BYTES * count <= most):
        return (operations,)
    return _in_several(operations, most)


def _in_several(operations: Sequence[bytes], most: int) -> Iterator[Sequence[bytes]]:
    first = size = 0
    for at, operation in enumerate(operations):
        taken = len(operation) + HEAD_BYTES
        if at > first and (size + taken > most or at - first == RUN_MAX):
            yield operations[first:at]
            first, size = at, 0
        size += taken
    if first < len(operations):
        yield operations[first:]
