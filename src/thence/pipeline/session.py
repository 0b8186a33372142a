"""The one Spark session of a process, with settings that suit packed binaries.

Starting one takes seconds, so all that need Spark share it. Settings are those of a laptop by default;
a `master` other than local brings its own sizes.
"""

import atexit
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from thence.core.errors import UsageError
from thence.pipeline import java
from thence.pipeline.reach import check_connect, check_master

SETTINGS: Final = {
    # Few, large rows travel: a handful of partitions is plenty for everything but the tasks we plan.
    "spark.sql.shuffle.partitions": "4",
    "spark.python.worker.reuse": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # A packed row can be megabytes: bound a batch by size as well.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "6g",
    "spark.driver.maxResultSize": "2g",
    "spark.sql.session.timeZone": "UTC",
}
# What goes wrong reaches us as an exception; Spark's own account of it is for those who ask for it.
LOGGING: Final = """rootLogger.level = ${env:THENCE_SPARK_LOG:-off}
rootLogger.appenderRef.console.ref = console
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = ${env:THENCE_SPARK_LOG:-off}
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n
"""
LOCAL: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Java only moves binaries here, for seconds: compiling its code to perfection costs more than it saves
    # (ten million events: 4.6 s without, 2.6 s with these).
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC",
}


REMOTE: Final = {
    key: SETTINGS[key]
    for key in (
        "spark.sql.shuffle.partitions",
        "spark.sql.execution.arrow.maxRecordsPerBatch",
        "spark.sql.execution.arrow.maxBytesPerBatch",
        "spark.sql.session.timeZone",
    )
}
"""What a client may say to a server that is running."""

PATIENCE: Final = "spark.scheduler.maxRegisteredResourcesWaitingTime"
"""How long a cluster may take until a worker is counted, which starts a Java before."""

PATIENCE_S: Final = 60
"""Where `--conf` does not name it."""

WORKERS_PYTHON: Final = "spark.pyspark.python"

FAILURES: Final = (Py4JError, PySparkException, MemoryError, OSError)
"""What it is when Spark or the machine has failed, and not the trace."""


def reason(error: BaseException) -> str:
    """The line of a long account that says what happened: the last one that is neither a place in Java nor in
    what Java adds to an error of a task."""
    account = re.split(r"\n(?:Driver|JVM) stacktrace:", str(error))[0]
    lines = [line.strip() for line in account.splitlines()]
    told = [line for line in lines if line and not re.match(r"at |\.\.\. \d+ more", line)]
    if not told:
        return type(error).__name__
    return re.sub(r".*Lost task .*?\(TID \d+\) \([^)]*\): |^(?:Suppressed|Caused by): ", "", told[-1])


