"""The way of a kernel, in short: from a manifest over a build host and a wheel to a launch."""

from __future__ import annotations

from pictures.svg import TIMES, Picture, width_of

WIDTH, HEIGHT = 736, 172
TITLE = (
    "A manifest is built by precast build on a machine without a GPU into a cache; precast wheel packs it; pip installs"
    " the wheel on a server without a compiler, where loader.get returns a kernel that launches"
)


def draw() -> str:
    """The picture.

    >>> "precast build" in draw()
    True
    """
    picture = Picture(WIDTH, HEIGHT, TITLE)
    _side(picture, 1, 440, "ours", "BUILD HOST", "the compiler, gcc; no GPU")
    _side(picture, 489, 246, "good", "SERVER", "no compiler")
    for x, name, *lines in (
        (20, "manifest", f"kernels {TIMES} configs", "mine.yaml"),
        (168, "cache", "compiled code", "index, blobs"),
        (316, "wheel", "what pip installs", "mine….whl"),
    ):
        _stage(picture, x, 106, name, lines)
    _stage(picture, 507, 100, "loader", ("picks a variant", "loader.get"))
    _stage(picture, 636, 84, "kernel", ("launches", "kernel(x)"), fill="good")
    for start, end, text in ((126, 168, ""), (274, 316, ""), (422, 507, "pip"), (607, 636, "")):
        picture.arrow(f"M{start + 4} 88H{end - 4}")
        if text:
            picture.text((start + end) / 2, 78, text, "small", fill="soft", at="middle")
    picture.text(147, 157, "precast build", "small", fill="soft", at="middle", more="mono")
    picture.text(295, 157, "precast wheel", "small", fill="soft", at="middle", more="mono")
    picture.text(612, 157, "ready in milliseconds", "small", fill="soft", at="middle")
    return picture.to_svg()


def _side(picture: Picture, x: float, wide: float, fill: str, name: str, about: str) -> None:
    picture.frame(x, 1, wide, HEIGHT - 2)
    picture.text(x + 18, 28, name, "small", fill=fill, more="bold")
    picture.text(x + 18 + width_of(name, "small") * 1.3, 28, about, "small", fill="soft")


def _stage(
    picture: Picture, x: float, wide: float, name: str, lines: tuple[str, ...] | list[str], fill: str = "ink"
) -> None:
    picture.frame(x, 48, wide, 80, fill="paper")
    picture.text(x + wide / 2, 73, name, "title", fill=fill, at="middle")
    picture.text(x + wide / 2, 94, lines[0], "small", fill="soft", at="middle")
    picture.text(x + wide / 2, 113, lines[1], "small", fill="soft", at="middle", more="mono")
