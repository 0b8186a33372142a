"""Format: handshakes and data folders of live nodes, as every version since has made them."""

import asyncio
import json
import shutil
from pathlib import Path

import thence
from thence.runtime.address import Address
from thence.runtime.application import Delivered
from thence.runtime.groups import Answer, Founded, Open, Waiting, put_answer, take_answer
from thence.runtime.handshake import Acceptor, Judge, Opener
from thence.runtime.introductions import INSTANCE_BYTES, NONCE_BYTES, Aim, Identity, Introduction
from thence.runtime.shelf import Written, read_written

GOLDEN = Path(__file__).parent / "golden" / "v1"
SECRET = b"sixteen bytes or more"


def exchange() -> dict[str, str]:
    """The frames of a handshake with everything fixed that is drawn otherwise."""
    a, b = Identity("cluster", "a", bytes(range(16)), 3), Identity("cluster", "b", bytes(range(16, 32)), 4)
    opener = Opener(
        Introduction(a, "b", Aim.LINK, b"\x01" * INSTANCE_BYTES, b"\x02" * NONCE_BYTES),
        SECRET,
        admit=lambda _: None,
    )
    judge = Judge(lambda _: None, lambda _: None, lambda _: b"")
    acceptor = Acceptor(b, b"\x03" * INSTANCE_BYTES, b"\x04" * NONCE_BYTES, SECRET, judge)
    [hello] = opener.start()
    acceptor.start()
    [welcome] = acceptor.take(hello)
    [proof] = opener.take(welcome)
    [ready] = acceptor.take(proof)
    opener.take(ready)
    return {
        name: frame.hex()
        for name, frame in (("hello", hello), ("welcome", welcome), ("proof", proof), ("ready", ready))
    }


def test_a_handshake_is_what_it_was() -> None:
    assert exchange() == json.loads((GOLDEN / "handshake.json").read_text())


def answers() -> dict[str, str]:
    """What nodes that are asked for a group say, one of each kind."""
    at = Address("127.0.0.1", 7101), Address("::1", 7102)
    told: dict[str, Answer] = {
        "waiting": Waiting("a", at[0], at),
        "keeping": Waiting("a", at[0], at[1:], keeps=300),
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
    assert read_written(tmp_path) == Written(
        process="b", cluster="town", highest=3, boots=5, machine="6d616368696e65", policy="everysec",
        closed=False, contacts={"a": "127.0.0.1:7101"}, left="",
    )  # fmt: skip


def test_a_data_folder_of_any_version_is_taken_up(tmp_path: Path) -> None:
    """A node of version 1 that had sent two messages and delivered three, one of which was not taken."""
    shutil.copytree(GOLDEN / "node", tmp_path / "b")

    async def go_on() -> tuple[tuple[str, ...], tuple[str, int], list[bytes]]:
        members = {"a": "127.0.0.1:1", "b": "127.0.0.1:2"}
        async with thence.open(
            "b", data=tmp_path / "b", listen="127.0.0.1:2", members=members,
            settings={"log_level": "error", "drain_us": 0, "http": "none"},
        ) as node:  # fmt: skip
            tag = await node.broadcast(b"after the upgrade")
            waiting = []
            async for event in node.events():
                assert isinstance(event, Delivered)
                waiting.append(event.payload)
                break
            return node.members, node.name_of(tag), waiting

    assert asyncio.run(go_on()) == (("a", "b"), ("b", 3), [b"third of a"])