def session(
    master: str | None = None, remote: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """The running session, or a new one on `master` (default: all cores of this machine) or on the Spark
    Connect server `remote` (default: SPARK_REMOTE). `conf` comes after our own settings."""
    _quieten_interrupts()
    if master and remote:
        raise UsageError("a master and a Connect server: Spark runs on one of them")
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    remote = remote or ("" if master else os.environ.get("SPARK_REMOTE", ""))
    return _connect(remote, conf or {}) if remote else _start(master, conf or {})


def _start(master: str | None, conf: Mapping[str, str]) -> SparkSession:
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # by spark-submit, which has chosen a master already
    if master is None and not submitted:
        master = f"local[{os.cpu_count() or 2}]"
    local = master is not None and master.startswith("local")
    cluster = master is not None and master.startswith("spark://")
    if master is not None:
        check_master(master)
    with _environment(conf.get(WORKERS_PYTHON), local=local), no_orphans():
        builder = SparkSession.builder.appName("thence")
        if master is not None:
            builder = builder.master(master)
        for key, value in ((SETTINGS | (LOCAL if local else {})) | dict(conf)).items():
            builder = builder.config(key, value)
        try:
            spark = builder.getOrCreate()
        except (Py4JError, PySparkException, OSError) as error:
            raise UsageError(f"Spark did not start on {master}: {reason(error)}") from error
    if not local:
        atexit.register(spark.stop)  # a cluster takes a driver that just vanishes for a failure
    if cluster:
        _await_workers(spark)
    return spark


def _connect(remote: str, conf: Mapping[str, str]) -> SparkSession:
    check_connect(remote)
    try:
        builder = SparkSession.builder.remote(remote)
        for key, value in (REMOTE | dict(conf)).items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.range(1).count()
    except ImportError as error:
        raise UsageError(f"Spark Connect needs pip install 'thence[connect]' ({reason(error)})") from error
    except PySparkException as error:
        raise UsageError(f"Spark did not start on {remote}: {reason(error)}") from error
    atexit.register(spark.stop)
    return spark


def _await_workers(spark: SparkSession) -> None:
    """A master without workers lets its applications wait for ever. Those that there are come one by one: how
    many cores there are is known when no more come."""
    java = spark.sparkContext._jsc.sc()
    patience_s = java.conf().getTimeAsSeconds(PATIENCE, f"{PATIENCE_S}s")
    until, seen = time.monotonic() + patience_s, 0
    while time.monotonic() < until:
        time.sleep(0.5)
        count = java.getExecutorMemoryStatus().size()  # the driver is one of them
        if count > 1 and count == seen:
            return
        seen = count
    if seen < 2:
        spark.stop()
        raise UsageError(
            f"the cluster has no worker to spare (waited {patience_s} s; --conf {PATIENCE}=… waits longer)"
        )


@contextmanager
def no_orphans() -> Iterator[None]:
    """The Java that is started here ends if we are interrupted. It would find out by itself that it is no
    longer needed, but only once it has started."""
    before = set(_children(os.getpid()))
    try:
        yield
    except BaseException:
        _end([pid for pid in _children(os.getpid()) if pid not in before and _is_spark(pid)])
        SparkContext._gateway = SparkContext._jvm = None
        raise


def _is_spark(pid: int) -> bool:
    try:
        return b"spark" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _end(pids: Sequence[int]) -> None:
    for pid in pids:
        below = _children(pid)
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)  # of a child's children this is no business of ours, and fails
        _end(below)


def _children(parent: int) -> list[int]:
    """Where the system tells; Java elsewhere ends when it finds its standard input closed."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            text = stat.read_text(errors="replace")
            if int(text.rpartition(")")[2].split()[1]) == parent:
                found.append(int(stat.parent.name))
    return found


def _quieten_interrupts() -> None:
    """Ctrl-C is ours to tell of: without this, the bridge to Java shows the insides of its sockets."""
    root = logging.getLogger()
    if _is_not_the_bridge not in root.filters:
        root.addFilter(_is_not_the_bridge)


def _is_not_the_bridge(record: logging.LogRecord) -> bool:
    return "while sending command" not in str(record.msg)


@contextmanager
def _environment(python: str | None, *, local: bool) -> Iterator[None]:
    """What Spark's Java reads from the environment when it starts; put back afterwards, it is not ours.
    `python`: that of the workers, of which the driver learns by the environment alone."""
    wanted = {
        "JAVA_HOME": str(java.home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(java.cached_file("spark/log4j2.properties", LOGGING).parent),
    }
    if local:
        wanted["SPARK_LOCAL_IP"] = "127.0.0.1"
    before = {name: os.environ.get(name) for name in (*wanted, "SPARK_REMOTE")}
    os.environ.pop("SPARK_REMOTE", None)  # a master was asked for: Spark refuses to have both
    for name, value in wanted.items():
        if name == "JAVA_HOME" or before[name] is None:
            os.environ[name] = value
    if python is not None:
        os.environ["PYSPARK_PYTHON"] = python
    try:
        yield
    finally:
        for name, old in before.items():
            os.environ.pop(name, None)
            if old is not None:
                os.environ[name] = old


def is_remote(spark: SparkSession) -> bool:
    """Whether this is a session of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_local(spark: SparkSession) -> bool:
    """Whether tasks run in the folder that this process runs in."""
    return not is_remote(spark) and str(spark.sparkContext.master).startswith("local")


def cores(spark: SparkSession) -> int:
    """How many tasks run at once, as the place says where they run."""
    if not is_remote(spark):
        return spark.sparkContext.defaultParallelism
    parts = spark.range(1 << 16).select(F.spark_partition_id().alias("part"))
    return parts.distinct().count()
