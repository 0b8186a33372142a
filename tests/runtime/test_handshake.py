"""The handshake, both sides in memory: who gets in, who learns what, and what cannot be forged."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.core.errors import PeerError, UsageError
from thence.runtime.frames import ANSWER, HELLO, PROOF, READY, WELCOME, link_frame
from thence.runtime.handshake import NOT_TOLD, Acceptor, HandshakePolicy, Opener, read_refusal, refusal
from thence.runtime.hello import MOST_BOOT, Identity, Introduction, Purpose, RefusalError, put_credentials

SECRET = b"a secret of some length"
A = Identity("test", "a", b"log-a", 3)
B = Identity("test", "b", b"log-b", 5)
NO_CREDENTIALS = put_credentials(Identity("test", "a", b"", 0))
HELLO_OF_A = Introduction(A, "b", Purpose.LINK, b"instance", bytes(32))


@dataclass
class Node:
    """What a judge says, and what it was asked."""

    refuses_claim: str | None = None
    refuses_proven: str | None = None
    asked: list[str] = field(default_factory=list)

    def judge(self) -> HandshakePolicy:
        return HandshakePolicy(self.expects, self.admit, lambda _: b"the group")

    def expects(self, hello: Introduction) -> str | None:
        self.asked.append(f"claimed {hello.identity.name}")
        return self.refuses_claim

    def admit(self, hello: Introduction, host: str) -> str | None:
        self.asked.append(f"proven {hello.identity.name}")
        return self.refuses_proven


def opener(
    hello: Introduction = HELLO_OF_A,
    secret: bytes = SECRET,
    admit: Callable[[Introduction], str | None] | None = None,
) -> Opener:
    return Opener(hello, secret, admit or (lambda _: None))


def acceptor(
    me: Identity = B, secret: bytes = SECRET, node: Node | None = None, nonce: bytes = b"n" * 32
) -> Acceptor:
    return Acceptor(me, b"instanc2", nonce, secret, (node or Node()).judge())


def shake(one: Opener, other: Acceptor) -> None:
    """Frames back and forth until neither side has anything to send. Raises what either side raises."""
    to_acceptor = one.start()
    while to_acceptor:
        to_opener = [answer for frame in to_acceptor for answer in other.take(frame)]
        to_acceptor = [answer for frame in to_opener for answer in one.take(frame)]


def test_both_learn_who_the_other_is() -> None:
    one, other = opener(), acceptor()
    shake(one, other)
    assert one.done
    assert other.done
    assert one.peer is not None
    assert other.peer is not None
    assert (one.peer.identity, other.peer.identity) == (B, A)
    assert (one.peer.instance, other.peer.instance) == (b"instanc2", b"instance")


def test_an_empty_secret_works_too() -> None:
    one, other = opener(secret=b""), acceptor(secret=b"")
    shake(one, other)
    assert one.done


def test_no_peer_is_admitted_before_it_has_proven_itself() -> None:
    node = Node()
    one, other = opener(), acceptor(node=node)
    welcome = other.take(one.start()[0])[0]
    assert node.asked == ["claimed a"]
    assert other.peer is None
    other.take(one.take(welcome)[0])
    assert node.asked == ["claimed a", "proven a"]


@pytest.mark.parametrize(
    ("hello", "me", "why"),
    [
        (
            replace(HELLO_OF_A, identity=replace(A, cluster="other")),
            B,
            "a belongs to cluster other, b to test",
        ),
        (HELLO_OF_A, replace(B, name="c"), "this is c, not b"),
    ],
)
def test_a_wrong_cluster_or_target_is_refused_in_words(hello: Introduction, me: Identity, why: str) -> None:
    with pytest.raises(RefusalError, match=why) as refused:
        shake(opener(hello), acceptor(me))
    assert refused.value.told == why
    assert not refused.value.by_peer


def test_the_other_side_reads_the_reason() -> None:
    with pytest.raises(RefusalError, match="refused by the other side: this is c, not b") as refused:
        opener().take(refusal("this is c, not b"))
    assert refused.value.by_peer
    assert refused.value.told is None


@pytest.mark.parametrize(
    ("node", "asked"),
    [
        (Node(refuses_claim="no such member"), ["claimed a"]),
        (Node(refuses_proven="no such member"), ["claimed a", "proven a"]),
    ],
)
def test_what_the_node_says_is_told(node: Node, asked: list[str]) -> None:
    other = acceptor(node=node)
    with pytest.raises(RefusalError, match="no such member") as refused:
        shake(opener(), other)
    assert refused.value.told == "no such member"
    assert node.asked == asked
    assert other.peer is None


def test_the_opener_is_asked_as_well() -> None:
    one = opener(admit=lambda theirs: f"{theirs.identity.name} lost its data")
    other = acceptor()
    with pytest.raises(RefusalError, match="b lost its data") as refused:
        shake(one, other)
    assert refused.value.told == "b lost its data"
    assert one.peer is None
    with pytest.raises(RefusalError, match="refused by the other side: b lost its data"):
        other.take(refusal(refused.value.told))
    assert not other.done


def test_who_does_not_know_the_secret_is_not_told_what_is_wrong() -> None:
    node = Node()
    with pytest.raises(RefusalError, match="secret") as by_opener:
        shake(opener(secret=b"wrong"), acceptor(node=node))
    assert by_opener.value.told == NOT_TOLD
    assert node.asked == ["claimed a"]

    # An opener that does not care whether the acceptor knows it, and lies.
    other = acceptor(node=node)
    other.take(opener().start()[0])
    with pytest.raises(RefusalError, match="wrong proof") as by_acceptor:
        other.take(link_frame(PROOF, NO_CREDENTIALS + bytes(32)))
    assert by_acceptor.value.told == NOT_TOLD
    assert node.asked == ["claimed a", "claimed a"]


def test_another_version_is_refused_in_words_whatever_follows_it() -> None:
    with pytest.raises(RefusalError, match="protocol version 4, where this is version 3") as refused:
        acceptor().take(link_frame(HELLO, b"\x04anything"))
    assert refused.value.told is not None
    with pytest.raises(RefusalError, match="frames of version 9") as refused:
        acceptor().take(bytes((9, HELLO)) + b"anything")
    assert refused.value.told is not None


def test_a_recorded_exchange_is_worth_nothing_later() -> None:
    one, other = opener(), acceptor()
    hello = one.start()[0]
    proof = one.take(other.take(hello)[0])[0]
    other.take(proof)

    later = acceptor(nonce=b"m" * 32)
    later.take(hello)
    with pytest.raises(RefusalError, match="wrong proof"):
        later.take(proof)


def test_a_welcome_for_another_peer_proves_nothing() -> None:
    """A relay between the two passes the hello on under another name."""
    honest = opener()
    forged = opener(replace(HELLO_OF_A, identity=replace(A, name="aa")))
    welcome = acceptor().take(forged.start()[0])[0]
    with pytest.raises(RefusalError, match="secret"):
        honest.take(welcome)


def test_a_proof_cannot_be_sent_back_to_its_maker() -> None:
    """The roles are part of what is proven: a welcome's proof is no opener's proof."""
    other = acceptor()
    welcome = other.take(opener().start()[0])[0]
    with pytest.raises(RefusalError, match="wrong proof"):
        other.take(link_frame(PROOF, NO_CREDENTIALS + welcome[-32:]))


@given(st.integers(0, 1 << 16), st.integers(1, 255))
def test_no_bit_of_the_exchange_can_be_changed(place: int, flip: int) -> None:
    def flipped(frame: bytes) -> bytes:
        at = place % len(frame)
        return frame[:at] + bytes([frame[at] ^ flip]) + frame[at + 1 :]

    def exchange(one: Opener, other: Acceptor, which: int) -> None:
        frame = one.start()[0]
        for step in range(5):
            sent = flipped(frame) if step == which else frame
            answers = (other if step % 2 == 0 else one).take(sent)
            frame = answers[0] if answers else b""

    for which in range(5):
        one, other = opener(), acceptor()
        with pytest.raises(PeerError):
            exchange(one, other, which)
        assert not other.done
        assert one.done is (which == 4)
    one, other = opener(), acceptor()
    exchange(one, other, -1)
    assert other.peer is not None


def test_frames_in_the_wrong_order_are_refused() -> None:
    one, other = opener(), acceptor()
    with pytest.raises(PeerError, match="kind"):
        other.take(link_frame(READY))
    with pytest.raises(PeerError, match="kind"):
        one.take(one.start()[0])
    shake(one, acceptor())
    with pytest.raises(PeerError, match="after its end"):
        one.take(link_frame(READY))


def test_a_link_is_not_got_by_asking_nor_an_answer_by_linking() -> None:
    one, other = opener(), acceptor()
    one.take(other.take(one.start()[0])[0])
    with pytest.raises(PeerError, match="kind"):
        one.take(link_frame(ANSWER, b"the group"))


def test_one_that_asks_may_leave_open_whom_and_gets_an_answer() -> None:
    newcomer = Introduction(Identity("test", "n", b"", 0), "", Purpose.ASK, b"instance", bytes(32))
    one, other = opener(newcomer), acceptor()
    shake(one, other)
    assert one.done
    assert one.answer == b"the group"
    assert one.peer is not None
    assert one.peer.identity == replace(B, log_id=b"", boot=0), "who only asks is not told them"


def test_no_credentials_are_told_before_the_other_side_has_proven_itself() -> None:
    """Who knows a log's id and boot can pose as the node that has them."""
    a, b = replace(A, log_id=b"id of the log of a"), replace(B, log_id=b"id of the log of b")
    one, other = opener(replace(HELLO_OF_A, identity=a)), acceptor(b)
    hello = one.start()[0]
    welcome = other.take(hello)[0]
    assert a.log_id not in hello
    assert b.log_id not in welcome
    proof = one.take(welcome)[0]
    assert a.log_id in proof
    assert b.log_id in other.take(proof)[0]


