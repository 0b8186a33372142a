"""One figure of a benchmark."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    value: float
    unit: str
    baseline: float | None = None
    """The same unit, measured in the same run on something simpler."""

    @property
    def ratio(self) -> float | None:
        return self.value / self.baseline if self.baseline else None

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.name, "value": self.value, "unit": self.unit, "baseline": self.baseline,
            "ratio": self.ratio,
        }  # fmt: skip
