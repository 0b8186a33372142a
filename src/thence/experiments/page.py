"""The page of an experiment: one HTML file that holds everything, figures included."""

import base64
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from thence.experiments.documented import Documented

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 1080px;
  margin: 2em auto; padding: 0 1em }
h1 { font-weight: 600; margin-bottom: 0 } h2 { margin-top: 2em; font-weight: 600 }
p.lead { color: #555; margin-top: .3em } .ok { color: #0b6e4f } .bad { color: #b00020 }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(470px, 1fr)); gap: 18px }
.figures img { width: 100%; border: 1px solid #e4e4e4; border-radius: 6px }
table { border-collapse: collapse; width: 100%; font-size: 14px } th { text-align: left; font-weight: 600 }
th, td { padding: 5px 10px; border-bottom: 1px solid #e8e8e8; vertical-align: top }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
td.why { color: #555 } td:nth-child(-n+3) { white-space: nowrap }
code { background: #f4f4f4; padding: 1px 4px; border-radius: 3px }
"""


def number(value: float) -> str:
    """Three significant digits, without powers of ten."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def page(
    title: str,
    says: str,
    command: str,
    verdict: str,
    fine: bool,
    beside: str,
    images: list[tuple[str, bytes]],
) -> str:
    """`beside` is the table with the document's figures, already HTML."""
    pictures = "\n".join(
        f'<img alt="{escape(name)}" src="data:image/png;base64,{base64.b64encode(image).decode()}">'
        for name, image in images
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>
<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>
<h1>{escape(title)}</h1><p class="lead">{escape(says)}</p>
<p>Made with <code>{escape(command)}</code>.
<span class="{"ok" if fine else "bad"}">{escape(verdict)}</span></p>
<div class="figures">{pictures}</div>
<h2>Beside the document</h2>{beside}
</body></html>
"""


def beside(documented: list[Documented], results: list[dict[str, Any]]) -> tuple[str, list[dict[str, str]]]:
    """The table with the document's figure beside ours at the largest size, as HTML and as rows."""
    rows = []
    for entry in documented:
        ours = [
            result
            for result in results
            if (result["order"], result["stability"], result["load"])
            == (entry.order, entry.stability, entry.load)
        ]
        if not ours:
            continue
        largest = max(ours, key=lambda result: int(result["size"]))
        value = largest[entry.measure] * (0.008 if entry.measure == "memory_words" else 1)
        rows.append(
            {
                "what": entry.what,
                "engine": entry.order,
                "load": entry.load,
                "document (128 peers)": entry.theirs,
                "ours": f"{number(value)} {entry.unit}".strip(),
                "peers": str(largest["size"]),
                "why they differ": entry.why,
            }
        )
    if not rows:
        return "<p>The document's text gives no number for this.</p>", rows
    return table(rows, CLASSES), rows


CLASSES = {"ours": "n", "document (128 peers)": "n", "peers": "n", "why they differ": "why"}


def table(rows: Sequence[Mapping[str, str]], classes: Mapping[str, str]) -> str:
    """Rows with the same keys, and the style of some columns."""
    head = "".join(f"<th>{escape(key)}</th>" for key in rows[0])
    body = "".join(
        "<tr>"
        + "".join(f'<td class="{classes.get(key, "")}">{escape(cell)}</td>' for key, cell in row.items())
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
