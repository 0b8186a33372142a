"""Lines of `src/thence`: by room, and which of them are systems that came later: `python scripts/lines.py`.

A file belongs to a later system if all of it does; what a system needed elsewhere counts as what was there
before.
"""

from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

SRC = Path(__file__).parents[1] / "src" / "thence"

AT_FIRST = {
    "runtime": 10371, "cli, local, lab": 8227, "sim": 5363, "replica": 4847, "pipeline, pages": 3525,
    "spread": 2204, "oplog": 2018, "core": 1813, "order": 1812, "experiments": 1326, "members": 1118,
    "check": 469, "trace": 297, "(top)": 66,
}  # fmt: skip
"""At b1e0d55, before the redesign. `lab` and `local` were in `cli`, and `pages` in the pipeline."""

LATER = {
    "store": (
        "store/*", "crdt/*", "client.py", "runtime/*store*.py", "runtime/resp.py", "sim/groups_store.py",
        "lab/bench/store*.py", "cli/backup.py", "local/redis_client.py", "local/stores.py",
        "lab/tour/shop.py",
    ),
    "edge trees": (
        "core/edge*.py", "spread/edge*.py", "replica/edge*.py", "runtime/edge*.py", "sim/edge*.py",
        "lab/*/edge.py", "local/edge_file.py", "cli/sim_edge.py", "experiments/edge.py",
    ),
    "zones": (
        "core/codec_hops.py", "core/zones*.py", "order/history.py", "order/hops.py", "order/separator.py",
        "order/topology.py", "order/labels.py", "order/cuts.py", "order/deliveries.py", "order/zones_text.py",
        "spread/addressed.py", "replica/zone*.py", "runtime/zones*.py", "sim/zone*.py", "sim/topologies.py",
        "lab/*/zones.py", "local/zones_file.py", "cli/sim_zones.py", "experiments/sep*.py",
    ),
    "probabilistic": (
        "core/codec_stamps.py", "core/rumours.py", "order/probabilistic.py", "order/keys.py",
        "order/tuning.py", "spread/gossip.py", "sim/stamps.py", "sim/judged.py", "lab/chaos/gossip.py",
        "lab/bench/clocks.py", "cli/tune.py", "experiments/prob.py", "experiments/clocks.py",
    ),
    "Spark source, metrics, shards": (
        "pipeline/metrics/*", "pipeline/source.py", "pipeline/log_source.py", "pipeline/shards.py",
        "pipeline/lost.py", "pipeline/hive.py", "pipeline/csv_rows.py", "pipeline/local.py",
        "pipeline/dealing.py", "pipeline/reach.py", "pipeline/where.py", "pages/measured.py",
        "pages/timeline.py", "cli/metrics.py", "lab/bench/metrics.py",
    ),
    "live trees without tags": (
        "replica/tree_*.py", "replica/open_tree.py", "replica/live_tree.py", "runtime/open_trees.py",
        "runtime/tree_*.py", "lab/chaos/open_trees.py",
    ),
    "runs, returns, put-back disks": (
        "core/runs.py", "order/runs.py", "members/timelines.py", "members/extents.py",
        "replica/group/receipts/lineage.py", "replica/group/transfer/reading.py",
        "replica/group/process/replay.py", "replica/life_tag.py", "replica/positions.py",
        "runtime/gathering.py", "runtime/turns.py", "runtime/upgrade.py", "runtime/version1.py",
        "sim/groups_restores.py", "sim/groups_readers.py", "sim/groups_lies.py", "check/forgotten.py",
        "lab/bench/cluster_*runs*.py", "lab/bench/catch_up*.py", "lab/chaos/heard.py", "lab/chaos/reading.py",
        "lab/chaos/forgotten.py",
    ),
}  # fmt: skip

TOGETHER = {"cli": "cli, local, lab", "local": "cli, local, lab", "lab": "cli, local, lab",
            "pipeline": "pipeline, pages", "pages": "pipeline, pages"}  # fmt: skip


def system_of(place: str) -> str:
    found = [system for system, patterns in LATER.items() if any(fnmatch(place, one) for one in patterns)]
    assert len(found) < 2, f"{place} is of {found}"
    return found[0] if found else ""


def counted() -> Counter[tuple[str, str]]:
    """Lines by room and system."""
    lines: Counter[tuple[str, str]] = Counter()
    for path in sorted(SRC.rglob("*.py")):
        place = path.relative_to(SRC).as_posix()
        room = place.split("/")[0] if "/" in place else "(top)"
        lines[TOGETHER.get(room, room), system_of(place)] += len(path.read_bytes().splitlines())
    return lines


def main() -> None:
    lines = counted()
    rooms = sorted(
        {room for room, _ in lines}, key=lambda room: -sum(lines[room, one] for one in ("", *LATER))
    )
    print("| room | at first | now | of it later systems | rest |\n| --- | --- | --- | --- | --- |")
    sums = [0, 0, 0]
    for room in rooms:
        first, rest = AT_FIRST.get(room, 0), lines[room, ""]
        later = sum(lines[room, system] for system in LATER)
        sums = [sums[0] + first, sums[1] + later, sums[2] + rest]
        print(f"| {room} | {f'{first:,}' if first else '–'} | {rest + later:,} | {later:,} | {rest:,} |")
    print(f"| **all** | {sums[0]:,} | {sums[1] + sums[2]:,} | {sums[1]:,} | {sums[2]:,} |")
    print("\n| later system | lines |\n| --- | --- |")
    for system in LATER:
        print(f"| {system} | {sum(lines[room, system] for room in rooms):,} |")
    print(f"\nrest: {sums[2] / sums[0]:.2f} of what was there at first")


if __name__ == "__main__":
    main()
