"""Live nodes: asyncio, sockets, disk and clocks around the machines; decides nothing about the protocols."""
