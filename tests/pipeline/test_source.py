"""Integration: `spark.read.format("thence")`, in every format and layout, and the questions of the guide."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipeline.layouts import scatter, write_csv, write_jsonl, write_parquet
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from pyspark.testing import assertDataFrameEqual
from support.run_text import rows

import thence.pipeline
from thence.pipeline.source import COLUMNS, Splits, TraceReader
from thence.trace.schema import Dot, Event

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

DDL = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
GUIDE = Path(__file__).parents[2] / "docs" / "PIPELINE.md"

EVENTS = [
    *rows("a", "send a:1 deps=", "deliver b:1", "link", run="r"),
    *rows("b", "deliver a:1", "send b:1 deps=a:1", run="r"),
    *rows("c~2", "start process=c incarnation=2", "send c~2:1 deps= carries=c:1", group="g"),
]


@pytest.fixture
def read(spark: SparkSession) -> Callable[..., DataFrame]:
    thence.pipeline.register(spark)

    def read(path: Path, schema: str | None = None, **options: Any) -> DataFrame:
        reader = spark.read.format("thence").options(**options)
        return (reader.schema(schema) if schema else reader).load(str(path))

    return read


def frame(spark: SparkSession, events: Sequence[Event], extra: dict[str, str] | None = None) -> DataFrame:
    """The events as a DataFrame made by hand."""
    schema = DDL + "".join(f", `{name}` string" for name in extra or {})
    values = [msgspec.to_builtins(event) | (extra or {}) for event in events]
    names = [*COLUMNS, *(extra or {})]
    told = [{"run": "", "group": ""} | row for row in values]
    return spark.createDataFrame([tuple(row.get(name) for name in names) for row in told], schema)


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_every_format(spark: SparkSession, read: Any, tmp_path: Path, form: str) -> None:
    {"jsonl": write_jsonl, "csv": write_csv, "parquet": write_parquet}[form](tmp_path / f"x.{form}", EVENTS)
    found = read(tmp_path)
    if form == "csv":  # an empty cell of a list of dots is an empty list there
        found = found.selectExpr(
            *[
                f"if(kind = 'send', {name}, null) AS {name}" if name == "deps"
                else f"if(size({name}) = 0, null, {name}) AS {name}" if name == "carries"
                else f"`{name}`"
                for name in COLUMNS
            ]
        )  # fmt: skip
    assertDataFrameEqual(found, frame(spark, EVENTS))


def test_mixed_files_cut_small(spark: SparkSession, read: Any, tmp_path: Path) -> None:
    events = [event for event in EVENTS if event.kind != "send"]  # in these, CSV can say everything
    scatter(Random(3), tmp_path, events, files=5)
    found = read(tmp_path, split=40).drop("deps", "carries")
    assertDataFrameEqual(found, frame(spark, events).drop("deps", "carries"))


def test_folders_are_columns(spark: SparkSession, read: Any, tmp_path: Path) -> None:
    for run, node in (("r 1", "a"), ("r2", "b")):
        folder = tmp_path / f"day=1%2F2/run={run.replace(' ', '%20')}/node={node}"
        folder.mkdir(parents=True)
        (folder / "x.jsonl").write_text('{"pos": 0, "kind": "start"}\n')
        (folder / "y.csv").write_text("pos,kind,run\n1,start,\n")
        pq.write_table(pa.table({"pos": [2], "kind": ["start"]}), folder / "z.parquet")
    expected = [
        Event(node=node, pos=pos, kind="start", run=run)
        for run, node in (("r 1", "a"), ("r2", "b"))
        for pos in (0, 1, 2)
    ]
    assertDataFrameEqual(read(tmp_path), frame(spark, expected, {"day": "1/2"}))
    assertDataFrameEqual(
        read(tmp_path).where("run = 'r2' AND day = '1/2'"), frame(spark, expected[3:], {"day": "1/2"})
    )


def test_a_row_that_contradicts_its_folder_is_an_error(read: Any, tmp_path: Path) -> None:
    (tmp_path / "run=x").mkdir()
    (tmp_path / "run=x" / "a.csv").write_text("node,pos,kind,run\na,0,start,x\na,1,start,y\n")
    with pytest.raises(PySparkException, match=r"a\.csv: line 3: run is 'y' here and 'x' in the folder"):
        read(tmp_path).collect()


def test_unreadable_rows_are_errors_that_name_them(read: Any, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"node": "a", "pos": -1, "kind": "start"}\n')
    with pytest.raises(PySparkException, match=r"x\.jsonl: line 1: negative position"):
        read(tmp_path).collect()
    with pytest.raises(PySparkException, match="no such file or folder"):
        read(tmp_path / "missing").collect()


CHOICES: list[tuple[dict[str, str], str]] = [
    ({"kind": "send"}, "kind = 'send'"),
    ({"kind": '["send", "link"]', "run": "r"}, "kind IN ('send', 'link') AND run = 'r'"),
    ({"run": ""}, "run = ''"),
    ({"run": '["", "r"]', "group": ""}, "`group` = ''"),
    ({"group": "g", "node": '["a", "c~2"]'}, "`group` = 'g' AND node IN ('a', 'c~2')"),
    ({"node": "unknown"}, "false"),
]


@pytest.mark.parametrize(("options", "condition"), CHOICES)
def test_options_select_as_conditions_do(
    spark: SparkSession, read: Any, tmp_path: Path, options: dict[str, str], condition: str
) -> None:
    write_parquet(tmp_path / "x.parquet", EVENTS[:3])
    write_jsonl(tmp_path / "y.jsonl", EVENTS[3:])
    assertDataFrameEqual(read(tmp_path, **options), frame(spark, EVENTS).where(condition))
    found = read(tmp_path, "pos bigint", **options)  # also by columns that are not asked for
    assertDataFrameEqual(found, frame(spark, EVENTS).where(condition).select("pos"))


def test_conditions_on_one_dataframe_are_told_apart(read: Any, tmp_path: Path) -> None:
    """Filters that Spark pushes into a Python source stay there for its later scans."""
    write_jsonl(tmp_path / "x.jsonl", EVENTS)
    found = read(tmp_path)
    counts = [found.where("kind = 'send'").count(), found.where("kind = 'deliver'").count(), found.count()]
    assert counts == [3, 2, 7]


def test_a_schema_names_the_columns(spark: SparkSession, read: Any, tmp_path: Path) -> None:
    write_parquet(tmp_path / "x.parquet", EVENTS)
    found = read(tmp_path, "kind string, run string").where(
        "kind = 'send' AND node_is_not_there IS NULL" * 0 + "true"
    )
    assertDataFrameEqual(found, frame(spark, EVENTS).select("kind", "run"))
    with pytest.raises(PySparkException, match="a trace has no column 'colour'"):
        read(tmp_path, "kind string, colour string").collect()


def test_what_cannot_match_is_not_read(tmp_path: Path) -> None:
    for run in ("r1", "r2"):
        (tmp_path / f"run={run}").mkdir()
        with pq.ParquetWriter(tmp_path / f"run={run}" / "x.parquet", SMALL) as writer:
            for node in "ab":
                writer.write_table(
                    pa.table({"node": [node] * 2, "pos": [0, 1], "kind": ["start", "leave"]}, SMALL)
                )

    def groups(**wanted: set[str]) -> list[tuple[str, int]]:
        """What would be read, without Spark."""
        values = {name: frozenset(some) for name, some in wanted.items()}
        parts = TraceReader(tmp_path, StructType([]), 1 << 20, values).partitions()
        splits = [split for part in parts if isinstance(part, Splits) for split in part.splits]
        return [(Path(s.path).parent.name, g) for s in splits for g in range(s.start, s.end)]

    assert len(groups()) == 4
    assert groups(run={"r2"}) == [("run=r2", 0), ("run=r2", 1)]
    assert groups(node={"b", "c"}) == [("run=r1", 1), ("run=r2", 1)]
    assert groups(node={"a"}, run={"r1"}) == [("run=r1", 0)]
    assert groups(kind={"send"})  # between "leave" and "start": the rows themselves must tell
    assert groups(kind={"crash"}) == []


SMALL = pa.schema([("node", pa.string()), ("pos", pa.int64()), ("kind", pa.string())])


def test_the_guide_s_questions(spark: SparkSession, read: Any, tmp_path: Path) -> None:
    """Every SQL example of docs/PIPELINE.md, as it stands there."""
    trace = [
        Event(node="a", pos=0, kind="send", origin="a", seq=1, at_us=10, deps=[]),
        Event(node="b", pos=0, kind="deliver", origin="a", seq=1, at_us=25),
        Event(node="c", pos=0, kind="deliver", origin="a", seq=1, at_us=40),
        Event(node="b", pos=1, kind="send", origin="b", seq=1, at_us=30, deps=[Dot("a", 1)]),
        Event(node="a", pos=1, kind="deliver", origin="b", seq=1, at_us=45),
    ]
    write_jsonl(tmp_path / "x.jsonl", trace)
    read(tmp_path).createOrReplaceTempView("trace")
    golden = Path(__file__).parents[1] / "oplog" / "golden"
    read(golden, rows="log").createOrReplaceTempView("log")
    questions = re.findall(r"```sql\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    answers = [[tuple(row) for row in spark.sql(text).collect()] for text in questions]
    assert answers[0] == [("a", 1, 30), ("b", 1, 15)]
    assert answers[1] == [("a", 0.0), ("b", 1.0)]
    assert answers[2][:2] == [("a", 2), ("a", 3)]
    assert len(answers) == 3


def test_the_guide_s_ten_lines(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a CSV file to a figure, as docs/PIPELINE.md has it."""
    program = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)[0]
    assert len([line for line in program.splitlines() if line]) == 10
    write_csv(tmp_path / "mine.csv", EVENTS)
    program = program.replace('"mine.csv"', repr(str(tmp_path / "mine.csv")))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(program, names)
    assert names["table"] == [{"node": "a", "deliveries": 1}, {"node": "b", "deliveries": 1}]
    assert "vega" in (tmp_path / "deliveries.html").read_text()
