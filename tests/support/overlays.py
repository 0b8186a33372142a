"""Runs of simulated overlays in memory, and what their traces say."""

from io import BytesIO

from support.traces import read
from thence.sim.overlay import OverlayOutcome, OverlayRun
from thence.sim.overlay_settings import OverlaySettings
from thence.spread.overlays import OverlayKind
from thence.trace.schema import Event


def simulated(
    settings: OverlaySettings, kind: OverlayKind | None = None
) -> tuple[OverlayOutcome, list[Event], OverlayRun]:
    """What came of it, the trace, and the run itself to look into."""
    sink = BytesIO()
    run = OverlayRun(settings, sink, kind=kind)
    outcome = run()
    sink.seek(0)
    return outcome, read(sink), run
