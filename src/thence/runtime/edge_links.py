"""Links of a node on an edge tree: to its parent, its next ancestors and its children.

The lower node dials; its parent learns of it by its call, as of a guest, and never dials back. So the
patience that two peers that know each other have with one another is not needed.
"""

from typing import Final

from thence.core.errors import UsageError
from thence.runtime.address import parse_address
from thence.runtime.open_links import OpenLinks
from thence.runtime.peer import Peer

PART_US: Final = 1_000_000
"""The last packets arrive before a link that is not needed is closed."""


class EdgeLinks(OpenLinks):
    foresees = True

    def want(self, name: str, where: str) -> None:
        """There shall be a link to this process, always; as soon as it is known where that is."""
        try:
            address = parse_address(where)
        except UsageError:
            return
        if address.port:
            self.know(name, address, at_once=True)

    def _dial_after(self, peer: Peer, delay_us: int, patient: bool = False) -> None:
        super()._dial_after(peer, delay_us, patient)
