"""The oracle: verdicts over a trace in memory, for tests and to hold the pipeline against."""

from thence.check.oracle import Flag, RunVerdict, judge

__all__ = ["Flag", "RunVerdict", "judge"]
