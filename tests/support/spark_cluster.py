"""Servers of Spark on loopback, from the installed PySpark: a master and workers of one core, Connect."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from thence.pipeline import java

HOME = Path(pyspark.__file__).parent


def environment() -> dict[str, str]:
    """For processes of Spark that are not started by `session`."""
    return os.environ | {
        "JAVA_HOME": str(java.home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(HOME),
        "PYSPARK_PYTHON": sys.executable,
    }


class Server:
    """A process of Spark, and what it logs."""

    def __init__(self, folder: Path, name: str, arguments: list[str], ready: str) -> None:
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(HOME / "bin" / arguments[0]), *arguments[1:]],
                env=environment(), cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        self.told = self._await(ready)

    def _await(self, ready: str) -> str:
        """What the first group of the expression matched."""
        while True:
            found = re.search(ready, self.log.read_text(errors="replace"))
            if found:
                return found[1]
            assert self.process.poll() is None, self.log.read_text(errors="replace")
            time.sleep(0.2)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


class Cluster:
    def __init__(self, master: Server, workers: list[Server]) -> None:
        self.url = master.told
        self.workers = workers


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    started: list[Server] = []
    try:
        base = "org.apache.spark.deploy"
        command = ["spark-class", f"{base}.master.Master", "--host", "127.0.0.1", "--port", "0"]
        started.append(Server(folder, "master", [*command, "--webui-port", "0"], r"master at (spark://\S+)"))
        for number in range(workers):
            command = ["spark-class", f"{base}.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0"]
            more = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work{number}")]
            ready = r"(Successfully registered) with master"
            started.append(Server(folder, f"worker{number}", [*command, *more, started[0].told], ready))
        yield Cluster(started[0], started[1:])
    finally:
        for server in reversed(started):
            server.end()


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """The address of a Spark Connect server."""
    command = ["spark-submit", "--master", "local[2]", "--conf", "spark.connect.grpc.binding.port=0"]
    command += ["--conf", "spark.ui.enabled=false"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    ready = r"Spark Connect server started at: \S*?:([0-9]+)"
    server = Server(folder, "connect", [*command, "spark-internal"], ready)
    try:
        yield f"sc://127.0.0.1:{server.told}"
    finally:
        server.end()
