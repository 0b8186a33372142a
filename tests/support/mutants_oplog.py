"""Planted bugs in the log: each must be found by the check of its kit that is named beside it.

The log is several modules, so a mutant is a whole log again, imported afresh with some of them edited.
"""

import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any

import thence.oplog
from support.mutants import Edit, edited, of


class _Edited(MetaPathFinder, InspectLoader):
    """Finds some modules, and finds them changed."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return spec_from_loader(fullname, self) if fullname in self._sources else None

    def get_source(self, fullname: str) -> str:
        return self._sources[fullname]

    def is_package(self, fullname: str) -> bool:
        return False


def log_with(edits: tuple[Edit, ...]) -> Any:
    """The class `OpLog` of a log with these edits in it; the real modules stay as they are."""
    finder = _Edited(edited(edits))
    real = {name: sys.modules[name] for name in list(sys.modules) if name.startswith("thence.oplog")}
    for name in real:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    try:
        return importlib.import_module("thence.oplog.log").OpLog
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.startswith("thence.oplog")]:
            del sys.modules[name]
        sys.modules.update(real)
        thence.oplog = real["thence.oplog"]


RECORD = of(
    "thence.oplog.record",
    ("a mark says that less was taken", "storm", "forgot",
     (":_body", "        put(out, mark.upto)\n", "        put(out, mark.upto - 1)\n")),
    ("a mark about stability loses an origin", "storm", "forgot",
     (":_body", "put(out, len(mark.changed))\n        for origin, seq in mark.changed:",
      "put(out, len(mark.changed[1:]))\n        for origin, seq in mark.changed[1:]:")),
    ("a snapshot's record forgets the clock", "storm", "DamageError",
     (":_decode_mark", "mark = SnapshotRef(covers, tuple([reader.take() for _ in range(reader.take())]))",
      "mark = SnapshotRef(covers, (0,) * len([reader.take() for _ in range(reader.take())]))")),
)  # fmt: skip

STATE = of(
    "thence.oplog.state",
    ("headers forget what the application took", "collection", "forgot",
     (":ReplayedState.encode", "        put(out, self.taken)\n", "        put(out, 0)\n")),
    ("headers forget notes", "storm", "KeyError",
     (":ReplayedState.encode", "        put(out, len(self.notes))\n        for key in sorted(self.notes):\n",
      "        put(out, 0)\n        for key in ():\n")),
    ("an installed state does not move the vector", "installed", "vector",
     (":ReplayedState._refer", "self.vector[origin] = jumps[origin] = seq", "jumps[origin] = seq")),
    ("an older snapshot is taken for a way back from an installed one", "installed", "snapshot",
     (":ReplayedState._refer", "bool(jumps)))", "False))")),
    ("one snapshot is kept", "snapshots", "kept",
     (":", "SNAPSHOTS_KEPT = 2", "SNAPSHOTS_KEPT = 1")),
    ("a peer without an entry is taken to have everything", "storm", "missing",
     (":covers", "    if len(other) > len(vector) and any(other[len(vector) :]):\n        return False\n",
      "")),
)  # fmt: skip

INDEX = of(
    "thence.oplog.index",
    ("the search starts after the entry, not at it", "catch-up", "missing",
     (":Index.first_missing", "bisect_right(seqs, has + 1) - 1, 0)",
      "bisect_right(seqs, has + 1), 0) % len(places)")),
    ("the search starts where the last origin says", "catch-up", "missing",
     (":Index.first_missing", "if found is None or place < found:", "if True:")),
    ("every search starts at the beginning", "catch-up", "read",
     (":Index.message", "elif seq - entries[0][-1] >= self.spacing:", "elif False:")),
    ("resuming counts from the entry itself", "storm", "since",
     (":Index.resume", "return self.place_offsets[at], self.place_positions[at] - 1",
      "return self.place_offsets[at], self.place_positions[at]")),
    ("index files forget installed states", "storm", "reach",
     (":Index.encode",
      "        put(body, len(self.jumps))\n        for origin, seq in sorted(self.jumps.items()):\n",
      "        put(body, 0)\n        for origin, seq in ():\n")),
    ("a damaged index file is believed", "flips", "damage",
     (":Index.decode",
      "        if crc32(data[:end]) != CRC.unpack_from(data, end)[0]:\n            return None\n", "")),
)  # fmt: skip

SEGMENT = of(
    "thence.oplog.segment",
    ("records are not verified", "flips", "damage",
     (":scan", "if crc32(record, seed ^ offset) != CRC.unpack_from(window, stop)[0]:", "if False:")),
    ("headers are not verified", "flips", "damage",
     (":read_header", "if crc32(header[:end]) != CRC.unpack_from(header, end)[0]:", "if False:")),
    ("a boot does not move positions", "storm", "since",
     (":scan", "position = WORD.unpack_from(record, HEAD.size)[0]", "position += 1")),
)  # fmt: skip

WRITER = of(
    "thence.oplog.writer",
    ("the remains of a failed write stay", "full disk", "definite",
     (":Writer._mend", "            self._files.truncate(active.name, active.size)\n",
      "            raise DiskError('', file='')\n")),
    ("the remains of a failed write are cut off unsynced", "definite is for ever", "changed",
     (":Writer._mend",
      "        try:\n            self.sync()\n        except StorageError:\n            return False\n"
      "        return True\n",
      "        return True\n")),
    ("remains are said to be gone", "remains stay", "definite",
     (":Writer._mend", "            self._torn = True\n            return False\n",
      "            self._torn = True\n            return True\n")),
    ("a failed write is forgotten, its records are not", "full disk", "usable",
     (":Writer.commit",
      "        except StorageError as error:\n            self.drop()\n            definite",
      "        except StorageError as error:\n            active.last = self._next - 1\n"
      "            self.drop()\n            definite")),
    ("a failed sync is forgotten", "failed sync", "usable",
     (":Writer.broke", "        self._broken = error\n", "")),
    ("a boot is not synced", "storm", "durable",
     (":Writer.boot", "            self.commit()\n            self.sync()\n", "            self.commit()\n")),
    ("a boot does not sync the folder", "page cache", "reused",
     (":Writer.boot", "            self._files.sync_folder()\n        except BaseException:\n",
      "        except BaseException:\n")),
    ("a boot goes on with the positions of the last", "storm", "reused",
     (":Writer.boot", "self._next = ((self.active.last >> BOOT_BITS) + 1 << BOOT_BITS) + 1",
      "self._next = self.active.last + 1")),
    ("a segment is sealed unsynced", "storm", "DamageError",
     (":Writer.rotate", "        old = self.active\n        try:\n            self.sync()\n",
      "        old = self.active\n        try:\n            self.synced(self.target)\n")),
    ("a new segment's name is not made durable", "storm", "lost",
     (":Writer.rotate", "            self._files.sync(new.name)\n            self._files.sync_folder()\n",
      "            self._files.sync(new.name)\n")),
    ("remains are sealed in", "remains and age", "DamageError",
     (":Writer.rotate", "        if self._torn and not self._mend():\n            return False  # the",
      "        if False:\n            return False  # the")),
    ("what was synced is not marked", "damage further up", "damage",
     (":Writer.begin", "            if active.synced > active.marked:\n", "            if False:\n")),
    ("what was not synced is marked", "holes", "DamageError",
     (":Writer.begin", "self._gather(Synced(active.synced))", "self._gather(Synced(active.size))"),
     (":Writer.begin", "if active.synced > active.marked:", "if active.size > active.marked:")),
)  # fmt: skip

RECOVERY = of(
    "thence.oplog.recovery",
    ("every bad end is a torn tail", "damage further up", "damage",
     (":is_torn",
      "        if _whole(tail, at, bad, segment.seed) and (not power_lost or _proves(tail, at, bad)):\n"
      "            return False\n",
      "        pass\n")),
    ("no bad end is a torn tail", "cuts", "DamageError",
     (":_last", "if damage.offset != segment.size or not is_torn(files, segment, size, power_lost):",
      "if True:")),
    ("after a power cut whole records prove damage", "holes", "DamageError",
     (":is_torn", "(not power_lost or _proves(tail, at, bad))", "True")),
    ("a torn tail is reported and not cut off", "cuts", "cut",
     (":_last", "        files.truncate(segment.name, segment.size)\n", "")),
    ("a torn tail is cut before its last whole record", "cuts", "DamageError",
     (":_scan_all", "segment.size = offset + len(body) + OVERHEAD", "segment.size = offset")),
    ("a gap between segments is passed over", "a missing segment", "damage",
     (":recover", "        if segment.last + 1 != following.first:\n", "        if False:\n")),
    ("sealed segments are not compared with their checksums", "flips", "DamageError",
     (":_sealed", "and (not settings.verify_sealed or _crc(files, segment.name, size) == sealed.crc)",
      "and True")),
    ("a half-made segment is damage", "storm", "DamageError",
     (":_half_made",
      "        if position_of(name, LOG) != 1:\n            return False\n        state = ReplayedState()\n",
      "        return False\n"),
     (":_half_made", "        loaded[-1] = read_header(files, segment.name, settings.spacing)\n",
      "        return False\n")),
    ("an index file is not made again", "index files", "DiskError",
     (":_sealed", "    seal(files, segment)\n", "")),
    ("stray snapshots stay", "a draft that was given up", "kept",
     (":recover", "and name not in kept:\n            _remove(files, name, report)",
      "and not name:\n            pass")),
)  # fmt: skip

COLLECTION = of(
    "thence.oplog.collection",
    ("what is stable goes although it was not taken", "collection", "needed",
     (":removable", "            upto > state.taken\n            or total", "            total")),
    ("what was taken goes although it is not stable", "collection", "needed",
     (":removable", "if not covers(state.stable, following.start) and (", "if False and (")),
    ("the older snapshot is not reckoned with", "snapshots", "needed",
     (":removable", "standing = min(", "standing = max(")),
    ("age alone is enough", "collection by size and age", "needed",
     (":removable", "(standing is None or not (too_much or too_old))", "not (too_much or too_old)")),
    ("size is no reason", "collection by size and age", "kept",
     (":removable", "not (too_much or too_old)", "not too_old")),
    ("size takes everything", "collection by size and age", "needed",
     (":removable", "        total -= segment.size\n", "")),
)  # fmt: skip

LOG = of(
    "thence.oplog.log",
    ("a segment goes before the marks that allow it are durable", "collection and crash", "forgot",
     (":OpLog.collect", "            self._writer.sync()\n        freed", "            pass\n        freed")),
    ("old snapshots stay", "snapshots", "kept",
     (":OpLog.settle_draft", "        self._remove_snapshots()\n", "")),
    ("a damaged snapshot is the end", "snapshots", "DamageError",
     (":OpLog.load", "                if kept.installed:\n                    break\n",
      "                break\n")),
    ("a snapshot counts before it is written", "half a snapshot", "definite",
     (":OpLog._given_up", "definite=True)", "definite=False)")),
    ("a snapshot that is half written counts", "storm of drafts", "snapshot",
     (":OpLog._draft_synced", "        if not draft.whole:\n            return []\n", "")),
    ("a snapshot that a sync has failed for goes on", "a draft that cannot be synced", "snapshot",
     (":OpLog.sync_failed", "                raise self._given_up(self._draft, error)\n",
      "                pass\n")),
    ("a snapshot is settled before it is certain that it counts", "a draft that was given up", "counts",
     (":OpLog.drafted", "0 < draft.ref <= self._writer.durable", "0 < draft.ref")),
    ("a snapshot counts though its record could not be written", "storm of drafts", "snapshot",
     (":OpLog._forget_unreferred", "if self.tail < draft.ref:", "if False:")),
    ("a sync for one that was given up is taken for one of the next", "a draft that was given up", "counts",
     (":OpLog._draft_synced", "draft.waits != sync", "draft.waits is None")),
    ("what was insisted on may leave at once", "insisted", "durable",
     (":OpLog.may_leave", "return (policy.insisted if", "return (0 if")),
    ("a sync by the clock is for what was committed before it was due alone", "everysec", "sync",
     (":OpLog._tell_policy", "        if self._more:\n", "        if False:\n")),
)  # fmt: skip

POLICY = of(
    "thence.oplog.policy",
    ("a snapshot's file is not synced", "storm of drafts", "DamageError",
     (":DiskSync.carry_out", "        files.sync(self.file)\n",
      "        if not self.folder:\n            files.sync(self.file)\n")),
    ("a sync for every commit", "group commit", "sync",
     (":SyncPolicy._next",
      "if self._wanted is None or self._flying is not None:\n            return []\n        if self._policy",
      "if self._wanted is None:\n            return []\n        if self._policy"),
     (":SyncPolicy._fly",
      "        if self._wanted is None or self._flying is not None:\n            return []\n"
      "        self._flying,",
      "        if self._wanted is None:\n            return []\n        self._flying,")),
    ("what came in during a sync is forgotten", "group commit", "ValueError",
     (":SyncPolicy.done", "            self._flying = None\n",
      "            self._flying = self._wanted = None\n")),
    ("a wake-up for every commit", "everysec", "sync",
     (":SyncPolicy.gathers", "return self._due is not None and", "return False and"),
     (":SyncPolicy._next", 'if self._policy == "no" or self._due is not None:', 'if self._policy == "no":')),
    ("no caller can insist", "insisted", "sync",
     (":SyncPolicy._next", 'if self._policy == "always" or self._must:', 'if self._policy == "always":')),
    ("who insists is forgotten during a sync", "insisted", "sync",
     (":SyncPolicy.committed", "            self._must, self.insisted = True, sync.position\n",
      "            self._must, self.insisted = self._flying is None, sync.position\n")),
    ("a caller that insists once insists for ever", "insisted", "sync",
     (":SyncPolicy._fly", "self._wanted, self._must = self._wanted, None, False",
      "self._wanted = self._wanted, None")),
)  # fmt: skip

READING = of(
    "thence.oplog.reading",
    ("the search stops one segment too early", "catch-up", "missing",
     (":stretches_missing", "        if covers(vector, segment.start):\n            break\n",
      "        break\n")),
    ("every segment is searched", "catch-up", "read",
     (":stretches_missing", "        place = segment.index.first_missing(vector, end)\n",
      "        place = segment.index.first_missing(vector, end) or (segment.body_at, segment.first - 1)\n"),
     (":stretches_missing", "        if covers(vector, segment.start):\n            break\n", "")),
    ("what the peer has comes again", "catch-up", "missing",
     (":messages_missing", "if origin >= known or dot >> ORIGIN_BITS > vector[origin]:", "if True:")),
    ("the message at the position comes again", "storm", "since",
     (":messages_after",
      "def messages_after(files: Files, stretches: list[Stretch], after: int) -> Iterator[Stored]:\n"
      "    for position, body in _message_bodies(files, stretches):\n        if position > after:\n",
      "def messages_after(files: Files, stretches: list[Stretch], after: int) -> Iterator[Stored]:\n"
      "    for position, body in _message_bodies(files, stretches):\n        if position >= after:\n")),
)  # fmt: skip

SNAPSHOTS = of(
    "thence.oplog.snapshots",
    ("a snapshot's name is not made durable", "storm of drafts", "DamageError",
     (":Draft.sync", "self.whole)", "False)")),
    ("a damaged snapshot is believed", "flips", "snapshot",
     (":read_snapshot", "if crc32(memoryview(data)[:end]) != CRC.unpack_from(data, end)[0]:", "if False:")),
    ("a large part is written at once", "a draft with a large part", "draft",
     (":_cut", "if len(part) <= PIECE_BYTES:", "if True:")),
    ("the end of a large part is lost", "a draft with a large part", "snapshot",
     (":_cut", "range(0, len(part), PIECE_BYTES)", "range(0, len(part) - PIECE_BYTES, PIECE_BYTES)")),
    ("half a snapshot stays", "half a snapshot", "kept",
     (":Draft.give_up", "                self._files.remove(self.name)\n", "                pass\n")),
)  # fmt: skip

VIEW = of(
    "thence.oplog.view",
    ("a log with a hole claims to reach back", "installed", "reach",
     (":CommittedView.reaches",
      "        return all(seq <= (vector[o] if o < known else 0) for o, seq in self._floor().items())\n",
      "        return known >= 0\n")),
    ("what was collected is still promised", "collection", "reach",
     (":CommittedView.reaches",
      "        if not covers(vector, self._segments[0].start):\n            return False\n",
      "")),
)  # fmt: skip

OPLOG = RECORD + STATE + INDEX + SEGMENT + WRITER + RECOVERY + COLLECTION
OPLOG += LOG + POLICY + READING + SNAPSHOTS + VIEW
