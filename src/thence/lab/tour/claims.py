"""What the tour claims, and whether it held. Invariant: a claim that was made is in the summary."""

from dataclasses import dataclass, field

from rich.markup import escape
from rich.table import Table

from thence.local.console import out


@dataclass(slots=True)
class Step:
    title: str
    short: str
    claims: list[tuple[str, bool]] = field(default_factory=list)

    @property
    def held(self) -> int:
        return sum(held for _, held in self.claims)


class Claims:
    def __init__(self) -> None:
        self.steps: list[Step] = []

    def step(self, title: str, short: str) -> None:
        self.steps.append(Step(title, short))
        out.print(f"[bold]{len(self.steps)}. {escape(title)}[/]")

    def claim(self, text: str, held: bool) -> None:
        self.steps[-1].claims.append((text, held))
        out.print(f"  {'[green]✓[/]' if held else '[red]✗[/]'} {escape(text)}")

    def tell(self, text: str) -> None:
        """What is worth knowing and claims nothing."""
        out.print(f"    {escape(text)}", style="dim")

    @property
    def held(self) -> bool:
        """All of them, and there were some."""
        return any(step.claims for step in self.steps) and all(
            step.held == len(step.claims) for step in self.steps
        )

    def summary(self) -> Table:
        table = Table("step", "claims", "held", box=None)
        for number, step in enumerate(self.steps, 1):
            table.add_row(f"{number}. {step.short}", str(len(step.claims)), str(step.held))
        return table
