"""The experiments of the causal separators document, tiny: points, tables and figures, without Spark."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from thence.experiments import sep, sep_figures
from thence.experiments.run import EXPERIMENTS, points_of


@pytest.mark.parametrize("experiment", sorted(sep.EXPERIMENTS))
def test_an_experiment_from_points_to_tables_and_figures(experiment: str, tmp_path: Path) -> None:
    assert EXPERIMENTS[experiment].title == sep.TITLES[experiment]
    points = [
        replace(point, messages=3)
        for point in points_of(experiment, quick=True)
        if isinstance(point, sep.SepPoint)
    ]
    assert len({point.name for point in points}) == len(points)
    results = [sep.measure(point, tmp_path / point.name) for point in points]
    assert all(result["complete"] for result in results)
    assert all(result["hops"] >= result["sends"] for result in results)
    charts = sep_figures.draw(experiment, results)
    assert len({chart.file_name for chart in charts}) == len(charts) > 0
    table, rows = sep_figures.beside(experiment, results)
    assert table.count("<tr") == len(rows) + 1
    if experiment == sep.TABLE:
        assert [row["the document"] for row in rows] == [
            "3.55",
            "2.70",
            "2.10",
            "–",
            "3.46",
            "3.09",
            "2.76",
            "–",
        ]


def test_points_at_full_size_have_names_of_their_own() -> None:
    for experiment in sep.EXPERIMENTS:
        points = sep.points(experiment, quick=False)
        assert len({point.name for point in points}) == len(points)
        assert all(point.cost > 0 for point in points)


def test_lines_of_a_distribution_come_down_again_and_differ_in_more_than_colour() -> None:
    """At p3 two of them are the same."""
    shown = {"history p3": {"1": 9, "2": 91}, "stamps": {"1": 300, "9": 1}}
    results = [
        {"topology": topology, "where": where, "histograms": shown}
        for topology in sep.TOPOLOGY.values()
        for where in [*sep.PLACES][:3]
    ]
    for chart in sep_figures.draw(sep.FIGURES, results):
        [values] = chart.spec["datasets"].values() if "datasets" in chart.spec else [_values(chart.spec)]
        for where in [*sep.PLACES][:3]:
            line = [row["share"] for row in values if row["which"] == where]
            assert line[-1] == 0
        assert '"strokeDash"' in json.dumps(chart.spec)


def _values(spec: Any) -> Any:
    return spec["data"]["values"] if "data" in spec else spec["layer"][0]["data"]["values"]
