"""Format: handshakes and data folders of live nodes, as every version since has made them."""

import json
import shutil
from pathlib import Path

import pytest
from support.live_links import free_addresses
from support.open_nodes import delivered, run

import thence
from thence.runtime import folder as folders
from thence.runtime.address import Address
from thence.runtime.application import OpenNode
from thence.runtime.election import Answer, Founded, Open, Seeking, put_answer, take_answer
from thence.runtime.handshake import Acceptor, HandshakePolicy, Opener
from thence.runtime.hello import (
    INSTANCE_BYTES,
    NONCE_BYTES,
    Identity,
    Introduction,
    Purpose,
    RefusalError,
)
from thence.runtime.incarnations import Manifest, read_written

GOLDEN = Path(__file__).parent / "golden" / "v1"
SECRET = b"sixteen bytes or more"


def exchange() -> dict[str, str]:
    """The frames of a handshake with everything fixed that is drawn otherwise."""
    a, b = Identity("cluster", "a", bytes(range(16)), 3), Identity("cluster", "b", bytes(range(16, 32)), 4)
    opener = Opener(
        Introduction(a, "b", Purpose.LINK, b"\x01" * INSTANCE_BYTES, b"\x02" * NONCE_BYTES),
        SECRET,
        admit=lambda _: None,
    )
    judge = HandshakePolicy(lambda _: None, lambda *_: None, lambda _: b"")
    acceptor = Acceptor(b, b"\x03" * INSTANCE_BYTES, b"\x04" * NONCE_BYTES, SECRET, judge)
    [hello] = opener.start()
    acceptor.start()
    [welcome] = acceptor.take(hello)
    [proof] = opener.take(welcome)
    [ready] = acceptor.take(proof)
    [agreed] = opener.take(ready)
    acceptor.take(agreed)
    frames = {"hello": hello, "welcome": welcome, "proof": proof, "ready": ready, "agreed": agreed}
    return {name: frame.hex() for name, frame in frames.items()}


def test_a_handshake_is_what_it_was() -> None:
    assert exchange() == json.loads((GOLDEN.parent / "v3" / "handshake.json").read_text())


@pytest.mark.parametrize("version", [1, 2])
def test_nodes_of_versions_before_are_refused_in_words(version: int) -> None:
    """Version 1 told strangers what a node is known by; closed groups of version 2 had other packets."""
    frames = json.loads((GOLDEN.parent / f"v{version}" / "handshake.json").read_text())
    hello = bytes.fromhex(frames["hello"])
    judge = HandshakePolicy(lambda _: None, lambda *_: None, lambda _: b"")
    with pytest.raises(RefusalError, match=f"protocol version {version}, where this is version 3") as refused:
        Acceptor(Identity("cluster", "b", b"", 1), b"", b"", SECRET, judge).take(hello)
    assert refused.value.told is not None


def answers() -> dict[str, str]:
    """What nodes that are asked for a group say, one of each kind."""
    at = Address("127.0.0.1", 7101), Address("::1", 7102)
    told: dict[str, Answer] = {
        "waiting": Seeking("a", at[0], at),
        "keeping": Seeking("a", at[0], at[1:], keeps=300),
        "founded": Founded((("a", at[0]), ("b", at[1]))),
        "open": Open((("a", at[0]), ("b", at[1])), 7),
    }
    return {name: put_answer(answer).hex() for name, answer in told.items()}


def test_answers_are_what_they_were() -> None:
    golden = json.loads((GOLDEN / "answers.json").read_text())
    assert answers() == golden
    assert {
        name: put_answer(take_answer(bytes.fromhex(told))).hex() for name, told in golden.items()
    } == golden


def test_what_outlives_incarnations_is_read_in_any_version(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "incarnations", tmp_path / "incarnations")
    assert read_written(tmp_path) == Manifest(
        process="b", cluster="town", highest=3, boots=5, machine="6d616368696e65", policy="everysec",
        closed=False, contacts={"a": "127.0.0.1:7101"}, left="",
    )  # fmt: skip


def opened(folder: Path, settings: dict[str, object] | None = None) -> OpenNode:
    """The folder of a node of version 1 that had sent two messages and delivered three, one of which was not
    taken, and that was not closed in order. Its member a is not there."""
    shutil.copytree(GOLDEN / "node", folder)
    a, b = map(str, free_addresses(2))
    return thence.open(
        "b", data=folder, listen=b, members={"a": a, "b": b},
        settings={"log_level": "error", "drain_us": 0, "http": "none", **(settings or {})},
    )  # fmt: skip


@pytest.mark.parametrize("spread", ["mesh", "tree"])
def test_a_data_folder_of_any_version_is_taken_up(
    spread: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the machine that wrote it, which has been on ever since."""
    monkeypatch.setattr(folders, "machine_id", lambda: bytes.fromhex("e1fba37dd3cc46198a7e75fe479d5c13"))

    async def go_on() -> tuple[tuple[str, ...], tuple[str, int], list[bytes]]:
        async with opened(tmp_path / "b", {"spread": spread}) as node:
            tag = await node.broadcast(b"after the upgrade")
            [waiting] = await delivered(node.events(), 1)
            return node.members, node.name_of(tag), [waiting.payload]

    assert run(go_on) == (("a", "b"), ("b", 3), [b"third of a"])


def test_on_another_machine_a_node_returns_as_a_new_incarnation_with_what_it_had(tmp_path: Path) -> None:
    """It was written under `everysec`: what it had sent last may be with others only. Its first message says
    whom it goes on without, the second brings what it had."""

    async def go_on() -> tuple[str, tuple[str, ...], tuple[str, int]]:
        async with opened(tmp_path / "b", {"group.patience_us": 1}) as node:
            tag = await node.broadcast(b"after the upgrade")
            return node.me, node.members, node.name_of(tag)

    assert run(go_on) == ("b~2", ("b~2",), ("b~2", 3))
