"""What a live node occupies while it runs: its data folder, a thread for syncs, a port for control.

Invariant: what was taken is given back: the port first, then the thread, and the folder last, so that a
successor never starts while this process can still write.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

from thence.runtime.address import Address
from thence.runtime.control import Controlled, ControlServer
from thence.runtime.folder import DataFolder
from thence.runtime.logs import NodeLog
from thence.runtime.settings import NodeSettings


class NodeResources:
    __slots__ = ("_control", "_log", "_settings", "folder", "syncer")

    def __init__(self, settings: NodeSettings, log: NodeLog) -> None:
        self._settings: Final = settings
        self._log: Final = log
        self._control: ControlServer | None = None
        self.folder: DataFolder | None = None
        self.syncer: Final = ThreadPoolExecutor(1, thread_name_prefix="thence-sync")

    def acquire(self) -> DataFolder:
        for warning in self._settings.warnings:
            self._log.warn(warning)
        self.folder = folder = DataFolder(self._settings.data)
        return folder

    async def open_door(self, node: Controlled) -> Address | None:
        """Where people are answered, if the settings want that."""
        if self._settings.http is None:
            return None
        self._control = ControlServer.of(node, self._settings, self._settings.http, self._log)
        return await self._control.start()

    async def close_door(self) -> None:
        if self._control is not None:
            await self._control.close()

    def finish_syncs(self) -> None:
        self.syncer.shutdown(wait=True)

    def release(self) -> None:
        if self.folder is not None:
            self.folder.close()