def test_an_acceptor_tells_none_to_one_that_it_does_not_let_in() -> None:
    """It knows the secret, or there is none, and does not know what the node whose name it took would."""
    told = []
    one, other = opener(secret=b""), acceptor(secret=b"", node=Node(refuses_proven="another log"))
    with pytest.raises(RefusalError, match="another log"):
        told += other.take(one.take(other.take(one.start()[0])[0])[0])
    assert told == []


def test_nor_does_an_opener_believe_credentials_without_their_proof() -> None:
    asked: list[Introduction] = []
    one, other = opener(admit=lambda theirs: asked.append(theirs)), acceptor()
    one.take(other.take(one.start()[0])[0])
    with pytest.raises(RefusalError, match="wrong proof"):
        one.take(link_frame(READY, put_credentials(B) + bytes(32)))
    assert asked == []


@pytest.mark.parametrize("boot", [MOST_BOOT + 1, (1 << 63) - 1])
def test_a_boot_that_no_log_can_have_is_refused(boot: int) -> None:
    node = Node()
    with pytest.raises(PeerError, match="no correct peer"):
        shake(opener(replace(HELLO_OF_A, identity=replace(A, boot=boot))), acceptor(node=node))
    assert node.asked == ["claimed a"]
    with pytest.raises(UsageError, match="boot"):
        replace(A, boot=boot).check()


