"""Every stage of the pipeline, with the file that has it."""

from __future__ import annotations

from pictures.svg import Picture

WIDTH, HEIGHT = 736, 392
TITLE = (
    "The pipeline: manifest, plan, compile, link, store, cache and wheel on a build host; discover, resolve, load and"
    " launch where it is deployed"
)
WIDE, HIGH, STEP, LEFT = 148, 74, 184, 18
BUILD = (
    ("manifest", "what to build", "plan/manifest.py"),
    ("plan", "every variant", "plan/plan.py"),
    ("compile", "worker processes", "compile/pool.py"),
    ("link", "one library each", "link/linker.py"),
    ("store", "kept by key", "store/store.py"),
    ("cache", "index, ops, blobs", "cache/pack.py"),
    ("wheel", "what pip installs", "wheel/wheel.py"),
)
DEPLOYED = (
    ("discover", "finds caches", "resolve/discover.py"),
    ("resolve", "chooses, or says why", "resolve/choose.py"),
    ("load", "checks, then opens", "launch/library.py"),
    ("launch", "on your stream", "launch/kernel.py"),
)


def draw() -> str:
    """The picture.

    >>> "plan/plan.py" in draw()
    True
    """
    picture = Picture(WIDTH, HEIGHT, TITLE)
    picture.frame(1, 1, WIDTH - 2, 230)
    picture.text(LEFT, 26, "BUILD HOST", "small", fill="ours", more="bold")
    picture.text(LEFT + 90, 26, "precast, the compiler, gcc; no GPU", "small", fill="soft")
    picture.frame(1, 270, WIDTH - 2, HEIGHT - 271)
    picture.text(LEFT + STEP, 295, "DEPLOYMENT", "small", fill="good", more="bold")
    picture.text(LEFT + STEP + 94, 295, "precast-loader and the wheel; no compiler", "small", fill="soft")
    _row(picture, BUILD[:4], 40)
    _row(picture, BUILD[4:], 142)
    _row(picture, DEPLOYED, 308)
    last, first, wheel = (LEFT + STEP * place + WIDE / 2 for place in (3, 0, 2))
    picture.arrow(f"M{last} 114V128H{first}V139")
    picture.arrow(f"M{wheel} 216V251H{first}V305")
    picture.text(first + 12, 245, "pip install", "small", fill="soft", more="mono")
    return picture.to_svg()


def _row(picture: Picture, stages: tuple[tuple[str, str, str], ...], y: float) -> None:
    for place, (name, about, file) in enumerate(stages):
        x = LEFT + STEP * place
        picture.frame(x, y, WIDE, HIGH, fill="paper")
        middle = x + WIDE / 2
        picture.text(middle, y + 24, name, "title", at="middle")
        picture.text(middle, y + 43, about, "small", fill="soft", at="middle")
        picture.text(middle, y + 61, file, "small", fill="soft", at="middle", more="mono file")
        if place:
            picture.arrow(f"M{x - STEP + WIDE + 3} {y + HIGH / 2}H{x - 4}")
