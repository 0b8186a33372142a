"""Options that several commands have."""

from typing import Annotated

import typer

from thence.pipeline.where import Where

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value and nothing else.")]
Master = Annotated[
    str | None, typer.Option(help="Spark master to run on; default: this machine.", metavar="URL")
]
Remote = Annotated[
    str | None, typer.Option(help="Spark Connect server to run on: sc://HOST:PORT.", metavar="URL")
]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", help="A setting of Spark; can be repeated.", metavar="KEY=VALUE")
]


def spark_at(master: str | None, remote: str | None, conf: list[str] | None, engine: str = "spark") -> Where:
    """Told wrongly, this is an error before anything has begun."""
    where = Where(engine, master, remote, conf or ())
    where.check()
    where.settings()
    return where
