"""Links of a node on an edge tree: any process may become its peer, so faults are foreseen for all."""

import asyncio
from random import Random

import pytest
from support.live_links import ANY, BRIEF, QUICK, Node, World, clock

from thence.core.errors import UsageError
from thence.runtime.edge_links import EdgeLinks
from thence.runtime.hello import Identity


def test_a_link_is_mended_that_was_not_cut_or_was_mended_before() -> None:
    """As by a trial whose first request was answered too late (`thence chaos --spread edge`, seed 3106)."""

    async def mend() -> None:
        me = Identity("test", "a", b"log of a", 1)
        node = Node(World(), "a")
        links = EdgeLinks(
            me, b"secret", ANY, QUICK, node, Random(1), clock, node.log, lambda _: b"", limits=BRIEF
        )
        links.fault("mend", "b", 0)
        links.fault("cut", "b", 0)
        links.fault("slow", "b", 1000)
        assert links.status()["b"].cut
        for _ in range(2):
            links.fault("mend", "b", 0)
            assert not links.knows("b")
        links.fault("slow", "b", 0)
        assert not links.knows("b")
        with pytest.raises(UsageError):
            links.fault("mend", "a", 0)

    asyncio.run(mend())
