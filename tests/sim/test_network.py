"""Unit: latencies and intervals as sections 8.1.1 to 8.1.3 describe them."""

from pathlib import Path
from random import Random
from statistics import fmean

import pytest

from thence.core.errors import UsageError
from thence.sim.faults import apart, between
from thence.sim.network import latency, read_matrix
from thence.sim.settings import SimSettings
from thence.sim.workload import intervals

NO_LINKS: frozenset[tuple[int, int]] = frozenset()


def test_weibull_latency_has_the_documents_mean_and_truncation() -> None:
    settings = SimSettings(nodes=2, latency_ms=100.0)
    sample = latency(settings, NO_LINKS, Random(1))
    samples = [sample(0, 1) for _ in range(50_000)]
    assert fmean(samples) == pytest.approx(113_290, rel=0.005)
    assert min(samples) >= 100_000
    assert max(samples) == pytest.approx(100_000 * (1 + 3 * 0.15), abs=1)


def test_truncation_applies_at_large_scales() -> None:
    settings = SimSettings(nodes=2, latency_ms=10.0, weibull_scale=1.0, weibull_shape=0.5)
    sample = latency(settings, NO_LINKS, Random(1))
    assert max(sample(0, 1) for _ in range(1000)) == 40_000


def test_fixed_latency_is_fixed() -> None:
    sample = latency(SimSettings(nodes=2, latency="fixed", latency_ms=2.5), NO_LINKS, Random(1))
    assert {sample(0, 1) for _ in range(10)} == {2_500}


def test_slow_links_are_slower_fixed_and_no_others(tmp_path: Path) -> None:
    sample = latency(SimSettings(nodes=3, latency_ms=10.0), apart([0], [1]), Random(1))
    assert {sample(0, 1) for _ in range(10)} == {sample(1, 0)} == {100_000}
    assert all(sample(0, 2) < 20_000 for _ in range(10))


def test_matrix_rows_send_and_columns_receive(tmp_path: Path) -> None:
    path = tmp_path / "matrix.csv"
    path.write_text("0,1,2\n3,0,4.5\n\n6,7,0\n")
    sample = latency(SimSettings(nodes=3, latency="fixed", latency_matrix=path), NO_LINKS, Random(1))
    assert [sample(0, 1), sample(1, 0), sample(1, 2), sample(2, 1)] == [1_000, 3_000, 4_500, 7_000]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0,1\n1,0\n", "2 rows for 3 nodes"),
        ("0,1,2\n1,0\n2,1,0\n", "row 2"),
        ("0,1,2\n1,0,x\n2,1,0\n", "row 2"),
        ("0,1,2\n1,0,-3\n2,1,0\n", "row 2"),
        ("0,1,2\n1,0,nan\n2,1,0\n", "row 2"),
    ],
)
def test_a_bad_matrix_is_refused_by_row(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "matrix.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match=complaint):
        read_matrix(path, 3)


def test_a_missing_or_binary_matrix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_matrix(tmp_path / "none.csv", 3)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not a text file"):
        read_matrix(tmp_path / "binary", 3)


def test_poisson_intervals_have_their_mean_and_truncation() -> None:
    interval = intervals(SimSettings(interval_ms=100.0), Random(1))
    samples = [interval() for _ in range(50_000)]
    # Truncating at four means takes e^-4 of a mean away.
    assert fmean(samples) == pytest.approx(100_000 * (1 - 0.0183), rel=0.01)
    assert max(samples) == 400_000


def test_fixed_intervals_are_fixed() -> None:
    interval = intervals(SimSettings(interval="fixed", interval_ms=7.0), Random(1))
    assert {interval() for _ in range(5)} == {7_000}


def test_links_between_and_apart() -> None:
    assert between([0, 1], [2]) == {(0, 2), (1, 2)}
    assert apart([0], [1, 2]) == {(0, 1), (0, 2), (1, 0), (2, 0)}
