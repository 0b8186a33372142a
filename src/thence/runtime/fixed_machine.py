"""From a node's settings to those of the machine that it runs over a tree without tags."""

import os
from random import Random

from thence.replica.live import LiveSettings
from thence.runtime.settings import NodeSettings


def live_settings(settings: NodeSettings, recovering: bool) -> LiveSettings:
    return LiveSettings(
        spread=settings.spread,
        inbox_max=settings.application.inbox_max,
        recovering=recovering,
        neighbours=settings.tree.neighbours,
        random=Random(os.urandom(16)),
        ttl_us=settings.tree.ttl_us,
    )
