"""The experiments of the causal separators document, tiny: points, tables and figures, without Spark."""

from dataclasses import replace
from pathlib import Path

import pytest

from thence.experiments import sep, sep_figures
from thence.experiments.run import EXPERIMENTS, points_of


@pytest.mark.parametrize("experiment", sorted(sep.EXPERIMENTS))
def test_an_experiment_from_points_to_tables_and_figures(experiment: str, tmp_path: Path) -> None:
    assert EXPERIMENTS[experiment].title == sep.TITLES[experiment]
    points = [
        replace(point, messages=3)
        for point in points_of(experiment, quick=True)
        if isinstance(point, sep.Point)
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
