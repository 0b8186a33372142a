"""From a node's settings to those of the machine that it runs over a tree."""

import os
from random import Random

from thence.replica.live import HeraldSettings, LiveSettings
from thence.runtime.attic import FileAttic
from thence.runtime.settings import NodeSettings


def live_settings(settings: NodeSettings, attic: FileAttic | None, recovering: bool) -> LiveSettings:
    stability = settings.stability
    return LiveSettings(
        order=settings.order,
        spread=settings.spread,
        herald=HeraldSettings(
            tell_every_us=stability.tell_every_us,
            ask_after_us=stability.ask_after_us,
            ask_max_us=stability.ask_max_us,
        ),
        stability=stability.enabled,
        inbox_max=settings.application.inbox_max,
        recovering=recovering,
        attic=attic,
        tags_max=stability.tags_max,
        neighbours=settings.tree.neighbours,
        random=Random(os.urandom(16)),
        ttl_us=settings.tree.ttl_us,
    )
