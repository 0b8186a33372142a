"""`thence bench trees-live`: what it reads from traces, and that it runs on real nodes."""

import json
from pathlib import Path

import pytest

from thence.cli.main import main
from thence.core.errors import ThenceError
from thence.lab.bench.trees_live import Happening, LiveRows, figures

SECOND = 1_000_000
OTHERS = frozenset("ab")


def rows(folder: Path, latency_us: int, then_us: int) -> LiveRows:
    """a sends to b ten times a second for eight seconds, and c now and then; from the fourth on it takes
    longer. c sends first at 4.1 s."""
    lines = []
    for tenth in range(80):
        at_us, took_us = tenth * SECOND // 10, latency_us if tenth < 40 else then_us
        sent = {"origin": "a", "seq": tenth + 1}
        lines.append({"node": "a", "kind": "send", **sent, "at_us": at_us})
        lines.append({"node": "b", "kind": "deliver", **sent, "at_us": at_us + took_us})
        if at_us >= 4 * SECOND:
            lines.append({"node": "c", "kind": "deliver", **sent, "at_us": at_us + 5 * took_us})
    lines.append({"node": "c", "kind": "send", "origin": "c", "seq": 2, "at_us": 41 * SECOND // 10})
    for node, late_us in (("a", 3_000), ("b", 9_000)):
        told = {"node": node, "kind": "deliver", "origin": "c", "seq": 2}
        lines.append({**told, "at_us": 41 * SECOND // 10 + late_us})
    (folder / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return LiveRows(folder)


def test_latencies_are_those_of_the_others_before_and_after(tmp_path: Path) -> None:
    found = rows(tmp_path, 500, 1500)
    happened = [Happening(what, "c", 4 * SECOND, OTHERS, 0.1) for what in ("join", "leave", "kill")]
    told = {record.name: (record.value, record.baseline) for record in figures(found, happened)}
    assert told["trees-live.kill"] == told["trees-live.leave.worst"] == (1.5, 0.5)
    assert told["trees-live.join.heard"] == (9.0, 0.5), "the last of the others counts"
    assert told["trees-live.join"] == (100.0, 7.5)


def test_what_an_other_member_never_got_is_no_figure(tmp_path: Path) -> None:
    found = rows(tmp_path, 500, 500)
    join = Happening("join", "c", 4 * SECOND, OTHERS | {"z"}, 0.1)
    with pytest.raises(ThenceError, match="'z'"):
        found.heard_ms(join)
    with pytest.raises(ThenceError, match="no member delivered"):
        found.latency_ms(60, 61, join)


def test_it_runs_on_real_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "trees-live", "--quick", "--json"]) == 0
    found = {record["name"]: record for record in json.loads(capsys.readouterr().out)}
    assert {f"trees-live.{what}" for what in ("join", "join.heard", "leave", "kill")} <= found.keys()
    assert all(record["value"] > 0 and record["baseline"] > 0 for record in found.values())
