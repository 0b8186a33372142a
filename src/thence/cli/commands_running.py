"""Flags of the commands for nodes that run: look at them, load them, break their links.

As in `main`: what a command does is imported when it is called.
"""

from pathlib import Path
from typing import Annotated

import typer

from thence.cli.options import Json

app = typer.Typer()

Data = Annotated[Path, typer.Option("--data", help="Data folder of a node, or of a cluster.", metavar="DIR")]
Nodes = Annotated[
    list[str] | None, typer.Option("--node", help="Which node; may be repeated.", metavar="NAME")
]
Group = Annotated[
    str,
    typer.Option(
        help="On an edge tree: the group; default: any of the node's. Of zones: addressees, as a,b, or ~3.",
        metavar="NAME",
    ),
]
DATA = Path("thence-data")
"""Where `thence up` keeps a cluster unless told otherwise, seen from the current folder."""


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(help="Data folder of a node, or of a cluster.")] = DATA,
    as_json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", help="Look again and again, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between looks.", min=0.1, max=3600)] = 1.0,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for all to be well.", metavar="SECONDS", min=0, max=3600)
    ] = 0.0,
) -> None:
    """Show the nodes of a folder, and who holds stability back.

    Exit 0 when all of them answer and are well, 1 otherwise.
    """
    from thence.cli import status as command

    raise typer.Exit(command.run(folder, as_json, watch, every, wait))


@app.command()
def down(
    data: Annotated[Path, typer.Option(help="Folder of a cluster that runs.", metavar="DIR")] = DATA,
) -> None:
    """Stop a cluster that `thence up` runs, in order, as Ctrl-C would."""
    from thence.cli import detach as command

    raise typer.Exit(command.down(data))


@app.command()
def load(
    data: Data = DATA,
    node: Nodes = None,
    rate: Annotated[float, typer.Option(help="Messages a second of each node; 0: as fast as it goes.")] = 0.0,
    seconds: Annotated[float | None, typer.Option(help="For how long.")] = None,
    count: Annotated[int | None, typer.Option(help="How many messages of each node.")] = None,
    size: Annotated[int, typer.Option("--bytes", help="Size of a message.")] = 64,
    group: Group = "",
    as_json: Json = False,
) -> None:
    """Let nodes that run broadcast messages.

    All nodes of the folder unless some are named. Exit 0 when all went well, 1 when a node failed.
    """
    from thence.cli import load as command
    from thence.runtime.load import Load

    wanted = Load(rate=rate, seconds=seconds, count=count, bytes=size, group=group)
    raise typer.Exit(command.run(data, node or [], wanted, as_json))


@app.command()
def broadcast(
    words: Annotated[str, typer.Argument(metavar="TEXT", help="The message; - reads standard input.")],
    data: Data = DATA,
    node: Annotated[
        list[str] | None,
        typer.Option("--node", help="Which node; needed if there are several.", metavar="NAME"),
    ] = None,
    group: Group = "",
    as_json: Json = False,
) -> None:
    """Let a node that runs broadcast one message."""
    from thence.cli import load as command

    raise typer.Exit(command.broadcast(data, node or [], words, as_json, group))


@app.command()
def members(
    folder: Annotated[Path, typer.Argument(help="Data folder of a node, or of a cluster.")] = DATA,
    as_json: Json = False,
) -> None:
    """Show who is in the group, and where.

    Exit 0 when all nodes that answer see the same members, 1 otherwise.
    """
    from thence.cli import membership as command

    raise typer.Exit(command.members(folder, as_json))


@app.command()
def leave(
    name: Annotated[str | None, typer.Argument(help="Which node; not needed where there is one.")] = None,
    data: Data = DATA,
    patience: Annotated[float, typer.Option(help="Seconds to wait for it.", min=0)] = 90.0,
    force: Annotated[bool, typer.Option("--force", help="Even if what it has is lost with it.")] = False,
) -> None:
    """Let a node leave its group for good.

    It goes when all members have what it sent. Exit 0 if so, 1 if none could tell it.
    """
    from thence.cli import membership as command

    raise typer.Exit(command.leave(data, name, patience, force))


@app.command()
def evict(
    who: Annotated[str, typer.Argument(metavar="NAME", help="A member that is not to be one any more.")],
    data: Data = DATA,
    by: Annotated[str | None, typer.Option(help="The node to tell; default: any.", metavar="NAME")] = None,
    force: Annotated[bool, typer.Option("--force", help="Even if it seems to be alive.")] = False,
    for_good: Annotated[
        bool, typer.Option("--for-good", help="It was evicted, and its disk is lost: forget it.")
    ] = False,
) -> None:
    """Let the group go on without a member that is gone.

    If it was alive after all, it comes back by itself as a new incarnation, and nothing that it sent is lost.
    """
    from thence.cli import membership as command

    raise typer.Exit(command.evict(data, who, by, force, for_good))


