"""Where a command's work on Spark is done: the options that all such commands share."""

import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

from thence.core.errors import UsageError

ENGINES = ("spark", "local")


class Where(NamedTuple):
    """What judges: Spark, here or elsewhere, or this process."""

    engine: str = "spark"
    master: str | None = None
    remote: str | None = None
    conf: Sequence[str] = ()

    def check(self) -> None:
        if self.engine not in ENGINES:
            raise UsageError(f"--engine {self.engine}: it is {' or '.join(ENGINES)}")
        if self.master and self.remote:
            raise UsageError("--master and --remote: Spark runs on one of them")
        if self.engine == "local" and (self.master or self.remote or self.conf):
            raise UsageError("--engine local runs in this process: no --master, --remote or --conf")

    @property
    def flags(self) -> str:
        """As they would be typed again, each after a space."""
        told = [f"--engine {self.engine}"] if self.engine != "spark" else []
        told += [f"--master {self.master}"] if self.master else []
        told += [f"--remote {self.remote}"] if self.remote else []
        told += [f"--conf {shlex.quote(pair)}" for pair in self.conf]
        return "".join(f" {flag}" for flag in told)

    def settings(self) -> dict[str, str]:
        pairs = [one.partition("=") for one in self.conf]
        for key, equals, _ in pairs:
            if not key or not equals:
                raise UsageError(f"--conf {key}: it takes KEY=VALUE")
        return {key: value for key, _, value in pairs}

    def spark(self) -> Any:
        """The session there: this room does not know Spark's types."""
        from thence.pipeline.session import session

        return session(self.master, self.remote, self.settings())
