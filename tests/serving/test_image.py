"""The image's Containerfile: what it names exists, and what it installs is pinned.

That it builds, and that the image starts, needs a builder of images, a network and ten minutes: see docs/deployment.md.
"""

from __future__ import annotations

import re

from tests.helpers.source_tree import ROOT

FILE = ROOT / "examples" / "serving" / "Containerfile"


def instructions() -> list[tuple[str, str]]:
    """Each instruction with its words, lines that go on joined."""
    text = re.sub(r"^#.*\n", "", FILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    lines = [line.split() for line in text.splitlines() if line]
    return [(kind, " ".join(words)) for kind, *words in lines]


def test_what_is_copied_exists() -> None:
    copied = [words.split()[:-1] for kind, words in instructions() if kind == "COPY" and "--from" not in words]
    sources = [source for sources in copied for source in sources]
    assert {"loader", "kernels", "examples/serving", "constraints.txt"} < set(sources)
    assert not [source for source in sources if not (ROOT / source).exists()]


def test_the_build_stage_has_all_that_the_builder_is_packed_of() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    wheel = project.partition("[tool.hatch.build.targets.wheel]")[2].partition(
        "[tool.hatch.build.targets.wheel.sources]"
    )[0]
    listed = re.search(r"^only-include = \[(.*)\]$", wheel, re.MULTILINE)
    forced = re.findall(r'^"(.+)" = "precast/', wheel, re.MULTILINE)
    assert listed and forced
    forced = [path for path in forced if not path.startswith(("cli/", "loader/"))]  # these folders are copied whole
    needed = {*re.findall(r'"(.+?)"', listed[1]), *forced, "README.md", "LICENSE", "hatch_build.py", "loader"}
    copied = {source for kind, words in instructions() if kind == "COPY" for source in words.split()[:-1]}
    assert needed <= copied


def test_what_is_installed_is_pinned() -> None:
    """By name; the options, and what comes as a folder or a wheel, are no names."""
    pins = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    commands = [part for kind, words in instructions() if kind == "RUN" for part in words.split("&&")]
    installs = [re.sub(r"\$\{[^ ]* \$\{[^ ]*", "", part) for part in commands if "pip install" in part]
    assert len(installs) == 4 and all(" -c " in part for part in installs)
    words = [word for part in installs for word in part.split("pip install")[1].split()]
    named = {word for word in words if re.fullmatch(r"[a-z][a-z0-9-]*", word)}
    assert named >= {"torch", "quack-kernels", "flash-attn-4", "starlette", "uvicorn"} and named <= pins


def test_the_image_that_serves_has_no_compiler() -> None:
    """What asks for the DSL is installed without what it asks for."""
    (start,) = [place for place, (_, words) in enumerate(instructions()) if words.endswith(" AS serving")]
    second = " ".join(words for _, words in instructions()[start:])
    alone = [part for part in second.split("&&") if "quack-kernels" in part or "flash-attn-4" in part]
    assert alone and all("--no-deps" in part for part in alone)
    assert not re.search(r"gcc|nvidia-cutlass-dsl|\[flash-attention\]", second)
