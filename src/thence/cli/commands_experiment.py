"""`thence experiment …`: the documents' experiments."""

from pathlib import Path
from typing import Annotated

import typer

from thence.cli.options import Conf, Master, Remote, spark_at

app = typer.Typer(help="The documents' experiments.", no_args_is_help=False)


@app.command("list")
def experiment_list() -> None:
    """Name the experiments."""
    from thence.cli import experiment as command

    raise typer.Exit(command.show_list())


@app.command("run")
def experiment_run(
    name: Annotated[str, typer.Argument(help="Which: `thence experiment list` names them.")],
    folder: Annotated[Path, typer.Option("--out", help="Folder for results.", metavar="DIR")],
    quick: Annotated[bool, typer.Option(help="Smaller groups, fewer messages than the document's.")] = False,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    point: Annotated[
        str | None, typer.Option(help="Run this point alone, in this process, and print its result.")
    ] = None,
) -> None:
    """Sweep, verify, tables and figures, with the document's figures beside ours.

    Goes on where an interrupted run stopped. Exit 0 when every run completed and nothing was violated.
    """
    from thence.cli import experiment as command

    raise typer.Exit(command.run(name, quick, folder, spark_at(master, remote, conf), point))
