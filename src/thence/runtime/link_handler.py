"""What the links of a node (`links`, `open_links`) call."""

from typing import Protocol

from thence.runtime.hello import Identity


class Handler(Protocol):
    """The node, as its links see it."""

    def admit(self, peer: Identity) -> str | None:
        """A reason to refuse a side that has proven to be this; None: welcome. Asked in both roles, also
        while an older link of the same peer is still up: it may be dead without our knowing."""
        ...

    def link_up(self, peer: str, now: int) -> None: ...

    def link_packets(self, peer: str, packets: list[bytes], now: int) -> None:
        """All packets of one read. `PeerError`: the link is cut off."""
        ...

    def link_down(self, peer: str, why: str, now: int) -> None: ...

    def link_bug(self, error: Exception) -> None:
        """It is unknown what links would do from now on: the node must stop."""
        ...
