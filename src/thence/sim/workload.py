"""When nodes send: section 8.1.1 of the tagged causal broadcast document."""

import math
from collections.abc import Callable
from random import Random

from thence.sim.settings import SimSettings


def intervals(settings: SimSettings, random: Random) -> Callable[[], int]:
    """Microseconds until a node's next message: fixed, or Poisson arrivals truncated at four means."""
    mean = max(1, round(settings.interval_ms * 1000))
    if settings.interval == "fixed":
        return lambda: mean
    draw, log, longest = random.random, math.log, 4 * mean
    return lambda: min(int(-mean * log(1.0 - draw())), longest)
