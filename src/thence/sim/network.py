"""Links of a simulated network: latency, loss, duplication, reordering, cuts.

Latency follows section 8.1.2 of the tagged causal broadcast document: a baseline for all links or
one per pair, as it is or times (1 + a Weibull sample), truncated at baseline × (1 + 3 × scale). With
scale 0.15 and shape 2 the mean is 1.1329 baselines.
"""

import math
from collections.abc import Callable
from pathlib import Path
from random import Random

from thence.core.errors import UsageError
from thence.sim.settings import SimSettings

Latency = Callable[[int, int], int]
"""From sender and receiver to a sample in microseconds."""


def read_matrix(path: Path, nodes: int) -> list[list[float]]:
    """A latency matrix in milliseconds: row = sender, column = receiver."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read the latency matrix {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the latency matrix {path} is not a text file") from error
    rows = [line for line in text.splitlines() if line.strip()]
    if len(rows) != nodes:
        raise UsageError(f"the latency matrix {path} has {len(rows)} rows for {nodes} nodes")
    matrix = []
    for number, line in enumerate(rows, 1):
        try:
            row = [float(cell) for cell in line.split(",")]
        except ValueError as error:
            raise UsageError(f"the latency matrix {path}, row {number}: {error}") from error
        if len(row) != nodes or not all(0 <= cell < math.inf for cell in row):
            raise UsageError(f"the latency matrix {path}, row {number}: need {nodes} latencies of 0 or more")
        matrix.append(row)
    return matrix


def baselines(settings: SimSettings, slow: frozenset[tuple[int, int]]) -> list[list[int]]:
    """The baseline of every link in microseconds, slow links included."""
    nodes = settings.nodes
    if settings.latency_matrix is not None:
        matrix = read_matrix(settings.latency_matrix, nodes)
    else:
        matrix = [[settings.latency_ms] * nodes for _ in range(nodes)]
    for sender, receiver in slow:
        matrix[sender][receiver] *= settings.slow_factor
    return [[round(cell * 1000) for cell in row] for row in matrix]


def latency(settings: SimSettings, slow: frozenset[tuple[int, int]], random: Random) -> Latency:
    """How long a packet takes. Slow links stay fixed, as in section 8.1.3."""
    if not slow and settings.latency_matrix is None:  # no square of the group's size
        return _alike(settings, random)
    base = baselines(settings, slow)
    if settings.latency == "fixed":
        return lambda sender, receiver: base[sender][receiver]
    scale, power, longest = settings.weibull_scale, 1 / settings.weibull_shape, 3 * settings.weibull_scale
    draw, log = random.random, math.log

    def sample(sender: int, receiver: int) -> int:
        baseline = base[sender][receiver]
        if slow and (sender, receiver) in slow:
            return baseline
        extra = scale * (-log(1.0 - draw())) ** power
        return baseline + int(baseline * (extra if extra < longest else longest))

    return sample


def _alike(settings: SimSettings, random: Random) -> Latency:
    """All links have one baseline."""
    baseline = round(settings.latency_ms * 1000)
    if settings.latency == "fixed":
        return lambda sender, receiver: baseline  # noqa: ARG005
    scale, power, longest = settings.weibull_scale, 1 / settings.weibull_shape, 3 * settings.weibull_scale
    draw, log = random.random, math.log

    def sample(sender: int, receiver: int) -> int:  # noqa: ARG001
        extra = scale * (-log(1.0 - draw())) ** power
        return baseline + int(baseline * (extra if extra < longest else longest))

    return sample
