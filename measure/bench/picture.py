"""The roofline as a picture: one self-contained SVG, for light and dark pages, without a library or a network."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from precast.measure.bench.report import Report
from precast.measure.timing.ceilings import Ceilings

_WIDTH, _HEIGHT = 860, 540
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 30, 50, 60
_COLOURS = (
    "#3b82f6",
    "#ef4444",
    "#10b981",
    "#f59e0b",
    "#8b5cf6",
    "#ec4899",
    "#14b8a6",
    "#84cc16",
    "#f97316",
    "#64748b",
)
_LETTER = 6.2  # the width of a letter of a label
_LINE = 13
_STYLE = (
    "svg{color:#1f2328;background:#fff;font:12px system-ui,sans-serif}"
    "@media(prefers-color-scheme:dark){svg{color:#e6edf3;background:#0d1117}}"
    "text{fill:currentColor}.grid{stroke:currentColor;stroke-opacity:.12}.roof{stroke:currentColor;stroke-width:1.5;fill:none}"
    ".label{font-size:11px}circle{fill-opacity:.75}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One variant on one problem: operations for each counted byte, and TFLOP/s."""

    op: str
    intensity: float
    rate: float
    share: float
    text: str


def dots(report: Report) -> list[Dot]:
    """The rows of a report that can be drawn: those of kernels that declare both bytes and operations."""
    result = []
    for row, at in report.standings():
        timing = row.timing
        if at is not None and at.moved and timing.flops:
            rate = timing.flops / timing.microseconds / 1e6
            sizes = " ".join(f"{name}={size}" for name, size in timing.problem.items())
            text = f"{row.op} {sizes}: {timing.microseconds:.2f} us, {at.share:.0%}"
            result.append(Dot(op=row.op, intensity=timing.flops / at.moved, rate=rate, share=at.share, text=text))
    return result


def picture(drawn: Sequence[Dot], ceilings: Ceilings, title: str) -> str:
    """The dots under the roofline; for each op the dot with the largest share is labelled.

    >>> dot = Dot(op="copy", intensity=0.25, rate=0.9, share=0.9, text="copy n=8")
    >>> made = picture([dot], Ceilings(bandwidth=4000.0, rates={"bfloat16": 800.0}), "NVIDIA H200")
    >>> made.count("<circle"), "800 TFLOP/s" in made
    (1, True)
    """
    rates = ceilings.rates or {"": max((dot.rate for dot in drawn), default=1.0)}
    plot = _Plot.around(drawn, ceilings.bandwidth / 1e3, rates.values())
    ops = sorted({dot.op for dot in drawn})
    colours = {op: _COLOURS[number % len(_COLOURS)] for number, op in enumerate(ops)}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        _text(_LEFT, 24, title, "font-weight:600"),
        *_axes(plot),
        *_roofs(plot, ceilings.bandwidth, ceilings.rates),
        *(
            f'<circle cx="{plot.x(dot.intensity):.1f}" cy="{plot.y(dot.rate):.1f}" r="3.5" fill="{colours[dot.op]}">'
            f"<title>{escape(dot.text)}</title></circle>"
            for dot in drawn
        ),
        *_labels(plot, [max((d for d in drawn if d.op == op), key=lambda d: d.share) for op in ops]),
        "</svg>\n",
    ]
    return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class _Plot:
    """The scales: the powers of ten at the ends of the axes."""

    left: int
    right: int
    low: int
    high: int

    @classmethod
    def around(cls, dots: Iterable[Dot], bandwidth: float, rates: Iterable[float]) -> _Plot:
        listed, most = list(dots), max(rates)
        ridge = most / bandwidth
        across = [*(dot.intensity * 0.8 for dot in listed), *(dot.intensity for dot in listed), ridge, ridge * 4]
        up = [*(dot.rate for dot in listed), most * 1.5]
        left, low = _floor(min(across)), _floor(min([*up, bandwidth * 10 ** _floor(min(across))]))
        return cls(left, _floor(max(across)) + 1, max(low, _floor(max(up)) - 8), _floor(max(up)) + 1)

    def x(self, intensity: float) -> float:
        share = (math.log10(intensity) - self.left) / (self.right - self.left)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, rate: float) -> float:
        share = (math.log10(rate) - self.low) / (self.high - self.low)
        return _HEIGHT - _BOTTOM - max(0.0, share) * (_HEIGHT - _TOP - _BOTTOM)


def _floor(value: float) -> int:
    return math.floor(math.log10(value))


def _axes(plot: _Plot) -> Iterable[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for power in range(plot.left, plot.right + 1):
        x = plot.x(10.0**power)
        yield f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}"/>'
        yield _text(x, bottom + 18, f"{10.0**power:g}", "text-anchor:middle")
    for power in range(plot.low, plot.high + 1):
        y = plot.y(10.0**power)
        yield f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>'
        yield _text(_LEFT - 8, y + 4, f"{10.0**power:g}", "text-anchor:end")
    yield _text((_LEFT + right) / 2, _HEIGHT - 16, "operations for each byte of memory", "text-anchor:middle")
    yield f'<text transform="translate(16 {(_TOP + bottom) / 2:.0f}) rotate(-90)" text-anchor="middle">TFLOP/s</text>'


def _roofs(plot: _Plot, bandwidth: float, rates: Mapping[str, float]) -> Iterable[str]:
    """The slope of memory up to the highest rate, and a level for each rate."""
    slope = bandwidth / 1e3
    most = max(rates.values(), default=10.0**plot.high)
    begin = max(10.0**plot.left, 10.0**plot.low / slope)
    end = min(10.0**plot.right, most / slope)
    points = f"{plot.x(begin):.1f},{plot.y(begin * slope):.1f} {plot.x(end):.1f},{plot.y(end * slope):.1f}"
    yield f'<polyline class="roof" points="{points}"/>'
    middle = math.sqrt(begin * end)  # of the slope: to the left and above of a point the line is not
    yield _text(plot.x(middle) - 6, plot.y(middle * slope) - 6, f"{bandwidth:.0f} GB/s", "text-anchor:end")
    for name, rate in sorted(rates.items()):
        y = plot.y(rate)
        yield f'<polyline class="roof" points="{plot.x(rate / slope):.1f},{y:.1f} {_WIDTH - _RIGHT},{y:.1f}"/>'
        yield _text(_WIDTH - _RIGHT, y - 5, f"{name} {rate:.0f} TFLOP/s", "text-anchor:end")


def _labels(plot: _Plot, best: Iterable[Dot]) -> Iterable[str]:
    """Labels beside their dots, or moved down so that none covers another."""
    taken: list[tuple[float, float, float]] = []
    for dot in sorted(best, key=lambda dot: -dot.rate):
        text = f"{dot.op} {dot.share:.0%}"
        width = len(text) * _LETTER
        x = min(plot.x(dot.intensity) + 7, _WIDTH - _RIGHT - width)
        y = plot.y(dot.rate) + 4
        while any(abs(y - other) < _LINE and x < right and left < x + width for left, right, other in taken):
            y += _LINE
        taken.append((x, x + width, y))
        yield _text(x, y, text, css="label")


def _text(x: float, y: float, text: str, style: str = "", css: str = "") -> str:
    extra = (f' style="{style}"' if style else "") + (f' class="{css}"' if css else "")
    return f'<text x="{x:.1f}" y="{y:.1f}"{extra}>{escape(text)}</text>'
