"""One HTML file that holds everything: the verdict on top, figures, tables, and how to make it again.

Figures are there twice: as drawings, for those who print or run no scripts, and as what the scripts draw
instead, with tooltips and a menu that saves them as PNG or SVG. Nothing is loaded from anywhere.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from thence.pages.charts import Chart, library

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 1080px;
  margin: 2em auto; padding: 0 1em }
h1 { font-weight: 600; margin-bottom: 0 } h2 { margin-top: 2em; font-weight: 600 }
h3 { font-weight: 600; margin-bottom: .2em }
p.lead { color: #555; margin-top: .3em } .ok { color: #0b6e4f } .bad { color: #b00020 }
.planted { color: #31688e; font-weight: 600 }
p.verdict { font-size: 18px; font-weight: 600; border-left: 5px solid; padding: .3em .8em;
  background: #f7f7f7 }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(470px, 100%), 1fr)); gap: 18px }
figure { margin: 0; border: 1px solid #e4e4e4; border-radius: 6px; padding: 8px; min-width: 0;
  overflow: hidden }
figcaption { font-size: 14px; font-weight: 600; margin: 2px 44px 4px 2px }
figure .plot { width: 100% } figure svg { max-width: 100%; height: auto }
.wide { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-size: 14px } th { text-align: left; font-weight: 600 }
th, td { padding: 5px 10px; border-bottom: 1px solid #e8e8e8; vertical-align: top }
th.n, td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
td.why { color: #555; min-width: 16em } td.bad { font-weight: 600 } td.name { white-space: nowrap }
ul.claims { list-style: none; padding-left: 0 } ul.claims li { margin: .25em 0 }
li.ok::before { content: "✓"; color: #0b6e4f; margin-right: .5em } li.ok { color: #222 }
li.bad::before { content: "✗"; color: #b00020; margin-right: .5em }
table.dense { font-size: 13px } table.dense th, table.dense td { padding: 4px 6px }
code { background: #f4f4f4; padding: 1px 4px; border-radius: 3px; overflow-wrap: anywhere }
@media (max-width: 520px) { body { margin: 1em auto; padding: 0 .7em } h1 { font-size: 24px }
  table.cards thead { display: none } table.cards tr { display: block; padding: .4em 0;
    border-bottom: 1px solid #ccc }
  table.cards td { display: flex; justify-content: space-between; gap: 1em; border: 0; padding: 1px 4px;
    min-width: 0; text-align: right; white-space: normal; overflow-wrap: anywhere }
  table.cards td:empty { display: none }
  table.cards td::before { content: attr(data-of); color: #555; font-weight: 400; white-space: nowrap } }
"""
MOST_CARDS = 40
"""Rows of a table that stand one below the other where the screen is narrow; longer ones scroll sideways."""

DRAW = """
const specs = %s;
specs.forEach((spec, k) => {
  const place = document.getElementById("plot-" + k);
  if (spec.width) { spec.width = "container"; spec.autosize = {type: "fit-x", contains: "padding"}; }
  if (place.clientWidth < 420) spec.config.legend.columns = 2;
  const actions = {export: true, source: false, compiled: false, editor: false};
  vegaEmbed(place, spec, {actions, renderer: "svg", downloadFileName: place.dataset.name});
});
"""


@dataclass(slots=True)
class Page:
    title: str
    says: str
    verdict: str
    fine: bool
    command: str
    seed: str = ""
    sections: list[tuple[str, str]] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)

    def figures(self, title: str, charts: Sequence[Chart]) -> None:
        """A section of figures; without a title it follows what is there."""
        drawn = []
        for number, chart in enumerate(charts, len(self.charts)):
            place = f'class="plot" id="plot-{number}" data-name="{escape(chart.file_name)}"'
            caption = f"<figcaption>{escape(chart.title)}</figcaption>"
            drawn.append(f"<figure>{caption}<div {place}>{chart.untitled.svg()}</div></figure>")
        self.charts += charts
        self.sections.append((title, f'<div class="figures">{"".join(drawn)}</div>'))

    def section(self, title: str, html: str) -> None:
        self.sections.append((title, html))

    def html(self) -> str:
        told = "".join(
            f"{f'<h2>{escape(title)}</h2>' if title else ''}{html}\n" for title, html in self.sections
        )
        seed = f" Seed: {escape(self.seed)}." if self.seed else ""
        return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(self.title)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head><body>
<h1>{escape(self.title)}</h1><p class="lead">{escape(self.says)}</p>
<p class="verdict {"ok" if self.fine else "bad"}">{escape(self.verdict)}</p>
<p>Made with <code>{escape(self.command)}</code>.{seed}</p>
{told}{self._scripts()}</body></html>
"""

    def _scripts(self) -> str:
        if not self.charts:
            return ""
        specs = json.dumps([chart.untitled.spec for chart in self.charts]).replace("</", "<\\/")
        return f"<script>{library()}</script>\n<script>{DRAW % specs}</script>\n"


def wide(head: str, body: str, kind: str = "") -> str:
    """A table that scrolls by itself where it is wider than the page."""
    inner = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="wide"><table class="{kind}">{inner}</table></div>'


def table(rows: Sequence[Mapping[str, str]], classes: Mapping[str, str], kind: str = "") -> str:
    """Rows with the same keys, and the style of some columns; `n` is for numbers."""
    return styled([{key: (cell, classes.get(key, "")) for key, cell in row.items()} for row in rows], kind)


def styled(rows: Sequence[Mapping[str, tuple[str, str]]], kind: str = "") -> str:
    """The same with a style for each cell."""
    head = "".join(
        f'<th class="{"n" if style.split()[:1] == ["n"] else ""}">{escape(key)}</th>'
        for key, (_, style) in rows[0].items()
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<td class="{style}" data-of="{escape(key)}">{escape(cell)}</td>'
            for key, (cell, style) in row.items()
        )
        + "</tr>"
        for row in rows
    )
    return wide(head, body, f"{kind} cards" if len(rows) <= MOST_CARDS else kind)
