"""The page of the tour: one HTML file that holds everything, figures included."""

import base64
from html import escape

from thence.cli.tour.claims import Claims, Step
from thence.experiments.page import STYLE
from thence.pipeline.report import RunReport
from thence.trace.schema import VERDICTS

EXTRA = """
ul { list-style: none; padding-left: 0 } li { margin: .25em 0 } li::before { margin-right: .5em }
li.ok::before { content: "✓"; color: #0b6e4f } li.bad::before { content: "✗"; color: #b00020 }
li.ok { color: #222 } h3 { font-weight: 600; margin-bottom: .2em }
td:nth-child(n+2), th:nth-child(n+2) { text-align: right } td.bad { font-weight: 600 }
"""

SAYS = (
    "Every node was a process, every link a TCP connection, every message in a log before anybody saw it. "
    "What is shown comes from the nodes' traces and from what they said of themselves; the verdicts are "
    "Spark's, from the traces alone."
)


def page(claims: Claims, images: list[tuple[str, bytes]], judged: dict[str, RunReport], command: str) -> str:
    pictures = "\n".join(
        f'<img alt="{escape(name)}" src="data:image/png;base64,{base64.b64encode(image).decode()}">'
        for name, image in images
    )
    verdict = "Everything held." if claims.held else "Something did not hold: see below."
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>thence demo</title>
<meta name="viewport" content="width=device-width"><style>{STYLE}{EXTRA}</style></head><body>
<h1>thence demo</h1><p class="lead">{escape(SAYS)}</p>
<p>Made with <code>{escape(command)}</code>.
<span class="{"ok" if claims.held else "bad"}">{escape(verdict)}</span></p>
<div class="figures">{pictures}</div>
<h2>Verdicts</h2>{_verdicts(judged)}
<h2>What was claimed</h2>{"".join(_step(number, step) for number, step in enumerate(claims.steps, 1))}
</body></html>
"""


def _verdicts(judged: dict[str, RunReport]) -> str:
    columns = ("trace", "nodes", "sends", "deliveries", "stables", *VERDICTS)
    head = "".join(f"<th>{column}</th>" for column in columns)
    body = "".join(_judged(title, run) for title, run in judged.items())
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _judged(title: str, run: RunReport) -> str:
    counts = "".join(f"<td>{count:,}</td>" for count in (run.nodes, run.sends, run.deliveries, run.stables))
    found = "".join(
        f'<td class="{"bad" if run.violations[verdict] else "ok"}">{run.violations[verdict]:,}</td>'
        for verdict in VERDICTS
    )
    return f"<tr><td>{escape(title)}</td>{counts}{found}</tr>"


def _step(number: int, step: Step) -> str:
    items = "".join(
        f'<li class="{"ok" if held else "bad"}">{escape(text)}</li>' for text, held in step.claims
    )
    return f"<h3>{number}. {escape(step.title)}</h3><ul>{items}</ul>"
