"""The way of a kernel, in short: from a manifest over a build host and a wheel to a launch."""

from __future__ import annotations

from dataclasses import dataclass

from pictures.svg import FULL, NARROW, TIMES, Picture, width_of

TITLE = (
    "A manifest is built by precast build on a machine without a GPU into a cache; precast wheel packs it; pip installs"
    " the wheel on a server without a compiler, where loader.get returns a kernel that launches"
)


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage: its name, what it is, and the text that a reader types or sees."""

    name: str
    about: str
    typed: str
    fill: str = "ink"


BUILD = (
    Stage("manifest", f"kernels {TIMES} configs", "mine.yaml"),
    Stage("cache", "compiled code", "index, blobs"),
    Stage("wheel", "what pip installs", "mine….whl"),
)
SERVER = (
    Stage("loader", "picks a variant", "loader.get"),
    Stage("kernel", "launches", "kernel(x)", fill="good"),
)
BUILD_ARROWS, SERVER_ARROWS = ("build", "wheel"), ("",)
PAD, HEAD, WIDE, HIGH, GAP, BETWEEN = 16, 42, 106, 80, 52, 46
ROW, STEP = 46, 70


def draw(width: int = FULL) -> str:
    """The picture: from left to right, or from top to bottom where it is narrow.

    >>> "loader.get" in draw() and "loader.get" in draw(368)
    True
    """
    return (_down() if width <= NARROW else _across()).to_svg()


def _across() -> Picture:
    high = HEAD + HIGH + PAD
    picture = Picture(FULL, high + 2, TITLE)
    wide = 2 * PAD + 3 * WIDE + 2 * GAP
    start = 1.0 + wide + BETWEEN
    _side(picture, 1, 1, wide, high, "ours", "BUILD HOST", "the compiler, gcc; no GPU")
    _side(picture, start, 1, FULL - 1 - start, high, "good", "SERVER", "no compiler")
    lefts = [1 + PAD + place * (WIDE + GAP) for place in range(3)]
    rights = [start + PAD, FULL - 1 - PAD - 78]
    for stages, places, widths in ((BUILD, lefts, (WIDE,) * 3), (SERVER, rights, (100, 78))):
        for stage, x, box in zip(stages, places, widths, strict=True):
            _card(picture, stage, x, box)
    ends = [*(left + WIDE for left in lefts), rights[0] + 100]
    for begin, end, text in zip(ends, [*lefts[1:], *rights], (*BUILD_ARROWS, "pip", ""), strict=True):
        picture.arrow(f"M{begin + 5:.1f} {HEAD + HIGH / 2:.1f}H{end - 4:.1f}")
        middle = (begin + end) / 2 if text != "pip" else start - BETWEEN / 2
        if text:
            picture.text(middle, HEAD + HIGH / 2 - 9, text, "small", fill="soft", at="middle", more="mono")
    return picture


def _card(picture: Picture, stage: Stage, x: float, wide: float) -> None:
    picture.frame(x, HEAD, wide, HIGH, fill="paper")
    picture.text(x + wide / 2, HEAD + 25, stage.name, "title", fill=stage.fill, at="middle")
    picture.text(x + wide / 2, HEAD + 46, stage.about, "small", fill="soft", at="middle")
    picture.text(x + wide / 2, HEAD + 65, stage.typed, "small", fill="soft", at="middle", more="mono")


def _down() -> Picture:
    picture = Picture(NARROW, 0, TITLE)
    bottom = _column(picture, 1, BUILD, BUILD_ARROWS, "ours", "BUILD HOST", "the compiler, gcc; no GPU")
    picture.arrow(f"M{NARROW / 2} {bottom + 4}V{bottom + BETWEEN - 4}")
    picture.text(NARROW / 2 + 10, bottom + BETWEEN / 2 + 4, "pip", "small", fill="soft", more="mono")
    bottom = _column(picture, bottom + BETWEEN, SERVER, SERVER_ARROWS, "good", "SERVER", "no compiler")
    picture.height = bottom + 1
    return picture


def _column(
    picture: Picture, y: float, stages: tuple[Stage, ...], arrows: tuple[str, ...], fill: str, name: str, about: str
) -> float:
    """A side with its stages, one under the other; the y below it is returned."""
    high = HEAD + STEP * (len(stages) - 1) + ROW + PAD
    _side(picture, 1, y, NARROW - 2, high, fill, name, about)
    for place, stage in enumerate(stages):
        top = y + HEAD + STEP * place
        picture.frame(1 + PAD, top, NARROW - 2 - 2 * PAD, ROW, fill="paper")
        picture.text(2 * PAD, top + 28, stage.name, "title", fill=stage.fill)
        picture.text(NARROW - 2 * PAD, top + 20, stage.about, "small", fill="soft", at="end")
        picture.text(NARROW - 2 * PAD, top + 36, stage.typed, "small", fill="soft", at="end", more="mono")
        if place < len(arrows):
            picture.arrow(f"M{NARROW / 2} {top + ROW + 4}V{top + STEP - 4}")
            picture.text(NARROW / 2 + 10, top + ROW + 16, arrows[place], "small", fill="soft", more="mono")
    return y + high


def _side(picture: Picture, x: float, y: float, wide: float, high: float, fill: str, name: str, about: str) -> None:
    picture.frame(x, y, wide, high)
    picture.text(x + PAD, y + 26, name, "small", fill=fill, more="bold")
    picture.text(x + PAD + width_of(name, "small") * 1.3, y + 26, about, "small", fill="soft")
