"""Others' test suites against one node with a store: what is there is run, nothing is fetched.

    pip download --no-deps --no-binary :all: redis==6.4.0; mkdir suites; tar xzf redis-6.4.0.tar.gz -C suites
    pip install redis pytest-asyncio
    make compat SUITES=suites

What is skipped is in tests/compat, a reason each.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from thence.cli.layout import free_ports
from thence.runtime.remote import Control

ROOT = Path(__file__).parents[1]
FILES = ("tests/test_commands.py", "tests/test_pipeline.py", "tests/test_encoding.py")
PATIENCE_S = 30.0


def skips(name: str) -> str:
    lines = (ROOT / "tests" / "compat" / name).read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[0] for line in lines if line and not line.startswith("#")]
    return "not (" + " or ".join(names) + ")"


def redis_py(folder: Path, port: int) -> int:
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:warnings", *FILES,
        f"--redis-url=redis://127.0.0.1:{port}/9", "-k", skips("redis_py.txt"),
    ]  # fmt: skip
    return subprocess.run(command, cwd=folder, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--suites", type=Path, default=Path("suites"))
    suites = parser.parse_args().suites
    found = sorted(suites.glob("redis-*/tests/test_commands.py"))
    if not found:
        print(f"no suites in {suites}: see the head of {Path(__file__).name}", file=sys.stderr)
        return 2
    port = free_ports(1)
    with tempfile.TemporaryDirectory() as data:
        node = subprocess.Popen(
            [sys.executable, "-m", "thence.cli.main", "node", "--name", "a", "--data", data, "--listen",
             f"127.0.0.1:{free_ports(1)}", "--resp", f"127.0.0.1:{port}", "--log-level", "warn"]
        )  # fmt: skip
        try:
            until = time.monotonic() + PATIENCE_S
            while not (Path(data) / "control.json").exists() or Control.of(Path(data)).health() is not None:
                if time.monotonic() > until or node.poll() is not None:
                    print("the node does not come up", file=sys.stderr)
                    return 1
                time.sleep(0.1)
            return max(redis_py(path.parents[1], port) for path in found)
        finally:
            node.terminate()
            node.wait()


if __name__ == "__main__":
    sys.exit(main())
