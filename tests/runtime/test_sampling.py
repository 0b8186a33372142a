"""Unit: what a node says of itself in its trace, and that it never costs more than itself."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from thence.runtime.logs import StructuredLog
from thence.runtime.sampling import METRICS, TRACED, Sampling
from thence.runtime.status import LogStatus, MemberStatus, Status

STATUS = Status(
    name="a", cluster="c", pid=1, uptime_s=1.0, state="running", boot=1, sent=3, delivered=4, inbox=0, held=2,
    unstable=5, oldest_unstable_s=None, holding_stability_back=[],
    members=[
        MemberStatus(name="b", address="", link="up", lag=7, sent_bytes=100, received_bytes=10),
        MemberStatus(name="c", address="", link="up", lag=1, sent_bytes=11, received_bytes=1),
    ],
    log=LogStatus(bytes=99, head=0, tail=0, durable=0, sync="always", syncs=6),
)  # fmt: skip


class Said(StructuredLog):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, event: str, **fields: object) -> None:
        self.warnings.append(event)


def sampling(folder: Path, log: StructuredLog | None = None) -> Sampling:
    return Sampling(folder, "a", 1_000_000, lambda: 42, lambda: STATUS, log or Said())


SAMPLE = len(METRICS) + len(TRACED)
"""Rows of one."""


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_sample_tells_levels_and_counters(tmp_path: Path) -> None:
    one = sampling(tmp_path)
    one.sample()
    one.fault("cut", ["b", "c"])
    one.fault("slow", ["b"])
    one.fault("mend", ["b"])
    told = rows(tmp_path / "a~metrics-1.jsonl")
    values = {row["origin"]: row["seq"] for row in told if row["kind"] == "metric"}
    assert values.keys() == {*METRICS, *TRACED}
    assert values.pop("memory_bytes") > 0
    assert values == {
        "disk_bytes": 99, "unstable_messages": 5, "held_messages": 2, "lag_messages": 7,
        "sent_bytes_total": 111, "received_bytes_total": 11, "log_syncs_total": 6, "delivered_bytes_total": 0,
        "state_bytes_total": 0,
    }  # fmt: skip
    assert [(row["kind"], row["origin"]) for row in told[SAMPLE:]] == [
        ("cut", "b"), ("cut", "c"), ("heal", "b"),
    ]  # fmt: skip
    assert {row["at_us"] for row in told} == {42}


def test_positions_never_meet_those_of_steps_or_of_other_starts(tmp_path: Path) -> None:
    for _ in range(2):
        sampling(tmp_path).sample()
    first, second = (rows(tmp_path / f"a~metrics-{number}.jsonl") for number in (1, 2))
    places = [row["pos"] for row in (*first, *second)]
    assert places == sorted(set(places))
    assert all(place >> 39 & 1 for place in places), "steps count from 0 on in each boot"


def test_a_disk_that_takes_no_samples_costs_no_more_than_them(tmp_path: Path) -> None:
    log = Said()
    one = sampling(tmp_path, log)
    os.close(one._file.descriptor)
    one.sample()
    one.sample()
    one.fault("cut", ["b"])
    assert log.warnings == ["no more samples in the trace"]


def test_samples_come_again_and_again_and_once_more_at_the_end(tmp_path: Path) -> None:
    async def a_while() -> None:
        one = Sampling(tmp_path, "a", 1, lambda: 42, lambda: STATUS, Said())
        one.start()
        while len(rows(tmp_path / "a~metrics-1.jsonl")) < 3 * SAMPLE:
            await asyncio.sleep(0)
        before = len(rows(tmp_path / "a~metrics-1.jsonl"))
        one.close()
        assert len(rows(tmp_path / "a~metrics-1.jsonl")) == before + SAMPLE

    asyncio.run(a_while())
