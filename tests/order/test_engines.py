"""Every ordering engine, and the literal twins, under the conformance kit."""

import pytest
from support.conformance import ENGINE_CHECKS, check_reduced
from support.literal import literal_graph, literal_vector
from support.schedules import portrait

from thence.core.dots import pack
from thence.core.errors import PeerError, UsageError
from thence.core.message import Message
from thence.order.engine import Engine
from thence.order.engines import ENGINES, engine

ORDERING = [kind for kind in ENGINES.values() if kind.name != "none"]
TWINS = [literal_vector(), literal_graph()]
REDUCING = [ENGINES["graph"], literal_graph()]


def name_of(kind: Engine) -> str:
    return kind.name


@pytest.mark.parametrize("check", ENGINE_CHECKS)
@pytest.mark.parametrize("kind", ORDERING + TWINS, ids=name_of)
def test_engine_conforms(kind: Engine, check: str) -> None:
    ENGINE_CHECKS[check](kind)


@pytest.mark.parametrize("kind", REDUCING, ids=name_of)
def test_contexts_are_transitive_reductions(kind: Engine) -> None:
    check_reduced(kind)


@pytest.mark.parametrize("check", ["two queues", "callbacks", "reversed"])
def test_the_kit_refuses_an_engine_that_orders_nothing(check: str) -> None:
    with pytest.raises(AssertionError, match=r"order|twice"):
        ENGINE_CHECKS[check](ENGINES["none"])


def test_engines_are_found_by_name() -> None:
    assert engine("graph") is ENGINES["graph"]
    with pytest.raises(UsageError, match="there is graph, vector, vector-e2e, none"):
        engine("alphabetic")


@pytest.mark.parametrize("kind", ENGINES.values(), ids=name_of)
def test_an_engine_is_made_for_a_member_of_the_group(kind: Engine) -> None:
    with pytest.raises(ValueError, match="member 3 of 3"):
        kind.tagger(3, 3)


@pytest.mark.parametrize("kind", ORDERING, ids=name_of)
def test_members_are_admitted_in_order(kind: Engine) -> None:
    with pytest.raises(ValueError, match="admitted in order"):
        kind.orderer(0, 2).admit(3)


@pytest.mark.parametrize(
    ("kind", "context"),
    [(ENGINES["graph"], (pack(5, 1),)), (ENGINES["vector"], (0, 1, 0, 1))],
    ids=["graph", "vector"],
)
def test_a_stamp_that_names_a_stranger_is_refused(kind: Engine, context: tuple[int, ...]) -> None:
    """To deliver such a message would be to deliver it before a cause that is not even known."""
    orderer = kind.orderer(0, 3)
    before = portrait(orderer)
    with pytest.raises(PeerError, match="member"):
        orderer.receive(Message(pack(1, 1), context, b""), 1, 0)
    assert portrait(orderer) == before
