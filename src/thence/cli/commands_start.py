"""The flags of `thence node` and `thence up`. What they do is in modules of their own, loaded when called."""

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()

Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any other setting: docs/SETTINGS.md has them all.", metavar="KEY=VALUE"),
]
SyncFlag = Annotated[
    str | None, typer.Option(help="When the log reaches the disk: everysec (default), always, no.")
]
TraceFolder = Annotated[Path | None, typer.Option(help="Folder for the trace.", metavar="DIR")]
Entries = Annotated[
    int | None, typer.Option(help="Order probabilistic: counters in each message (100).", min=1)
]
Keys = Annotated[
    int | None, typer.Option(help="Order probabilistic: entries that a member counts in (4).", min=1)
]
Faults = Annotated[bool | None, typer.Option("--allow-faults/--no-allow-faults", help="Obey `thence fault`.")]
Topology = Annotated[
    Path | None,
    typer.Option(help="Order separator: zones, their members, who routes between them.", metavar="FILE"),
]
BasePort = Annotated[int | None, typer.Option(help="Node k listens on this + k; default: free ones.")]
HttpBase = Annotated[int | None, typer.Option(help="HTTP of node k on this + k; default: free ones.")]
Restart = Annotated[bool, typer.Option("--restart/--no-restart", help="Start nodes again that die.")]
LoadBytes = Annotated[int, typer.Option(help="Bytes of each message of the load.")]
Profile = Annotated[str, typer.Option(help="local, lan or wan.")]
LogLevel = Annotated[str | None, typer.Option(help="debug, info (default), warn, error.")]
LogFormat = Annotated[str | None, typer.Option(help="text (default) or json.")]


@app.command()
def node(
    name: Annotated[str | None, typer.Option(help="Of this node.")] = None,
    listen: Annotated[str | None, typer.Option(help="Where peers connect to.", metavar="HOST:PORT")] = None,
    advertise: Annotated[
        str | None, typer.Option(help="Where peers reach it, if not there.", metavar="HOST:PORT")
    ] = None,
    members: Annotated[
        str | None,
        typer.Option(help="The whole group, this node included.", metavar="NAME=HOST:PORT,…"),
    ] = None,
    join: Annotated[
        list[str] | None, typer.Option(help="Ask here for a group; can be repeated.", metavar="HOST:PORT")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder for what must survive.", metavar="DIR")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings.", metavar="FILE")] = None,
    cluster: Annotated[str | None, typer.Option(help="Nodes of other clusters are refused.")] = None,
    secret_file: Annotated[
        Path | None,
        typer.Option(
            help="What the members prove to know. Not itself a flag: all users can list a process's flags.",
            metavar="FILE",
        ),
    ] = None,
    trace: TraceFolder = None,
    order: Annotated[
        str | None, typer.Option(help="graph (default), vector; over a tree also none; probabilistic.")
    ] = None,
    entries: Entries = None,
    keys: Keys = None,
    spread: Annotated[
        str | None,
        typer.Option(help="How messages travel: mesh (default), tree, eco-sync-tree, edge, gossip."),
    ] = None,
    parent: Annotated[
        str | None, typer.Option(help="edge: the node to be below.", metavar="HOST:PORT")
    ] = None,
    root: Annotated[bool | None, typer.Option("--root", help="edge: it is the root.")] = None,
    groups: Annotated[
        str | None, typer.Option(help="edge: those that it is a member of.", metavar="NAME,NAME…")
    ] = None,
    topology: Topology = None,
    sync: SyncFlag = None,
    http: Annotated[
        str | None,
        typer.Option(help="Health, metrics, control; default: a free port here; none.", metavar="HOST:PORT"),
    ] = None,
    resp: Annotated[
        str | None, typer.Option(help="A store: Redis clients connect to this.", metavar="HOST:PORT")
    ] = None,
    profile: Annotated[str | None, typer.Option(help="local, lan (default) or wan.")] = None,
    stability: Annotated[
        bool | None, typer.Option("--stability/--no-stability", help="Find out what is causally stable.")
    ] = None,
    allow_faults: Faults = None,
    insecure: Annotated[
        bool | None,
        typer.Option("--insecure/--no-insecure", help="Unencrypted addresses beyond this machine."),
    ] = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    words: Set = None,
) -> None:
    """Run one node until Ctrl-C or SIGTERM.

    Alone it founds a group that others can join, or resumes. Settings come from flags, then THENCE_…
    variables, then the file, then the profile.
    """
    from thence.local import node as command

    flags = {
        "name": name, "listen": listen, "advertise": advertise, "members": members,
        "join": join or None, "data": data,
        "cluster": cluster, "secret_file": secret_file, "trace": trace, "order": order, "spread": spread,
        "clock.entries": entries, "clock.keys": keys,
        "log.sync": sync, "http": http, "resp": resp, "profile": profile, "stability.enabled": stability,
        "allow_faults": allow_faults, "insecure": insecure, "log_level": log_level,
        "log_format": log_format, "parent": parent, "root": root, "groups": groups,
        "topology": topology,
    }  # fmt: skip
    raise typer.Exit(command.run(flags, words or [], config))


