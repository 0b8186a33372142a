"""From a node's settings to those of the machine that it runs in a fixed group."""

import os
from random import Random

from thence.replica.live import HeraldSettings, LiveSettings, SessionSettings
from thence.runtime.attic import FileAttic
from thence.runtime.settings import NodeSettings


def live_settings(settings: NodeSettings, attic: FileAttic | None, recovering: bool) -> LiveSettings:
    mesh, stability = settings.mesh, settings.stability
    return LiveSettings(
        order=settings.order,
        spread=settings.spread,
        sessions=SessionSettings(
            ack_every_us=mesh.ack_every_us,
            window=mesh.window,
            window_bytes=mesh.window_bytes,
            relay_after_us=mesh.relay_after_us,
            relay_again_us=mesh.relay_again_us,
        ),
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
