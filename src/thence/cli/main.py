"""`thence …`: the commands and their flags.

What a command does lives in a module of its own, imported when it is called, so that `thence --help`
and a live node never load Spark. Errors that a person can act on are one line on standard error and
exit code 2; an interrupted command exits with 130.
"""

import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from thence import __version__
from thence.cli import commands_experiment
from thence.cli import commands_running as operate
from thence.cli import commands_start as live
from thence.cli.options import Conf, Json, Master, Remote, spark_at
from thence.core.errors import ThenceError, UsageError
from thence.local import extras

app = typer.Typer(
    name="thence",
    help="Causal delivery: simulate it, verify it, measure it.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

INTERRUPTED = 130


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"thence {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def thence(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Causal delivery: simulate it, verify it, measure it."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def sim(
    scenario: Annotated[str, typer.Option(help="What goes wrong: `--scenario list` tells.")] = "steady",
    order: Annotated[
        str | None,
        typer.Option(help="Ordering engine: graph, vector, vector-e2e, probabilistic, separator, none."),
    ] = None,
    entries: Annotated[
        int | None, typer.Option(help="probabilistic: counters that a message carries.")
    ] = None,
    keys: Annotated[
        int | None, typer.Option(help="probabilistic: counters that a member increments.")
    ] = None,
    recent: Annotated[
        int | None, typer.Option(help="probabilistic: deliveries that a node remembers, to doubt them.")
    ] = None,
    topology: Annotated[
        str | None, typer.Option(help="separator: random, levels as 10x10x10, a .toml file, table-7-1, …")
    ] = None,
    gateways: Annotated[
        int | None, typer.Option(help="separator: members of each separator of levels; one forwards.")
    ] = None,
    rules: Annotated[str | None, typer.Option(help="separator: rules in force, as 1-8 or 1-11.")] = None,
    word_ms: Annotated[
        float | None, typer.Option(help="separator: how often a node tells what it has delivered (R11).")
    ] = None,
    spread: Annotated[
        str | None,
        typer.Option(
            help="How messages travel: mesh, sync-tree (or tree), eco-sync-tree, edge, edge-paths, flood, …"
        ),
    ] = None,
    nodes: Annotated[int | None, typer.Option(help="Members of the group.")] = None,
    messages: Annotated[int | None, typer.Option(help="Messages that each member sends.")] = None,
    interval_ms: Annotated[float | None, typer.Option(help="Mean time between a member's messages.")] = None,
    interval: Annotated[str | None, typer.Option(help="fixed, or poisson (truncated at 4 ×).")] = None,
    latency_ms: Annotated[float | None, typer.Option(help="One-way latency of a link.")] = None,
    latency: Annotated[
        str | None, typer.Option(help="fixed; weibull: times (1 + a Weibull sample); grid (partial views).")
    ] = None,
    latency_matrix: Annotated[
        Path | None,
        typer.Option(help="File with a row per sender of comma-separated latencies in ms, instead."),
    ] = None,
    weibull_scale: Annotated[float | None, typer.Option(help="Scale of the Weibull samples.")] = None,
    weibull_shape: Annotated[float | None, typer.Option(help="Shape of the Weibull samples.")] = None,
    slow_factor: Annotated[
        float | None, typer.Option(help="slow-link: how many times slower that link is.")
    ] = None,
    loss: Annotated[float | None, typer.Option(help="Share of packets lost, below 1.")] = None,
    duplicate: Annotated[float | None, typer.Option(help="Share of packets that arrive twice.")] = None,
    reorder: Annotated[float | None, typer.Option(help="Share of packets that are held up.")] = None,
    take_ms: Annotated[
        float | None, typer.Option(help="A client takes its deliveries up to this much later.")
    ] = None,
    batch_ms: Annotated[
        float | None, typer.Option(help="Messages for one receiver travel together, this long apart.")
    ] = None,
    stability: Annotated[
        bool | None, typer.Option("--stability/--no-stability", help="Find out what is causally stable.")
    ] = None,
    durable: Annotated[
        bool | None, typer.Option("--durable/--no-durable", help="Partial views: nodes restart from a disk.")
    ] = None,
    payload_bytes: Annotated[int | None, typer.Option(help="Size of a payload.")] = None,
    probability: Annotated[
        float | None, typer.Option(help="Partial views: that a member sends when it may.")
    ] = None,
    ttl_ms: Annotated[
        float | None, typer.Option(help="eco-sync-tree: how long messages stay in a log.")
    ] = None,
    bandwidth_mbit: Annotated[
        float | None, typer.Option(help="Partial views: what a node can carry each way; 0: anything.")
    ] = None,
    handling_us: Annotated[
        float | None, typer.Option(help="Partial views: work per message that arrives, of a whole core.")
    ] = None,
    shows_links: Annotated[
        bool | None, typer.Option("--shows-links", help="Partial views: the trace tells of links as well.")
    ] = None,
    delta: Annotated[
        int | None, typer.Option(help="edge: consecutive ancestors whose failure is passed by.")
    ] = None,
    groups: Annotated[int | None, typer.Option(help="edge: groups, which overlap.")] = None,
    seed: Annotated[int | None, typer.Option(help="The one seed of everything random.")] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Folder for the trace; without it none is kept.", metavar="DIR")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--run", help="The run's name in the trace; default: scenario and seed.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a group in virtual time.

    Same arguments and seed give the same trace, byte for byte. Exit 0 when everything was delivered
    everywhere and every node drained, 1 when that did not happen.
    """
    from thence.cli import sim as command

    given = {
        "order": order, "entries": entries, "keys": keys, "recent": recent,
        "topology": topology, "gateways": gateways, "rules": rules, "word_ms": word_ms,
        "spread": spread, "nodes": nodes, "messages": messages,
        "interval_ms": interval_ms, "interval": interval, "latency_ms": latency_ms, "latency": latency,
        "latency_matrix": latency_matrix, "weibull_scale": weibull_scale, "weibull_shape": weibull_shape,
        "slow_factor": slow_factor, "loss": loss, "duplicate": duplicate, "reorder": reorder,
        "take_ms": take_ms, "batch_ms": batch_ms, "stability": stability,
        "durable": durable,
        "payload_bytes": payload_bytes, "probability": probability,
        "ttl_ms": ttl_ms, "bandwidth_mbit": bandwidth_mbit, "handling_us": handling_us,
        "shows_links": shows_links, "delta": delta, "groups": groups, "seed": seed,
    }  # fmt: skip
    raise typer.Exit(command.run(scenario, given, trace, as_json, name))


@app.command()
def verify(
    trace: Annotated[str, typer.Argument(help="A trace: one file, a folder of files, or a URL for Spark.")],
    still_open: Annotated[
        bool, typer.Option("--open", help="The system still runs: `lost` is reported, not judged.")
    ] = False,
    as_json: Json = False,
    engine: Annotated[
        str, typer.Option(help="spark; local: in this process, at once, for traces that fit into it.")
    ] = "spark",
    findings: Annotated[
        Path | None, typer.Option(help="Folder for all findings, as Parquet.", metavar="DIR")
    ] = None,
    tolerant: Annotated[
        bool, typer.Option("--tolerate-torn", help="Leave half-written files out, and count them.")
    ] = False,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    page: Annotated[
        Path | None, typer.Option(help="Write the verdict as one HTML file as well.", metavar="FILE")
    ] = None,
) -> None:
    """Judge a trace on Spark.

    Exit 0 when nothing is wrong with it, 1 when something is, 2 when it cannot be read, 3 when Spark or the
    machine failed.
    """
    from thence.cli import verify as command

    where = spark_at(master, remote, conf, engine)
    raise typer.Exit(command.verify(trace, still_open, as_json, where, findings, tolerant, page))


@app.command()
def metrics(
    trace: Annotated[str, typer.Argument(help="A trace: one file, a folder of files, or a URL.")],
    as_json: Json = False,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for every table as Parquet, figures and a page.", metavar="DIR"),
    ] = None,
) -> None:
    """Measure a trace on Spark: latencies, stability, time held, memory, membership, trees.

    What the trace does not tell is left out, with the reason. Exit 2 when it cannot be read.
    """
    from thence.cli import metrics as command

    where = spark_at(master, remote, conf)
    raise typer.Exit(command.metrics(trace, as_json, where, out))


@app.command()
def tune(
    nodes: Annotated[int, typer.Option(help="Members of the group.")],
    rate: Annotated[float, typer.Option(help="Messages a second of one member.")],
    delay_ms: Annotated[float, typer.Option(help="Mean time that a message is under way.")],
    deviation_ms: Annotated[
        float | None, typer.Option(help="Its standard deviation; default: a fifth of the delay.")
    ] = None,
    skew_ms: Annotated[
        float | None, typer.Option(help="Between receivers of one message; default: all of the deviation.")
    ] = None,
    target: Annotated[float, typer.Option(help="Share of deliveries that may come too early.")] = 0.001,
    entries: Annotated[int | None, typer.Option(help="So many entries instead.")] = None,
    keys: Annotated[int | None, typer.Option(help="So many keys as well, instead of the best.")] = None,
    as_json: Json = False,
) -> None:
    """Choose a clock for --order probabilistic: entries and keys, and how often they will err."""
    from thence.cli import tune as command

    raise typer.Exit(
        command.run(nodes, rate, delay_ms, deviation_ms, skew_ms, target, entries, keys, as_json)
    )


@app.command()
def soak(
    minutes: Annotated[float, typer.Option(help="For how long; at least one batch is run.")] = 5.0,
    seeds: Annotated[int | None, typer.Option(help="So many seeds instead, however long they take.")] = None,
    scenario: Annotated[str, typer.Option(help="Which scenario's seeds to go through.")] = "storm",
    start: Annotated[int, typer.Option(help="The first seed.")] = 0,
    jobs: Annotated[int | None, typer.Option(help="Processes; default: one per core.")] = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> None:
    """Go through seeds, one storm after another, and judge them on Spark.

    Exit 0 when every storm ended well, 1 at the first that did not; it is told how to bring it back.
    """
    from thence.lab import soak as command

    raise typer.Exit(command.run(minutes, seeds, scenario, start, jobs, spark_at(master, remote, conf)))


@app.command()
def chaos(
    minutes: Annotated[float, typer.Option(help="For how long; at least one round is run.")] = 5.0,
    nodes: Annotated[int, typer.Option(help="Processes in a cluster.")] = 4,
    seed: Annotated[int, typer.Option(help="The first round's; each round has the next.")] = 0,
    folder: Annotated[
        Path, typer.Option("--out", help="Folder for data, logs and traces.", metavar="DIR")
    ] = Path("chaos-out"),
    spread: Annotated[
        str, typer.Option(help="How messages travel: mesh, tree, eco-sync-tree, edge.")
    ] = "mesh",
    order: Annotated[
        str | None,
        typer.Option(help="probabilistic: over gossip. none: of a tree that is --changing, without tags."),
    ] = None,
    changing: Annotated[
        bool, typer.Option("--changing", help="Members join, leave, are evicted and return as well.")
    ] = False,
    topology: Annotated[
        Path | None, typer.Option(help="A file of zones: its processes, gateways die.", metavar="FILE")
    ] = None,
    netem: Annotated[
        bool, typer.Option("--netem", help="Packets are lost and late as well: needs root, `ip` and `tc`.")
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the files of rounds that held.")] = False,
    engine: Annotated[str, typer.Option(help="spark judges, or local: in this process.")] = "spark",
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> None:
    """Real processes under load: killed, stopped, cut off, slowed; then Spark judges what they did.

    Exit 0 when every round held, 1 at the first that did not; it is told how to try it again.
    """
    from thence.lab.chaos import command

    where = spark_at(master, remote, conf, engine)
    raise typer.Exit(
        command.run(minutes, nodes, seed, folder, netem, keep, where, spread, changing, order, topology)
    )


@app.command()
def bench(
    name: Annotated[
        str,
        typer.Argument(
            help="Which: order, tags, metadata, clocks, sim, oplog, cluster, membership, catch-up, trees, "
            "trees-live, edge, zones, store, verify, metrics, or all."
        ),
    ],
    as_json: Json = False,
    quick: Annotated[bool, typer.Option(help="Smaller sizes: a look, not a result.")] = False,
    part: Annotated[str, typer.Option(help="Of cluster: always, nodes, latency, events or runs.")] = "",
) -> None:
    """Measure, next to a baseline in the same run."""
    from thence.lab.bench import command

    raise typer.Exit(command.run(name, as_json, quick, part))


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page and the traces.", metavar="DIR")] = Path(
        "demo-out"
    ),
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> None:
    """The tour: real processes under load join, are cut off, killed, evicted, and leave; Spark judges it.

    Exit 0 only if every claim that it makes held.
    """
    from thence.lab import demo as command

    raise typer.Exit(command.run(out, spark_at(master, remote, conf)))


app.add_typer(commands_experiment.app, name="experiment")
app.add_typer(live.app)
app.add_typer(operate.app)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit code."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(
            errors="backslashreplace"
        )  # as on standard error: a locale may lack characters
    try:
        result = app(args=arguments, prog_name="thence", standalone_mode=False)
    except (ThenceError, typer.TyperException) as error:
        text = error.format_message() if isinstance(error, typer.TyperException) else str(error)
        print(f"thence: {' '.join(text.split())}", file=sys.stderr)
        return 2 if isinstance(error, UsageError | typer.TyperException) else 1
    except (KeyboardInterrupt, typer.Abort):
        print("thence: interrupted", file=sys.stderr)
        return INTERRUPTED
    except ModuleNotFoundError as error:
        if (needed := extras.missing(error)) is None:
            raise
        print(f"thence: {needed}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of our output has gone, as with `| head`: nothing is left to say.
        sys.stderr.close()
        return 1
    if result == INTERRUPTED:  # how typer tells of Ctrl-C
        print("thence: interrupted", file=sys.stderr)
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    sys.exit(main())