@app.command()
def join(
    name: Annotated[str | None, typer.Argument(help="Of the node; default: the next letter.")] = None,
    data: Annotated[Path, typer.Option(help="Folder of a cluster that runs.", metavar="DIR")] = Path(
        "thence-data"
    ),
    listen: Annotated[
        str | None, typer.Option(help="Where peers connect to; default: a free port.", metavar="HOST:PORT")
    ] = None,
    trace: TraceFolder = None,
    sync: SyncFlag = None,
    profile: Profile = "local",
    allow_faults: Faults = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    words: Set = None,
) -> None:
    """Let another node join a local cluster, and run it until Ctrl-C or SIGTERM.

    Its data is in DIR/NAME. Started again under the same name it goes on. Elsewhere than beside a cluster of
    `thence up`: `thence node --join HOST:PORT`.
    """
    from thence.cli import join as command

    flags = {
        "listen": listen, "trace": trace, "log.sync": sync, "profile": profile,
        "allow_faults": allow_faults, "log_level": log_level, "log_format": log_format,
    }  # fmt: skip
    raise typer.Exit(command.run(data, name, flags, words or []))


@app.command()
def up(
    nodes: Annotated[int | None, typer.Option(help="How many (3; a cluster that exists: as many).")] = None,
    data: Annotated[
        Path, typer.Option(help="Folder of the cluster; goes on where it was.", metavar="DIR")
    ] = Path("thence-data"),
    trace: TraceFolder = None,
    base_port: BasePort = None,
    http_base: HttpBase = None,
    resp_base: Annotated[
        int | None, typer.Option(help="Redis clients of node k on this + k; default: from 7379 on.")
    ] = None,
    store: Annotated[
        bool, typer.Option("--store/--no-store", help="A store that answers Redis clients.")
    ] = True,
    order: Annotated[
        str | None, typer.Option(help="graph (default), vector; over a tree also none; probabilistic.")
    ] = None,
    entries: Entries = None,
    keys: Keys = None,
    spread: Annotated[
        str | None, typer.Option(help="How messages travel: mesh (default), tree, eco-sync-tree, gossip.")
    ] = None,
    topology: Topology = None,
    sync: SyncFlag = None,
    profile: Profile = "local",
    allow_faults: Faults = None,
    load: Annotated[
        float | None, typer.Option(help="Every node broadcasts so many a second; 0: as fast as it goes.")
    ] = None,
    load_bytes: LoadBytes = 64,
    load_to: Annotated[
        str,
        typer.Option(
            help="separator: the receivers, as a,b, or ~3: up to three by chance; default: all.",
            metavar="NAMES",
        ),
    ] = "",
    restart: Restart = True,
    changing: Annotated[
        bool | None,
        typer.Option(
            "--changing/--fixed",
            help="Members may join and leave; default, but with another order or spread, or no stability.",
        ),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return once all nodes are well; `thence down` stops them.")
    ] = False,
    wait: Annotated[
        float, typer.Option(help="--detach: seconds to wait for that.", metavar="SECONDS", min=0.1)
    ] = 60.0,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    words: Set = None,
) -> None:
    """Run a local cluster in the foreground, one process per node, until Ctrl-C or SIGTERM.

    Node k's data and log.txt are in DIR/NAME. Exit 0 when all stopped in order.
    """
    if detach:
        from thence.cli import detach as background

        arguments = [word for word in sys.argv[1:] if word != "--detach"]
        raise typer.Exit(background.detach(data, arguments, wait))
    from thence.cli import up as command

    flags = {
        "trace": None if trace is None else trace.absolute(), "order": order, "spread": spread,
        "clock.entries": entries, "clock.keys": keys,
        "log.sync": sync, "profile": profile, "allow_faults": allow_faults, "log_level": log_level,
        "log_format": log_format,
    }  # fmt: skip
    wish = command.Wish(
        data=data, nodes=nodes, base_port=base_port, http_base=http_base, load=load, load_bytes=load_bytes,
        restart=restart, changing=changing, store=store, resp_base=resp_base, flags=flags,
        topology=topology, load_group=load_to,
        words=tuple(words or ()),
    )  # fmt: skip
    raise typer.Exit(command.run(wish))


edge = typer.Typer(help="Edge trees: groups that overlap, on a tree that is rooted at a datacentre.")
app.add_typer(edge, name="edge")


@edge.command("up")
def edge_up(
    tree: Annotated[
        Path | None,
        typer.Option(help="Nodes, their parents and groups; default: as it was.", metavar="FILE"),
    ] = None,
    data: Annotated[
        Path, typer.Option(help="Folder of the tree; goes on where it was.", metavar="DIR")
    ] = Path("thence-data"),
    trace: TraceFolder = None,
    base_port: BasePort = None,
    http_base: HttpBase = None,
    sync: SyncFlag = None,
    profile: Profile = "local",
    allow_faults: Faults = None,
    load: Annotated[
        float | None, typer.Option(help="Every node publishes so many a second; 0: as fast as it goes.")
    ] = None,
    load_bytes: LoadBytes = 64,
    restart: Restart = True,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    words: Set = None,
) -> None:
    """Run an edge tree in the foreground, one process per node, until Ctrl-C or SIGTERM.

    The file has a table [nodes.NAME] for each, with `parent` (the root has none) and `groups`;
    examples/tree.toml is one. Exit 0 when all stopped in order.
    """
    from thence.cli import up as command

    flags = {
        "trace": None if trace is None else trace.absolute(), "log.sync": sync, "profile": profile,
        "allow_faults": allow_faults, "log_level": log_level, "log_format": log_format,
    }  # fmt: skip
    wish = command.Wish(
        data=data, base_port=base_port, http_base=http_base, load=load, load_bytes=load_bytes,
        restart=restart, edge=True, tree=tree, flags=flags, words=tuple(words or ()),
    )  # fmt: skip
    raise typer.Exit(command.run(wish))
