"""An SVG file of shapes and texts, whose colours follow the reader's preference for light or dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

LIGHT = {
    "paper": "#ffffff", "ink": "#1f2328", "soft": "#59636e", "line": "#d8dee4", "panel": "#f6f8fa",
    "ours": "#2563c9", "good": "#2a7d5f", "peer": "#a8b1bb", "pale": "#d3d9e0", "behind": "#b7791f", "wait": "#e0a458",
}  # fmt: skip
DARK = {
    "paper": "#0d1117", "ink": "#e6edf3", "soft": "#9198a1", "line": "#2d343d", "panel": "#161b22",
    "ours": "#5b9bf3", "good": "#4fb08c", "peer": "#6b7480", "pale": "#3a424c", "behind": "#d9a24a", "wait": "#b9813a",
}  # fmt: skip
FONT = "system-ui,-apple-system,'Segoe UI','Noto Sans',Helvetica,Arial,sans-serif"
SIZES = {"title": 14.0, "label": 12.0, "small": 11.0}
TIMES = "\N{MULTIPLICATION SIGN}"
FULL, NARROW = 736, 368
"""The widths of a picture: beside the text of a page, and on a telephone."""
LEGEND_ROW = 18
WIDE = 0.62  # of its size, a letter at most in the mean, in the fonts that systems have


def width_of(text: str, role: str = "label") -> float:
    """The room that a text takes at most.

    >>> width_of("gemm") < width_of("rmsnorm")
    True
    """
    return len(text) * SIZES[role] * WIDE


@dataclass(slots=True)
class Picture:
    """A picture of a size; ``title`` is what a reader without eyes gets."""

    width: int
    height: float
    title: str
    shapes: list[str] = field(default_factory=list)

    def box(
        self, x: float, y: float, wide: float, high: float, fill: str, *, title: str = "", round: float = 2
    ) -> None:
        """A filled box."""
        note = f"<title>{escape(title)}</title>" if title else ""
        place = f'x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}"'
        self.shapes.append(f'<rect class="f-{fill}" {place} rx="{round:g}">{note}</rect>')

    def frame(self, x: float, y: float, wide: float, high: float, *, fill: str = "panel") -> None:
        """A box with an edge."""
        self.shapes.append(
            f'<rect class="f-{fill} s-line" x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" rx="10"/>'
        )

    def line(self, x: float, y: float, x2: float, y2: float, stroke: str = "line", *, dashed: bool = False) -> None:
        """A line."""
        dash = ' stroke-dasharray="3 3"' if dashed else ""
        self.shapes.append(f'<path class="s-{stroke}"{dash} d="M{x:.1f} {y:.1f}L{x2:.1f} {y2:.1f}"/>')

    def curve(self, points: list[tuple[float, float]], stroke: str) -> None:
        """A line through points."""
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.shapes.append(f'<path class="s-{stroke} thick" d="M{path}"/>')

    def arrow(self, path: str) -> None:
        """A line with a head at its end."""
        self.shapes.append(f'<path class="s-soft" d="{path}" marker-end="url(#head)"/>')

    def dot(self, x: float, y: float, fill: str, *, title: str = "", radius: float = 3) -> None:
        """A point, half transparent, so that points at one place add up."""
        note = f"<title>{escape(title)}</title>" if title else ""
        self.shapes.append(f'<circle class="f-{fill} dot" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}">{note}</circle>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        role: str = "label",
        *,
        fill: str = "ink",
        at: str = "start",
        more: str = "",
    ) -> None:
        """A text; ``role`` is title, label or small, ``more`` further classes."""
        names = " ".join(filter(None, (role, f"f-{fill}", more)))
        self.shapes.append(
            f'<text class="{names}" x="{x:.1f}" y="{y:.1f}"'
            f"{'' if at == 'start' else f' text-anchor={quoteattr(at)}'}>{escape(text)}</text>"
        )

    def legend(self, x: float, y: float, entries: Sequence[tuple[str, str]]) -> float:
        """Colours and what they mean, in rows; the y of the last row is returned."""
        left = x
        for fill, text in entries:
            taken = 15 + width_of(text, "small")
            if x > left and x + taken > self.width:
                x, y = left, y + LEGEND_ROW
            self.box(x, y - 9, 10, 10, fill)
            self.text(x + 15, y, text, "small", fill="soft")
            x += taken + 14
        return y

    def to_svg(self) -> str:
        """The bytes of the file."""
        size = f"{self.width} {self.height:g}"
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height:g}"'
            f' viewBox="0 0 {size}" role="img" aria-label={quoteattr(self.title)}>'
        )
        marker = (
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
            ' orient="auto">'
            '<path class="f-soft" d="M0 0L8 4L0 8Z"/></marker></defs>'
        )
        paper = '<rect class="f-paper" width="100%" height="100%"/>'
        return "\n".join([head, f"<style>{style()}</style>", marker, paper, *self.shapes, "</svg>\n"])


def style() -> str:
    """The style sheet: roles of texts, and each colour twice."""
    roles = "".join(f".{name}{{font-size:{size:g}px}}" for name, size in SIZES.items())
    base = f"text{{font-family:{FONT}}}{roles}.title{{font-weight:600}}.bold{{font-weight:600}}"
    base += ".mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}"
    base += "path{fill:none;stroke-width:1}.thick{stroke-width:2}.dot{fill-opacity:.7}"
    return f"{base}{_colours(LIGHT)}@media(prefers-color-scheme:dark){{{_colours(DARK)}}}"


def _colours(theme: dict[str, str]) -> str:
    strokes = ("line", "soft", "ours", "good", "peer", "behind")
    return "".join(f".f-{name}{{fill:{value}}}" for name, value in theme.items()) + "".join(
        f".s-{name}{{stroke:{theme[name]}}}" for name in strokes
    )
