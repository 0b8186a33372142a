"""The one Spark session of a process, with settings that suit packed binaries.

Starting one takes seconds, so whoever needs Spark shares it. Settings are those of a laptop by default;
a `master` other than local brings its own sizes.
"""

import atexit
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from thence.core.errors import UsageError
from thence.pipeline import java

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


FAILURES: Final = (Py4JError, PySparkException, MemoryError, OSError)
"""What it is when Spark or the machine has failed, and not the trace."""


def reason(error: BaseException) -> str:
    """The line of a long account that says what happened."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next(
        (line for line in reversed(lines) if line and not line.startswith("at ")), type(error).__name__
    )


def session(master: str | None = None) -> SparkSession:
    """The running session, or a new one on `master` (default: all cores of this machine)."""
    _quieten_interrupts()
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    master = master or f"local[{os.cpu_count() or 2}]"
    settings = dict(SETTINGS)
    if master.startswith("local"):
        settings |= LOCAL
    builder = SparkSession.builder.master(master).appName("thence")
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _environment(local=master.startswith("local")):
        try:
            spark = builder.getOrCreate()
        except (Py4JError, PySparkException) as error:
            raise UsageError(f"Spark did not start on {master}: {reason(error)}") from error
    if not master.startswith("local["):
        atexit.register(spark.stop)  # a cluster takes a driver that just vanishes for a failure
    return spark


def _quieten_interrupts() -> None:
    """Ctrl-C is ours to tell of: without this, the bridge to Java shows the insides of its sockets."""
    root = logging.getLogger()
    if _is_not_the_bridge not in root.filters:
        root.addFilter(_is_not_the_bridge)


def _is_not_the_bridge(record: logging.LogRecord) -> bool:
    return "while sending command" not in str(record.msg)


@contextmanager
def _environment(*, local: bool) -> Iterator[None]:
    """What Spark's Java reads from the environment when it starts; put back afterwards, it is not ours."""
    wanted = {
        "JAVA_HOME": str(java.home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(java.cached_file("spark/log4j2.properties", LOGGING).parent),
    }
    if local:
        wanted["SPARK_LOCAL_IP"] = "127.0.0.1"
    before = {name: os.environ.get(name) for name in wanted}
    for name, value in wanted.items():
        if name == "JAVA_HOME" or before[name] is None:
            os.environ[name] = value
    try:
        yield
    finally:
        for name, old in before.items():
            os.environ.pop(name, None)
            if old is not None:
                os.environ[name] = old


def cores(spark: SparkSession) -> int:
    """How many tasks run at once, as far as the settings tell."""
    told = spark.conf.get("spark.default.parallelism", None)
    if told:
        return int(told)
    local = re.fullmatch(r"local\[(\d+|\*).*\]", spark.conf.get("spark.master") or "")
    if local is None:
        return int(spark.conf.get("spark.cores.max", None) or 8)
    return os.cpu_count() or 2 if local.group(1) == "*" else int(local.group(1))
