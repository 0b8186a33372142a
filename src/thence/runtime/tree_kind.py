"""What nodes on trees have in common, open trees and edge trees: a folder, traces, links without a view.

No view is agreed on, so any process of the cluster may link: what is checked is that it is one process. A
peer that comes back with a smaller boot than before was put back, or is a copy; where its identity does not
depend on that (`refuses_copies`), it is let in.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from thence.core.errors import StorageError, UsageError
from thence.replica.contract import Machine
from thence.runtime.hello import Identity, leap
from thence.runtime.incarnations import IncarnationStore
from thence.runtime.open_links import OpenLinks
from thence.runtime.trace_files import TraceWriters

if TYPE_CHECKING:
    from thence.runtime.node import Node

L = TypeVar("L", bound=OpenLinks)
M = TypeVar("M", bound=Machine[Any])


class TreeKind(ABC, Generic[L, M]):
    """`links.Handler`, and what `node.Kind` and the driver's outlet have in common on all trees."""

    drains = True
    refuses_copies = True
    no_view: str
    """Why no member is evicted."""

    def __init__(self, node: "Node") -> None:
        self._node: Final = node
        self.boot = 0
        self.links: L | None = None
        self._shelf: IncarnationStore | None = None
        self._diaries: TraceWriters | None = None
        self._log_id = b""
        self._members: dict[str, str] = {}
        """Of a closed group, and where they are."""
        self._wishes: dict[str, str | None] = {}
        """From before there were links."""
        self._met: dict[str, tuple[bytes, int]] = {}
        """By name: the log and the boot of the last peer that was let in."""

    @property
    def machine(self) -> M:
        machine: M = self._node.running.machine
        return machine

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What the application is told meanwhile it has been told before."""
        self._node.application.recovering(True)
        try:
            yield
        finally:
            self._node.application.recovering(False)

    def has_progress(self) -> bool:
        return True

    def close(self, in_order: bool) -> None:
        try:
            if self._diaries is not None:
                self._diaries.close()
        except StorageError:
            in_order = False
            raise
        finally:
            if self._shelf is not None:
                self._shelf.close(in_order)

    # Links (`links.Handler`) and the driver's outlet

    def admit(self, peer: Identity) -> str | None:
        me, node = self._node.settings.name, self._node
        if self._members and peer.name not in self._members:
            return f"{peer.name} is not a member that {me} knows"
        if node.driver is None:
            return f"{me} is starting"
        if node.driver.trouble is not None:
            return f"{me} cannot write at present: {node.driver.trouble}"
        linked = self.links is not None and self.links.linked(peer.name)
        log_id, boot = self._met.get(peer.name, (peer.log_id, 0))
        if log_id != peer.log_id and linked:
            return f"another node called {peer.name} is linked here: two nodes with one name"
        if self.refuses_copies and log_id == peer.log_id and peer.boot < boot and linked:
            return f"{peer.name} was here with a newer boot ({boot}, not {peer.boot}): a copy of its data"
        absurd = leap(peer.name, peer.boot, boot if log_id == peer.log_id else 0)
        if absurd is None:
            self._met[peer.name] = peer.log_id, peer.boot
        return absurd

    def link_up(self, peer: str, now: int) -> None:
        del now
        self._node.running.link_up(peer)

    def link_packets(self, peer: str, packets: list[bytes], now: int) -> None:
        self._node.running.packets(peer, packets, now)

    def link_down(self, peer: str, why: str, now: int) -> None:
        del why, now
        if self.links is not None and not self.links.knows(peer):
            self._met.pop(peer, None)  # there is no end to the names that come and go
        self._node.running.link_down(peer)

    def link_bug(self, error: Exception) -> None:
        self._node.running.stops(error)

    def unpack(self, peer: str, data: Sequence[bytes]) -> Iterator[Any]:
        del peer
        return map(self.machine.decode, data)

    def send(self, peer: str, packets: Sequence[bytes]) -> None:
        if self.links is not None:
            self.links.write(peer, packets)

    def begin_anew(self, why: str) -> None:
        self._node.says.error("cannot write: multicasts are refused, links begin anew", why=why)
        if self.links is not None:
            self.links.begin_anew()

    def keep(self, links: Mapping[str, str | None]) -> None:
        if self.links is None:
            self._wishes |= links
        else:
            self._keep(self.links, links)

    @abstractmethod
    def _keep(self, links: L, wanted: Mapping[str, str | None]) -> None:
        """Links with these peers, at these addresses; None: not any more."""

    # What people ask of it

    def evict(self, who: str, force: bool) -> str:
        del who, force
        raise UsageError(self.no_view)

    def bury(self, who: str) -> None:
        del who
        raise UsageError(self.no_view)
