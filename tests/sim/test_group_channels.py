"""The stages of a channel: schedules have all of its ways but one, which a test by hand has."""

from support.linked import Linked
from support.schedules_closing import CLOSING
from support.schedules_leaving import LEAVING
from support.taken import taken

from thence.core.groups import LEAVE
from thence.core.stages import Transition
from thence.replica.group.channel.stages import CHANNEL, ChannelStage

ALL = CLOSING | LEAVING

AGAIN = Transition(ChannelStage.HELD, "its member departs", ChannelStage.OPEN)


def test_schedules_have_all_of_its_ways_but_one() -> None:
    with taken(CHANNEL) as seen:
        for schedule in ("suspects_have_moved_on", "joiner_behind_a_slow_program"):
            assert ALL[schedule]() == ""
    assert {*CHANNEL.rows} - seen == {AGAIN}


def test_a_suspect_whose_leave_has_come_is_sent_what_it_lacks_again() -> None:
    """It waits for nothing else."""
    play = Linked("abc").together("abc")
    member = play.member("a")
    link = member.links.to("c")
    assert link is not None

    def stage() -> ChannelStage:
        member.links.reconsider()
        return link.stage

    assert stage() is ChannelStage.OPEN
    member.view.suspect(["c"])
    assert stage() is ChannelStage.HELD
    with taken(CHANNEL) as seen:
        member.view.deliver("c", member.ledger.count("c") + 1, LEAVE, (), member.ledger.count)
        assert stage() is ChannelStage.OPEN
    assert seen == {AGAIN}
