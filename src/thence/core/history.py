"""What a node has written down, for peers that lack some of it.

Declared here because a spread reads it without knowing of logs or files.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from thence.core.message import Message


class History(Protocol):
    """Messages that were released here, own ones included, in an order that respects causality."""

    @property
    def vector(self) -> tuple[int, ...]:
        """Per member, the counter of its newest message in here."""
        ...

    def reaches(self, vector: Sequence[int]) -> bool:
        """Is everything that a node with this vector lacks still here?"""
        ...

    def missing(self, vector: Sequence[int]) -> Iterator[Message]:
        """The messages that a node with this vector lacks, causes before effects."""
        ...
