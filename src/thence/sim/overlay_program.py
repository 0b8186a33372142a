"""The program of a simulated node that is made like a live one: a register per member.

A state holds, per member, the counter of its last write and a checksum over all of its writes in order. Two
states merge member by member, the one that is further ahead: wrong as soon as one write was lost, doubled or
misplaced; the checksums tell.
"""

import json
from typing import Final
from zlib import crc32

from thence.core.errors import InvariantError
from thence.core.groups import Place
from thence.replica.group.surroundings import Applied
from thence.replica.idle import Idle


class RegisterProgram(Idle):
    """`group.surroundings.Merging`. What it takes it puts out; without a state it does nothing else."""

    reads = True

    def __init__(self, holds: bool) -> None:
        self.holds: Final = holds
        self.again = False
        """It is told what it had, from the log."""
        self._registers: dict[str, tuple[int, int]] = {}
        self._fresh: list[Place] = []

    def writes(self, payload: bytes) -> bytes:
        """What it sends when it is to send this."""
        return payload

    def apply(self, one: Applied) -> None:
        operation = one.operation
        name, seq = operation.dot
        if self.holds:
            before, checksum = self._registers.get(name, (0, 0))
            if seq != before + 1:
                raise InvariantError(f"write {seq} of {name} after {before}")
            self._registers[name] = seq, crc32(operation.payload, checksum)
        if not one.own and not self.again:
            self._fresh.append(operation.dot)

    def output(self) -> list[Place]:
        fresh, self._fresh = self._fresh, []
        return fresh

    def drop(self) -> None:
        self._fresh.clear()

    @property
    def clock(self) -> dict[str, int]:
        return {name: seq for name, (seq, _) in sorted(self._registers.items())}

    def encode(self) -> bytes:
        return json.dumps(sorted(self._registers.items())).encode()

    def state(self) -> bytes:
        return self.encode()

    def install(self, state: bytes) -> None:
        self._registers = {name: (seq, checksum) for name, (seq, checksum) in json.loads(state or b"[]")}

    def merge(self, state: bytes) -> None:
        for name, (seq, checksum) in json.loads(state):
            mine = self._registers.get(name, (0, 0))
            if seq == mine[0] and checksum != mine[1]:
                raise InvariantError(f"two histories of {name}")
            if seq > mine[0]:
                self._registers[name] = seq, checksum


class NewestProgram(RegisterProgram):
    """One that errors of order harm: besides its registers it keeps the operations that none has overwritten.
    An operation names those that its sender had, and takes them away; one that comes after an operation that
    named it stays for ever, unless the state is set right."""

    def __init__(self) -> None:
        super().__init__(holds=True)
        self._newest: dict[Place, None] = {}
        self._told: dict[str, int] = {}
        """What was put out: operations that are applied again are not."""

    def writes(self, payload: bytes) -> bytes:  # noqa: ARG002
        return json.dumps([*self._newest]).encode()

    def apply(self, one: Applied) -> None:
        super().apply(one)
        for name, seq in json.loads(one.operation.payload):
            self._newest.pop((name, seq), None)
        self._newest[one.operation.dot] = None

    def output(self) -> list[Place]:
        fresh = [(name, seq) for name, seq in super().output() if seq > self._told.get(name, 0)]
        self._told.update(fresh)
        return fresh

    def encode(self) -> bytes:
        return json.dumps([sorted(self._registers.items()), sorted(self._newest)]).encode()

    def install(self, state: bytes) -> None:
        registers, newest = json.loads(state or b"[[], []]")
        super().install(json.dumps(registers).encode())
        self._newest = dict.fromkeys([(name, seq) for name, seq in newest])
