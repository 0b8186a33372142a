"""A node with a store as a process."""

import gc

from thence.core.errors import UsageError
from thence.runtime.logs import StructuredLog
from thence.runtime.resp import RespServer
from thence.runtime.running import run_node, wall_clock
from thence.runtime.settings import NodeSettings
from thence.runtime.store_node import StoreNode


async def run_store(settings: NodeSettings, log: StructuredLog) -> int:
    address = settings.resp
    assert address is not None
    store = StoreNode(settings, log, wall_clock())
    server = RespServer(store, address)
    # What was loaded stays: a full collection would walk all of it, tens of milliseconds for 10⁶ keys.
    store.replicated.on_installed = gc.freeze

    async def start() -> None:
        try:
            await server.start()
        except OSError as error:
            raise UsageError(f"cannot answer Redis clients at {address}: {error.strerror}") from error
        log.info("answers Redis clients", at=f"{address.host}:{server.port}")
        await store.start()

    try:
        return await run_node(store.node, start)
    finally:
        await server.close()
