"""Pages: one file that holds everything, escaped, with the verdict first."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from thence.cli.sim import seeds_told
from thence.cli.verify import write_page
from thence.pages.charts import Chart, save_all
from thence.pages.measured import metrics_page, natural
from thence.pages.page import MOST_CARDS, Page, table
from thence.pages.text import duration, number, significant
from thence.pages.timeline import Span, Timeline, TimelinePoint, draw
from thence.pages.verdicts import PLANTED, verdict_page, verdicts
from thence.pipeline.metrics.measured import Distribution, Measured, RunMetrics
from thence.pipeline.report import Report, RunReport
from thence.trace.schema import VERDICTS


def chart(title: str = "Lag & <more>") -> Chart:
    points = [TimelinePoint(0.0, "a", 1.0, 2.0), TimelinePoint(1.0, "a", 3.0)]
    return draw(
        Timeline(title=title, label="ms", points=points, colours={"a": "#000"}), [Span(0, 1, "cut")], 2.0
    )


def test_a_page_tells_its_verdict_first_and_loads_nothing() -> None:
    page = Page("a < b", "says & says", "it holds", True, "thence x --seed 3", seed="3")
    page.figures("Figures", [chart()])
    html = page.html()
    assert "<h1>a &lt; b</h1>" in html
    assert html.index("it holds") < html.index("<figure>") < html.index("<script>")
    assert '<p class="verdict ok">it holds</p>' in html
    assert "Made with <code>thence x --seed 3</code>. Seed: 3." in html
    assert "<figcaption>Lag &amp; &lt;more&gt;</figcaption>" in html
    assert not re.search("<(script|img|link|iframe) ", html.split("<script>")[0])
    [found] = re.findall(r"const specs = (.*);\n", html)
    assert "title" not in json.loads(found.replace("<\\/", "</"))[0]


def test_what_is_marked_close_together_is_told_at_two_heights_and_ends_at_the_edge() -> None:
    points = [TimelinePoint(0.0, "a", 1.0)]
    spans = [Span(9.5, 9.6, "e leaves"), Span(1, 1.1, "e joins"), Span(1.2, 3, "c cut off")]
    spec = draw(Timeline(title="t", label="", points=points, colours={"a": "#000"}), spans, 10.0).spec
    texts = [layer for layer in spec["layer"] if layer["mark"]["type"] == "text"]
    told = [spec["datasets"][layer["data"]["name"]][0]["what"] for layer in texts]
    assert told == ["e joins", "c cut off", "e leaves"]
    assert len({layer["encoding"]["y"]["value"] for layer in texts[:2]}) == 2
    assert [layer["mark"]["align"] for layer in texts] == ["left", "left", "right"]


def test_a_page_without_figures_needs_no_scripts() -> None:
    assert "<script" not in Page("t", "s", "v", False, "c").html()


def test_figures_are_saved_for_papers(tmp_path: Path) -> None:
    save_all([chart()], tmp_path)
    assert (tmp_path / "figures" / "lag-more.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "figures" / "lag-more.svg").read_text(encoding="utf-8")


def test_tables_escape_what_they_show() -> None:
    shown = table([{"a": "<x>", "n": "1"}], {"n": "n"})
    assert '<td class="" data-of="a">&lt;x&gt;</td><td class="n" data-of="n">1</td>' in shown


def test_planted_faults_are_told_from_failures() -> None:
    shown = verdicts(
        {"good": judged(lost=2), "planted": judged(order=3, tag=1)}, {"planted": ("order", "gap")}
    )
    assert '<td class="n planted" data-of="order">3 ✓</td>' in shown
    assert '<td class="n bad" data-of="gap">0 ✗</td>' in shown, "it was to be found"
    assert '<td class="n bad" data-of="tag">1</td>' in shown, "that was not planted"
    assert '<td class="n bad" data-of="lost">2</td>' in shown
    assert PLANTED in shown
    assert PLANTED not in verdicts({"good": judged()})


def test_a_short_table_becomes_cards_on_a_phone_and_a_long_one_scrolls() -> None:
    assert 'class=" cards"' in table([{"a": "x"}] * MOST_CARDS, {})
    assert "cards" not in table([{"a": "x"}] * (MOST_CARDS + 1), {})


@pytest.mark.parametrize(
    ("us", "shown"), [(None, "–"), (0, "0 µs"), (999, "999 µs"), (1500, "1.5 ms"), (2_345_678, "2.346 s")]
)
def test_durations_are_read_in_their_unit(us: int | None, shown: str) -> None:
    assert duration(us) == shown


def test_numbers() -> None:
    assert (number(1234.0), number(1.234), significant(1234.5), significant(0.12345)) == (
        "1,234", "1.23", "1,234", "0.123",
    )  # fmt: skip
    assert sorted(["n10", "n2", "a"], key=natural) == ["a", "n2", "n10"]


def judged(name: str = "", **violations: int) -> RunReport:
    counts = dict.fromkeys(VERDICTS, 0) | violations
    examples: list[dict[str, Any]] = [
        {"kind": kind, "node": "<n>", "pos": 3, "message": "a:1", "missing": "b:2"} for kind in violations
    ]
    return RunReport(name, "", 3, 5, 10, 0, counts, examples)


def test_the_page_of_a_verdict_names_the_seed_that_its_run_is_named_after(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    write_page(Report(True, 0, [judged("partition-7"), judged("cluster-3")]), page, "t", False)
    assert " Seed: 7 (scenario partition).</p>" in page.read_text()


def test_seeds_are_told_by_names_of_scenarios_alone() -> None:
    assert seeds_told(["edge-paths-2", "storm-1", "storm-1"]) == "2 (scenario edge-paths), 1 (scenario storm)"
    assert seeds_told(["", "storm", "storm-", "storm-x", "mine-1", "storm-²"]) == ""
    assert seeds_told([f"storm-{seed}" for seed in range(22)]).endswith("19 (scenario storm) and 2 more")


def test_the_page_of_a_verdict_shows_what_was_found() -> None:
    html = verdict_page(Report(True, 0, [judged()]), "thence verify t", "t").html()
    assert "1 run, 15 events: no violation of any kind." in html
    assert "Examples" not in html
    page = verdict_page(Report(False, 2, [judged("x", order=4), judged("y")]), "c", "t", still_open=True)
    assert page.verdict.startswith("2 runs, 30 events: 4 violations. The system still ran")
    assert "2 torn" in page.verdict
    assert [one.title for one in page.charts] == ["Events", "Violations"]
    assert "&lt;n&gt;" in page.html()
    assert "missing b:2" in page.html()


def measured(name: str = "") -> RunMetrics:
    found = Distribution(10, 5.0, 4, 8, 9, 10)
    return RunMetrics(
        run=name, group="", nodes=2, sends=5, deliveries=10, stables=0, holds=0, duplicates=0,
        from_us=1_000_000, until_us=9_000_000, distributions={"delivery": found, "entries": found},
        levels={}, totals={},
        bytes_per_delivery=None, metadata_per_delivery=None, synchronisations=None,
        stabilisation=[{"at_us": 0, "nodes": 2, "healed_us": 5, "settled_us": None, "changes": 3}],
        changes=[{"change": "join", "node": "b", "about": "", "at_us": 5, "took_us": None}], evictions=[],
        catch_up=[], convergence=[{"at_us": 5, "late_deliveries": 3, "took_us": 1500}],
        left_out={"stability": "no `stable` rows"}, doubts={"untimed": 3},
    )  # fmt: skip


def test_the_page_of_metrics_draws_what_is_told_and_names_what_is_not() -> None:
    scope = {"run": "", "group": ""}
    ranks = {"count": 1, "mean": 1.0, "p50": 0, "p90": 8, "p99": 9, "max": 9}
    tables: dict[str, list[dict[str, Any]]] = {
        "delivery_by_bin": [{**scope, "start_us": at, **ranks} for at in (1_000_000, 2_000_000)],
        "delivery_by_member": [{**scope, "node": "b", **ranks}],
        "delivery_by_link": [{**scope, "origin": "a", "node": "b", **ranks}],
        "samples": [
            {**scope, "node": "a", "name": name, "at_us": at, "value": at}
            for name in ("disk_bytes", "log_syncs_total")
            for at in (1_000_000, 2_000_000, 3_000_000)
        ],
    }
    page = metrics_page(Measured(0, [measured()]), tables, "thence metrics t", "t")
    assert [one.title for one in page.charts] == [
        "Send to delivery, by when it was sent", "Send to delivery, by member", "Send to delivery, by link",
        "Disk, by member", "Log syncs, by member",
    ]  # fmt: skip
    html = page.html()
    assert "A delivery took 4 µs (p50), 9 µs (p99), 10 µs at most." in html
    for words in ("no `stable` rows", "untimed", "next delivery", "1.5 ms", "one tree after"):
        assert words in html


def test_many_runs_are_compared() -> None:
    page = metrics_page(Measured(0, [measured(str(k)) for k in range(6)]), {}, "c", "t")
    assert [one.title for one in page.charts] == ["Send to delivery, by run"]
