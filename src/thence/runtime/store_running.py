"""A node with a store as a process."""

import gc
from typing import Final

from thence.core.errors import UsageError
from thence.runtime.allocator import give_back_large_blocks, give_back_what_is_free
from thence.runtime.descriptors import raise_limit
from thence.runtime.logs import StructuredLog
from thence.runtime.resp import RespServer
from thence.runtime.running import run_node, wall_clock
from thence.runtime.settings import NodeSettings
from thence.runtime.store_node import StoreNode

COLLECTED: Final = (20_000, 20, 20)
"""Objects of a generation, then runs of the one before. An operation in flight is some objects, none of them
in a circle: with Python's own (700, 10, 10) looking through them is an eighth of what a write costs."""


async def run_store(settings: NodeSettings, log: StructuredLog) -> int:
    address = settings.resp
    assert address is not None
    raise_limit()
    give_back_large_blocks()
    store = StoreNode(settings, log, wall_clock())
    server = RespServer(store, address)
    # What is there stays: a full collection would walk all of it, tens of milliseconds for 10⁶ keys.
    store.replicated.on_installed = store.on_grown = gc.freeze
    store.surplus.give_back = give_back_what_is_free
    gc.freeze()
    gc.set_threshold(*COLLECTED)

    async def start() -> None:
        try:
            await server.start()
        except UsageError as error:
            raise UsageError(f"cannot answer Redis clients: {error}") from error
        log.info("answers Redis clients", at=f"{address.host}:{server.port}")
        await store.start()

    try:
        return await run_node(store.node, start)
    finally:
        await server.close()
