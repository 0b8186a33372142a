"""Unit: what a node counts, and that what is shown can be parsed by any reader of the format."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.controlled import FakeNode

from thence.core.errors import UsageError
from thence.runtime.metrics import Histogram, Registry

LABELS = r'[a-z]+="([^"\\\n]|\\[\\n"])*"'
SAMPLE = re.compile(rf"[a-z_]+(\{{{LABELS}(,{LABELS})*\}})? ([-+.e0-9]+|NaN|[-+]Inf)")


def samples(page: str) -> dict[str, float]:
    """The samples of a page, each line checked against the grammar of the format."""
    found: dict[str, float] = {}
    kinds: dict[str, str] = {}
    # Only a line feed ends a line there; a label may hold other characters that end lines elsewhere.
    for line in page.removesuffix("\n").split("\n"):
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in kinds, f"{name} is declared twice"
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            assert SAMPLE.fullmatch(line), f"not a sample: {line!r}"
            sample, _, value = line.rpartition(" ")
            assert sample not in found, f"{sample} is shown twice"
            name = sample.partition("{")[0]
            assert name in kinds or name.rpartition("_")[0] in kinds, f"{name} has no TYPE"
            found[sample] = float(value)
    assert page.endswith("\n")
    return found


def test_what_was_counted_is_shown_under_its_labels() -> None:
    registry = Registry()
    registry.counter("thence_sent_messages_total", "Sent.").add(3)
    lag = registry.gauges("thence_peer_lag_messages", "Lag.", "peer")
    lag.of("b").set(5)
    lag.of("c").set(0.25)
    assert registry.render() == (
        "# HELP thence_sent_messages_total Sent.\n"
        "# TYPE thence_sent_messages_total counter\n"
        "thence_sent_messages_total 3\n"
        "# HELP thence_peer_lag_messages Lag.\n"
        "# TYPE thence_peer_lag_messages gauge\n"
        'thence_peer_lag_messages{peer="b"} 5\n'
        'thence_peer_lag_messages{peer="c"} 0.25\n'
    )


def test_a_histogram_counts_a_value_at_a_bound_below_it_and_shows_seconds() -> None:
    registry = Registry()
    latency = registry.histogram(
        "thence_delivery_latency_seconds", "Latency.", bounds_us=(100, 1_000, 2_500_000)
    )
    for value in (100, 101, 1_000, 9_000_000):
        latency.observe(value)
    assert registry.render().splitlines()[2:] == [
        'thence_delivery_latency_seconds_bucket{le="0.0001"} 1',
        'thence_delivery_latency_seconds_bucket{le="0.001"} 3',
        'thence_delivery_latency_seconds_bucket{le="2.5"} 3',
        'thence_delivery_latency_seconds_bucket{le="+Inf"} 4',
        "thence_delivery_latency_seconds_sum 9.001201",
        "thence_delivery_latency_seconds_count 4",
    ]


@given(st.lists(st.integers(0, 10**9)))
def test_a_batch_counts_like_its_values_one_by_one(values: list[int]) -> None:
    one, other = Histogram(), Histogram()
    for value in values:
        one.observe(value)
    other.observe_all(values)
    assert list(one.lines("x", "")) == list(other.lines("x", ""))
    assert one.count == len(values)


def test_a_gauge_that_is_read_is_read_at_each_scrape() -> None:
    registry = Registry()
    depth = [1, 2]
    registry.gauge("thence_inbox_messages", "Depth.", read=lambda: len(depth))
    assert samples(registry.render())["thence_inbox_messages"] == 2
    depth.clear()
    assert samples(registry.render())["thence_inbox_messages"] == 0


@given(st.text())
def test_no_name_of_a_peer_breaks_the_page(name: str) -> None:
    registry = Registry()
    registry.gauges("thence_link_up", "Up.", "peer").of(name).set(1)
    page = registry.render()
    assert page.count("\n") == 3
    [sample] = samples(page)
    shown = sample.partition('"')[2].rpartition('"')[0]
    escapes = {r"\\": "\\", r"\n": "\n", r"\"": '"'}
    unescaped = re.sub(r"\\[\\n\"]", lambda match: escapes[match[0]], shown)
    assert unescaped == name.encode(errors="replace").decode()


@pytest.mark.parametrize(
    ("value", "shown"),
    [(float("inf"), "+Inf"), (float("-inf"), "-Inf"), (float("nan"), "NaN"), (1e300, "1e+300")],
)
def test_numbers_are_written_as_prometheus_reads_them(value: float, shown: str) -> None:
    registry = Registry()
    registry.gauge("thence_inbox_messages", "x").set(value)
    assert registry.render().endswith(f" {shown}\n")


def test_names_that_mislead_are_refused() -> None:
    registry = Registry()
    registry.counter("thence_sent_messages_total", "x")
    for wrong in (
        lambda: registry.counter("thence_sent_messages", "no _total"),
        lambda: registry.counter("thence_sent_messages_total", "twice"),
        lambda: registry.gauge("inbox", "not ours"),
        lambda: registry.gauges("thence_lag", "a label of the format", "le"),
        lambda: registry.histogram("thence_latency_us", "not the base unit"),
        lambda: registry.histogram("thence_latency_seconds", "bounds that sink", bounds_us=(2, 1)),
        lambda: registry.gauges("thence_lag_messages", "one label", "peer").of("b", "c"),
    ):
        with pytest.raises(UsageError):
            wrong()


def test_a_node_shows_what_its_status_says() -> None:
    node = FakeNode("a", unstable=9, holding=["c"])
    node.instruments.delivery.observe(700)
    shown = samples(node.metrics())
    assert shown["thence_unstable_messages"] == 9
    assert shown["thence_oldest_unstable_seconds"] == 4.25
    assert shown["thence_log_unsynced_records"] == 2
    assert shown['thence_link_up{peer="b"}'] == 1
    assert shown['thence_peer_lag_messages{peer="c"}'] == 5
    assert shown['thence_stability_held_back{peer="c"}'] == 1
    assert shown['thence_stability_held_back{peer="b"}'] == 0
    assert shown["thence_delivery_latency_seconds_count"] == 1
    assert 'thence_link_up{peer="a"}' not in shown, "a node has no link to itself"
    assert shown["process_resident_memory_bytes"] > 1_000_000
    assert shown["process_cpu_seconds_total"] > 0


def test_a_member_that_is_gone_is_not_shown_any_more() -> None:
    node = FakeNode("a")
    assert 'peer="c"' in node.metrics()
    node.members = ("a", "b")
    assert 'peer="c"' not in node.metrics()


def test_the_page_for_people_names_every_metric_with_its_kind() -> None:
    page = (Path(__file__).parents[2] / "docs" / "OBSERVABILITY.md").read_text(encoding="utf-8")
    told: dict[str, str] = {}
    for line in page.splitlines():
        names, *rest = line.strip("| ").split(" | ")
        found = re.findall(r"`((?:thence|process)_[a-z_]+)`", names)
        if line.startswith("|") and found:
            told |= dict.fromkeys(found, rest[0])
    kinds = re.findall(r"^# TYPE (\S+) (\S+)$", FakeNode().metrics(), re.MULTILINE)
    assert told == dict(kinds)
