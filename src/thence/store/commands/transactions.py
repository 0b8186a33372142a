"""MULTI, EXEC, DISCARD, WATCH."""

from thence.store.client import Client
from thence.store.executor import OOM, Executor
from thence.store.host import Later
from thence.store.reply import NULL_ARRAY, OK, Fail, Reply
from thence.store.table import Command, command, lookup


@command("MULTI", 1, "noscript loading stale fast", (0, 0, 0), group="transactions")
def multi(e: Executor, c: Client, a: list[bytes]) -> Reply:
    if c.transaction is not None:
        raise Fail("ERR MULTI calls can not be nested")
    c.transaction, c.broken, c.queued = [], False, 0
    return OK


def known(words: list[bytes]) -> Command:
    """Of a command that was queued."""
    found = lookup(words[0])
    assert found is not None
    return found


def drop(e: Executor, c: Client) -> None:
    c.transaction, c.broken, c.queued = None, False, 0
    e.unwatch(c)


@command("DISCARD", 1, "noscript loading stale fast", (0, 0, 0), group="transactions")
def discard(e: Executor, c: Client, a: list[bytes]) -> Reply:
    if c.transaction is None:
        raise Fail("ERR DISCARD without MULTI")
    drop(e, c)
    return OK


@command("EXEC", 1, "noscript loading stale", (0, 0, 0), group="transactions",
         differs="one operation: at every node all of it or nothing")  # fmt: skip
def exec_(e: Executor, c: Client, a: list[bytes]) -> Reply:
    if c.transaction is None:
        raise Fail("ERR EXEC without MULTI")
    queued, broken = c.transaction, c.broken
    dirty = c.dirty or any(
        not gone and e.state.space.databases[db].deadline(key) <= e.now
        for (db, key), gone in c.watching.items()
    )
    drop(e, c)
    if broken:
        raise Fail("EXECABORT Transaction discarded because of previous errors.")
    if dirty:
        return NULL_ARRAY
    if any(known(words).writes for words in queued):
        why = e.host.refusal
        if why is None and e.is_full and any(known(words).grows for words in queued):
            why = OOM
        if why is not None:
            raise Fail(f"EXECABORT Transaction discarded because of: {why}")
    replies: list[Reply] = []
    for words in queued:
        try:
            reply = e.run(known(words), c, words)
            replies.append(reply.too_late() if isinstance(reply, Later) else reply)
        except Fail as fail:
            e.stats["errors"] += 1
            replies.append(fail)
    return replies


@command("WATCH", -2, "noscript loading stale fast", (1, -1, 1), group="transactions",
         differs="notices writes that this node makes or delivers; others merge")  # fmt: skip
def watch(e: Executor, c: Client, a: list[bytes]) -> Reply:
    if c.transaction is not None:
        raise Fail("ERR WATCH inside MULTI is not allowed")
    for key in a:
        place = c.db, key
        if place not in c.watching:
            c.watching[place] = e.state.space.databases[c.db].deadline(key) <= e.now
            e.state.space.watched.setdefault(place, []).append(c.spoil)
    return OK


@command("UNWATCH", 1, "noscript loading stale fast", (0, 0, 0), group="transactions")
def unwatch(e: Executor, c: Client, a: list[bytes]) -> Reply:
    if c.transaction is not None:
        c.transaction.append([b"UNWATCH"])
        return "QUEUED"
    e.unwatch(c)
    return OK
