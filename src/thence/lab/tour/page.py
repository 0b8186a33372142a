"""The page of the tour: figures, verdicts, and everything that was claimed."""

from html import escape

from thence.lab.tour.claims import Claims, Step
from thence.pages.charts import Chart
from thence.pages.page import Page
from thence.pages.verdicts import verdicts
from thence.pipeline.report import RunReport

SAYS = (
    "Every node was a process, every link a TCP connection, every message in a log before a program saw it. "
    "What is shown comes from the nodes' traces and from what they said of themselves; the verdicts are "
    "Spark's, from the traces alone."
)


def page(
    claims: Claims,
    charts: list[Chart],
    judged: dict[str, RunReport],
    planted: dict[str, tuple[str, ...]],
    command: str,
) -> str:
    """`planted`: by judged trace, the verdicts that had to find something in it."""
    verdict = "Everything held." if claims.held else "Something did not hold: see below."
    made = Page("thence demo", SAYS, verdict, claims.held, command)
    made.figures("", charts)
    made.section("Verdicts", verdicts(judged, planted))
    steps = "".join(_step(number, step) for number, step in enumerate(claims.steps, 1))
    made.section("What was claimed", steps)
    return made.html()


def _step(number: int, step: Step) -> str:
    items = "".join(
        f'<li class="{"ok" if held else "bad"}">{escape(text)}</li>' for text, held in step.claims
    )
    return f'<h3>{number}. {escape(step.title)}</h3><ul class="claims">{items}</ul>'
