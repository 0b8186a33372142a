"""Figures: a chart is a Vega-Lite specification, which a page draws itself and papers take as PNG or SVG.

Every figure looks the same: title, legend below, tooltips, series that a click on the legend brings out.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import altair as alt

WIDTH: Final = 420
HEIGHT: Final = 220
COLOURS: Final = ("#0b6e4f", "#c1440e", "#33658a", "#7a1f5c", "#b8860b", "#555555", "#2a9d8f", "#9c6644")
PNG_SCALE: Final = 2


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure that is finished."""

    title: str
    spec: dict[str, Any]

    @property
    def file_name(self) -> str:
        words = "".join(letter if letter.isalnum() else " " for letter in self.title.lower()).split()
        return "-".join(words)

    def png(self) -> bytes:
        import vl_convert

        return bytes(vl_convert.vegalite_to_png(json.dumps(self.spec), scale=PNG_SCALE))

    def svg(self) -> str:
        import vl_convert

        return str(vl_convert.vegalite_to_svg(json.dumps(self.spec)))

    @property
    def untitled(self) -> "Chart":
        """For where the title stands already."""
        return Chart(self.title, {key: value for key, value in self.spec.items() if key != "title"})

    def save(self, folder: Path) -> None:
        """For papers."""
        (folder / f"{self.file_name}.png").write_bytes(self.png())
        (folder / f"{self.file_name}.svg").write_text(self.svg(), encoding="utf-8")


def finished(title: str, *layers: alt.Chart, width: int = WIDTH, height: int = HEIGHT) -> Chart:
    """The layers as one figure."""
    chart: Any = (
        alt.layer(*layers, width=width, height=height)
        .properties(title=alt.TitleParams(title, offset=14))
        .configure(background="white", font="sans-serif")
        .configure_title(fontSize=13, anchor="start")
        .configure_legend(orient="bottom", columns=4, labelLimit=220, symbolOpacity=1)
    )
    return Chart(title, chart.to_dict())


def save_all(charts: list[Chart], out: Path) -> None:
    """Every figure as PNG and SVG below `out`."""
    folder = out / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    for chart in charts:
        chart.save(folder)


@cache
def library() -> str:
    """What draws specifications in a browser, with nothing to load from elsewhere."""
    import vl_convert

    bundle: Any = vl_convert.javascript_bundle
    return str(bundle()).replace("</script", "<\\/script")
