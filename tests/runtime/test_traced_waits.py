"""What the trace of a live group tells of a message that waits for its causes."""

from pathlib import Path

from support.changing import Changing, events_of, judged, one_waits
from support.open_nodes import run


def test_a_message_that_waits_for_its_cause_leaves_a_row(tmp_path: Path) -> None:
    trace, waited = tmp_path / "trace", list[tuple[str, int]]()

    async def story() -> None:
        waited.append(await one_waits(Changing(tmp_path, "abc"), trace))

    run(story)
    [message] = waited
    about = [row for row in events_of(trace) if row.node == "c" and (row.origin, row.seq) == message]
    kinds = {row.kind: row for row in reversed(about)}
    held, came = kinds["hold"], kinds["deliver"]
    assert held.pos < came.pos
    assert held.at_us is not None
    assert came.at_us is not None
    assert held.at_us <= came.at_us
    assert judged(trace).flagged == ()
