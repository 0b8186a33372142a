"""`thence bench`: find, run and print."""

import json
from collections.abc import Callable, Iterator

from rich.table import Table

from thence.core.errors import UsageError
from thence.lab.bench.record import Record
from thence.local.console import err, out
from thence.local.extras import LAB, need


def _order(quick: bool) -> Iterator[Record]:
    from thence.lab.bench.order import bench

    return bench(quick)


def _sim(quick: bool) -> Iterator[Record]:
    from thence.lab.bench.simulator import bench

    return bench(quick)


def _tags(quick: bool) -> Iterator[Record]:
    from thence.lab.bench.tags import bench

    return bench(quick)


def _metadata(quick: bool) -> Iterator[Record]:
    from thence.lab.bench.metadata import bench

    return bench(quick)


def _clocks(quick: bool) -> Iterator[Record | str]:
    from thence.lab.bench.clocks import bench

    return bench(quick)


def _oplog(quick: bool) -> Iterator[Record]:
    from thence.lab.bench.oplog import bench

    return bench(quick)


def _cluster(quick: bool, part: str = "") -> Iterator[Record | str]:
    from thence.lab.bench.cluster import PARTS, bench

    if part and part not in PARTS:
        raise UsageError(f"no part {part!r} of cluster; there is {', '.join(PARTS)}")
    return bench(quick, [part] if part else PARTS)


def _trees(quick: bool) -> Iterator[Record | str]:
    from thence.lab.bench.trees import bench

    return bench(quick)


def _trees_live(quick: bool) -> Iterator[Record | str]:
    from thence.lab.bench.trees_live import bench

    return bench(quick)


def _edge(quick: bool) -> Iterator[Record | str]:
    from thence.lab.bench.edge import bench

    return bench(quick)


def _zones(quick: bool) -> Iterator[Record | str]:
    from thence.lab.bench.zones import bench

    return bench(quick)


def _membership(quick: bool) -> Iterator[Record | str]:
    from thence.lab.bench.membership import bench

    return bench(quick)


def _catch_up(quick: bool) -> Iterator[Record | str]:
    from thence.lab.bench.catch_up import bench

    return bench(quick)


def _store(quick: bool) -> Iterator[Record | str]:
    from thence.lab.bench.store import bench

    return bench(quick)


def _verify(quick: bool) -> Iterator[Record]:
    from thence.lab.bench.verify import bench

    return bench(quick)


def _metrics(quick: bool) -> Iterator[Record | str]:
    from thence.lab.bench.metrics import bench

    return bench(quick)


BENCHES: dict[str, Callable[[bool], Iterator[Record | str]]] = {
    "order": _order,
    "tags": _tags,
    "metadata": _metadata,
    "clocks": _clocks,
    "sim": _sim,
    "oplog": _oplog,
    "cluster": _cluster,
    "membership": _membership,
    "catch-up": _catch_up,
    "trees": _trees,
    "trees-live": _trees_live,
    "edge": _edge,
    "zones": _zones,
    "store": _store,
    "verify": _verify,
    "metrics": _metrics,
}
"""Each yields figures; one that takes long also yields words about what it does next."""


def run(name: str, as_json: bool, quick: bool, part: str = "") -> int:
    if name != "all" and name not in BENCHES:
        raise UsageError(f"unknown benchmark {name!r}; there is {', '.join(BENCHES)}, all")
    if part and name != "cluster":
        raise UsageError("only cluster has parts")
    if name == "all":
        need(*LAB)
    records = []
    with err.status("measuring") as status:
        for chosen in BENCHES if name == "all" else [name]:
            status.update(f"measuring {chosen}")
            figures = _cluster(quick, part) if part else BENCHES[chosen](quick)
            for record in figures:
                if isinstance(record, str):
                    status.update(f"measuring {chosen}: {record}")
                    continue
                records.append(record)
                status.update(f"measuring {chosen}: {record.name} = {record.value:,.4g} {record.unit}")
    if as_json:
        print(json.dumps([record.as_json() for record in records]))
    else:
        out.print(_table(records))
    return 0


def _table(records: list[Record]) -> Table:
    table = Table("name", box=None)
    for heading in ("value", "unit", "baseline", "ratio"):
        table.add_column(heading, justify="left" if heading == "unit" else "right")
    for record in records:
        table.add_row(
            record.name,
            f"{record.value:,.4g}",
            record.unit,
            "" if record.baseline is None else f"{record.baseline:,.4g}",
            "" if record.ratio is None else f"{record.ratio:.3g}",
        )
    return table