@app.command()
def repair(
    folder: Annotated[Path, typer.Argument(help="Data folder of a node that does not run.")],
    forgetful: Annotated[
        bool,
        typer.Option(help="The log lacks its end though it looks whole: an old copy, a disk that lied."),
    ] = False,
) -> None:
    """Cut a damaged log where it is damaged; the node gets the rest from its peers when it starts.

    Nothing is thrown away: the log as it was found is kept in the folder.
    """
    from thence.cli import repair as command

    raise typer.Exit(command.run(folder, forgetful))


stores = typer.Typer(help="Back up stores, and make others from backups.")
app.add_typer(stores, name="store")

STORE_AT = "127.0.0.1:7379"


@stores.command("backup")
def store_backup(
    folder: Annotated[Path, typer.Argument(help="A folder that is not there yet.")],
    source: Annotated[str, typer.Option("--from", help="A node's store.", metavar="HOST:PORT")] = STORE_AT,
) -> None:
    """Write down all keys of a store, as one node has them at one moment. Writes go on meanwhile.

    The folder holds commands that Redis takes as well: redis-cli --pipe < FOLDER/commands.resp. A password is
    taken from REDISCLI_AUTH.
    """
    from thence.cli import backup as command

    raise typer.Exit(command.backup(folder, source))


@stores.command("at")
def store_at(
    tag: Annotated[str, typer.Argument(help="An operation, as THENCE.TAG names it: a:1041.")],
    data: Annotated[Path, typer.Argument(help="The data folder of a node, running or not.")],
    folder: Annotated[Path, typer.Argument(help="A folder that is not there yet.")],
    vector: Annotated[bool, typer.Option("--vector", help="The group has order vector.")] = False,
) -> None:
    """Write down all keys as a node had them right after an operation, as backup does.

    It goes back to the oldest checkpoint that the node's log keeps. The error for an older operation tells
    what that has.
    """
    from thence.cli import backup as command

    raise typer.Exit(command.at(tag, data, folder, "vector" if vector else "graph"))


@stores.command("restore")
def store_restore(
    folder: Annotated[Path, typer.Argument(help="A folder that `thence store backup` has made.")],
    target: Annotated[str, typer.Option("--to", help="A node's store.", metavar="HOST:PORT")] = STORE_AT,
    merge: Annotated[
        bool, typer.Option("--merge", help="Into a store that holds something: write over what it has.")
    ] = False,
) -> None:
    """Write all keys of a backup into a store that holds nothing: that of a new group, say.

    They are writes like any others, and reach all nodes of the group. What is restored is never taken for the
    store that was backed up.
    """
    from thence.cli import backup as command

    raise typer.Exit(command.restore(folder, target, merge))


faults = typer.Typer(help="Break links and pause nodes of a cluster that allows it (--allow-faults).")
app.add_typer(faults, name="fault")


@faults.command("cut")
def fault_cut(one: str, other: str, data: Data = DATA) -> None:
    """Cut the link between two nodes."""
    from thence.cli import fault as command

    raise typer.Exit(command.cut(data, one, other))


@faults.command("slow")
def fault_slow(
    one: str,
    other: str,
    delay_ms: Annotated[float, typer.Option("--ms", help="How much later; 0: not any more.", min=0)],
    data: Data = DATA,
) -> None:
    """Delay what two nodes send each other."""
    from thence.cli import fault as command

    raise typer.Exit(command.slow(data, one, other, delay_ms))


@faults.command("mend")
def fault_mend(
    one: Annotated[str | None, typer.Argument(help="Without any: all links.")] = None,
    other: Annotated[str | None, typer.Argument(help="Without it: all links of the one.")] = None,
    data: Data = DATA,
) -> None:
    """Undo cut and slow: for one link, all of a node, or all."""
    from thence.cli import fault as command

    raise typer.Exit(command.mend(data, one, other))


@faults.command("pause")
def fault_pause(
    name: str,
    seconds: Annotated[
        float | None, typer.Option(help="Then it goes on; without: until resumed.", min=0)
    ] = None,
    data: Data = DATA,
) -> None:
    """Stop the process of a node (SIGSTOP), as when its machine stalls."""
    from thence.cli import fault as command

    raise typer.Exit(command.pause(data, name, seconds))


@faults.command("resume")
def fault_resume(name: str, data: Data = DATA) -> None:
    """Let a paused node go on."""
    from thence.cli import fault as command

    raise typer.Exit(command.resume(data, name))
