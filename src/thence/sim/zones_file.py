"""A topology from a file (`order.zones_text`)."""

from pathlib import Path

from thence.core.errors import UsageError
from thence.order.topology import Topology
from thence.order.zones_text import topology_of


def read_zones(path: Path) -> Topology:
    """`UsageError` says what is wrong with the file."""
    try:
        return topology_of(path.read_bytes(), str(path))
    except OSError as error:
        raise UsageError(f"cannot read the topology {path}: {error.strerror}") from error