def test_a_link_must_say_whom_it_means() -> None:
    with pytest.raises(PeerError, match="no node in particular"):
        shake(opener(replace(HELLO_OF_A, target="")), acceptor())


@pytest.mark.parametrize("name", ["", "x" * 256, "a\nb", "\x1b[2J"])
def test_a_name_that_cannot_be_shown_is_refused(name: str) -> None:
    with pytest.raises(PeerError, match="name"):
        shake(opener(replace(HELLO_OF_A, identity=replace(A, name=name))), acceptor())
    with pytest.raises(UsageError, match="name"):
        replace(A, name=name).check()


def test_bytes_left_over_are_refused() -> None:
    with pytest.raises(PeerError, match="too many"):
        acceptor().take(opener().start()[0] + b"\x00")
    one = opener()
    with pytest.raises(PeerError, match="too many"):
        one.take(acceptor().take(one.start()[0])[0] + b"\x00")


def test_a_reason_cannot_act_on_a_terminal_and_is_not_endless() -> None:
    text = str(read_refusal(refusal("bad \x1b[2J\n" + "x" * 10_000)))
    assert text.isprintable()
    assert len(text) < 1100


def test_welcome_is_the_only_thing_an_opener_takes_first() -> None:
    with pytest.raises(PeerError, match=f"where {WELCOME} was due"):
        opener().take(link_frame(READY))
