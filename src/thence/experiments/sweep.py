"""A sweep: points as Spark tasks, each of which leaves its result, or why it failed, in a file of its own.

A sweep that was interrupted goes on where it stopped: points that are finished are not run again, those that
failed are. A point that fails leaves the others alone. All of them write into one folder, which on a cluster
must be one that every machine sees.
"""

import json
import shutil
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pyspark.sql import SparkSession

from thence.pipeline.tasks import run_points

Result = dict[str, Any]


class Point(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def cost(self) -> int:
        """About how long it takes, in no unit."""
        ...

    @property
    def seed(self) -> int: ...


Measure = Callable[[Any, Path], Result]
"""Runs a point with its trace in this folder, and tells what came of it."""


class Failure(NamedTuple):
    """A point that did not end."""

    name: str
    seed: int
    error: str
    where: str
    """The end of the traceback."""


class Sweep:
    def __init__(self, points: Sequence[Point], out: Path, measure: Measure) -> None:
        self.points = points
        self._folder = out.resolve()
        self._measure = measure

    def run(self, spark: SparkSession) -> None:
        """Everything that is not finished, the long ones first."""
        (self._folder / "points").mkdir(parents=True, exist_ok=True)
        todo = sorted(self.unfinished(), key=lambda point: -point.cost)
        folder, measure = self._folder, self._measure

        def work(point: Point) -> Result:
            return attempt(point, folder, measure)

        run_points(spark, todo, work)

    def unfinished(self) -> list[Point]:
        return [point for point in self.points if not _result(self._folder, point).exists()]

    def results(self) -> list[Result]:
        """Of the points that are finished."""
        files = [_result(self._folder, point) for point in self.points]
        return [json.loads(file.read_text()) for file in files if file.exists()]

    def failures(self) -> list[Failure]:
        files = [_failure(self._folder, point) for point in self.points]
        return [Failure(**json.loads(file.read_text())) for file in files if file.exists()]


def attempt(point: Point, folder: Path, measure: Measure) -> Result:
    """Run one point; whatever goes wrong with it is told of it alone."""
    trace = folder / "traces" / point.name
    shutil.rmtree(trace, ignore_errors=True)
    _failure(folder, point).unlink(missing_ok=True)
    try:
        result = measure(point, trace)
    except Exception as error:
        shutil.rmtree(trace, ignore_errors=True)  # half a trace cannot be judged
        where = traceback.format_tb(error.__traceback__)[-1].strip()
        failure = Failure(point.name, point.seed, f"{type(error).__name__}: {error}", where)
        _write(_failure(folder, point), failure._asdict())
        return {"name": point.name}
    _write(_result(folder, point), result)
    return {"name": point.name}


def _result(folder: Path, point: Point) -> Path:
    return folder / "points" / f"{point.name}.json"


def _failure(folder: Path, point: Point) -> Path:
    return folder / "points" / f"{point.name}.failed"


def _write(path: Path, what: Result) -> None:
    """Whole, or not at all."""
    partial = path.with_name(f".{path.name}")
    partial.write_text(json.dumps(what))
    partial.replace(path)


class Estimate:
    """How long a sweep will take, from what the points cost that were finished since it began."""

    def __init__(self, points: Iterable[Point], finished: Iterable[str], now_s: float) -> None:
        self._cost = {point.name: point.cost for point in points}
        self._before = set(finished)
        self._begun_s = now_s

    def left_s(self, finished: Iterable[str], now_s: float) -> float | None:
        """None: nothing is finished yet that one could go by."""
        done = set(finished)
        spent = sum(self._cost.get(name, 0) for name in done - self._before)
        left = sum(cost for name, cost in self._cost.items() if name not in done)
        return (now_s - self._begun_s) * left / spent if spent else None


def finished(out: Path) -> list[str]:
    """The points that left a result, or a failure, by now."""
    folder = out / "points"
    return [file.stem for file in folder.glob("[!.]*") if file.suffix in (".json", ".failed")]
