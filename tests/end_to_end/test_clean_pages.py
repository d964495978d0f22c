"""What a reader types: the commands of the pages, and every command of ``precast``, where wheels and what they require
are installed, with the extra that a page names, and nothing else. A table says what is not run, and why.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from precast.cli import main
from precast.loader.resolve.cache import Cache
from tests.helpers.builds import kept_store
from tests.helpers.documentation import clean
from tests.helpers.documentation.walks import Command, follow
from tests.helpers.pages import PAGES, blocks, command_of, text_of
from tests.helpers.source_tree import ROOT

Bin = Callable[..., Path]
pytestmark = pytest.mark.slow

EXTRAS = {
    "README.md": "measure",
    "docs/building.md": "torch,emulate",
    "docs/ci.md": "export",
    "docs/deployment.md": "measure",
    "docs/emulation.md": "torch,emulate",
    "docs/kernels.md": "torch",
    "docs/native.md": "native",
    "docs/reference/cli.md": "torch,native",
    "docs/security.md": "sign",
    "docs/tuning.md": "torch",
    "docs/verifying.md": "torch,emulate",
    "docs/versions.md": "torch",
    "measure/README.md": "torch,emulate,export",
    "publish/README.md": "sign",
}
"""The extra that a page names, where its commands need one."""
WALKED = ("docs/tutorial.md", "docs/attach.md")
"""Pages that tests/documentation/test_tutorials.py follows, each with all that it shows."""
NOT_RUN = {
    "in a checkout; the environments are its own": ["make ", "bash tests/gpu/run", ".work/test/bin/python tests/gpu"],
    "root's": ["apt-get "],
    "another environment, and torch, are downloaded": ["pip install", "uv run"],
    "a registry or an index of the reader's": [
        "precast push cache oci:", "precast push cache hf:", "precast fetch oci:", "precast fetch hf:", "pip download",
        "gh ", "python -m precast.loader.fetch", "precast bundle dist/*.whl -o bundle --python",
    ],
    "machines of the reader's": [
        "dask ", "PRECAST_CACHE_PATH=old:new",
        "precast build kernels.yaml -o cache --executor",
    ],
    "a program that is not to be had here": ["cosign "],
    "a container": ["docker ", "/opt/python/cp310", "PRECAST_NATIVE=1 /opt/python", "podman "],
    "a GPU, and a server": ["curl", "PRECAST_CACHE_PATH=../cache python", "python -m serving", "cd examples"],
    "a start on a machine with the GPU: tests/attach/builder/test_start.py": ["precast start "],
    "what was measured on a GPU: tests/measure/commands": [
        "precast tune model", "precast tune prune", "precast tune apply",
    ],
    "docs/attach.md runs the same on a program that it shows": [
        "precast record -o recorded.yaml", "precast build recorded.yaml",
    ],
    "tests/documentation/test_tutorials.py walks this part": [
        "pip wheel ", "precast bundle dist/*.whl -o bundle --find-links wheels", "ls bundle", "python3 -m venv server",
        "PYTHON=server/bin/python", "server/bin/python -c 'from precast import loader; print(loader.ops())'",
    ],
    "what the page does not make: tests/cli": [
        "precast requests requests.jsonl", "precast report cache -o report.html --bench",
    ],
    "an engine: tests/engines": [
        "precast record -t sm_100a", "precast record --append --merge", "precast record --merge", "PRECAST_ATTACH=",
        "export PRECAST_CUDA",
    ],
    "hundreds of variants: tests/end_to_end builds some": [
        "precast build manifests/llama.yaml", "PRECAST_CACHE_PATH=cache python examples/llama.py",
        "precast build examples/serving", "precast build benchmarks/",
    ],
    "faults in large kernels: tests/emulator": ["python benchmarks/emulation_faults.py"],
    "faults in libraries' kernels: benchmarks/upstream_reports.py": [
        "precast build docs/upstream", "PYTHONPATH=docs/upstream", "precast verify .work/report",
    ],
    "tests/build/scaffold/test_recipe.py runs it": ["bash ci/recipe"],
    "tests/cli/make/test_project_commands.py runs it in a project": ["precast verify --emulate"],
}  # fmt: skip
"""The starts of lines, by the reason why they are not run here."""
RUN_ONCE = {
    "precast reproduce ": "docs/ci.md",
    "precast verify cache --emulate": "docs/emulation.md",
    "precast verify CACHE --emulate": "docs/emulation.md",
    "precast native ": "docs/native.md",
    "precast build examples/native.yaml": "docs/native.md",
}
"""The starts of lines that take seconds and stand on several pages, by the page on which they are run."""
NEEDS_GPU = ("precast verify ", "precast bench", "precast tune measure")
ONE_VARIANT = "'s/, sm_100a//; s/, float32//; s/, 128//'"
"""Leaves one of the eight variants that ``precast init`` and ``precast new`` list: the tutorial builds all of them."""
FEW = 5_000
"""The elements of the largest problems that are emulated here: the tutorial and tests/measure emulate larger ones."""
MORE = [
    "precast caches",
    "precast error PCL01",
    "precast schema manifest",
    "PRECAST_CACHE_PATH=cache precast explain rmsnorm dtype=bfloat16 hidden=4096 -t sm_90a",
    "precast show cache KEY",
    "precast export cache KEY -o exported",
    "precast push cache file://$PWD/pushed",
    "precast fetch file://$PWD/pushed -o fetched",
    "precast bundle dist/*.whl -o bundle --find-links LOADER",
]
"""Commands that no page has in a block, or not with arguments that can be run here."""


def typed_blocks(page: str) -> list[list[str]]:
    """The lines of each of a page's blocks, in one line where a line goes on."""
    whole = [re.sub(r" *\\\n *", " ", block).splitlines() for block in blocks(page, "sh")]
    return [[line for line in lines if line.strip() and not line.startswith("#")] for lines in whole]


def typed(page: str) -> list[str]:
    return [line for block in typed_blocks(page) for line in block]


def reason(page: str, line: str) -> str:
    """Why a line of a page is not run here; empty if it is."""
    for start, other in RUN_ONCE.items():
        if line.strip().startswith(start) and page != other:
            return f"{other} has the same"
    return next((why for why, starts in NOT_RUN.items() if line.strip().startswith(tuple(starts))), "")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return clean.wheels(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, built: dict[str, Path]) -> Bin:
    """The programs of an environment, by the extra of the builder, or of one with the loader alone."""
    made: dict[str, Path] = {}

    def get(extra: str = "", *, loader_alone: bool = False) -> Path:
        name = "loader" if loader_alone else f"builder-{extra}"
        if name not in made:
            base = get() if extra else None  # what an extra adds is added to the builder without extras
            builder = f"{built['precast']}[{extra}]" if extra else str(built["precast"])
            wanted = [str(built["precast-loader"]), *([] if loader_alone else [builder])]
            of_extras = {"emulate": {"emulator", "measure"}, "native": {"native"}, "sign": {"publish"}}
            of_extras |= {key: {"measure"} for key in ("torch", "measure", "export")} | {"publish": {"publish"}}
            parts = set().union(*(of_extras.get(part, set()) for part in extra.split(",")))
            wanted += [str(built[f"precast-{part}"]) for part in sorted(parts)]
            made[name] = clean.make(tmp_path_factory.mktemp(name) / "venv", wanted, base)
        return made[name]

    return get


SMALL = "version: 1\nname: {name}\ntargets: [sm_90a, sm_100a]\nkernels:\n  - kernel: rmsnorm\n"
SMALL += "    config: {{dtype: bfloat16, hidden: 4096}}\n    tuned: {{threads: 128}}\n"


PARTS = ("part-2", "part-3", "part-4", "part1", "part2")
SERVER = """\
import os
os.environ["PRECAST_CACHE_PATH"] = "CACHE"
from precast import loader
try:
    loader.get("rmsnorm", {"dtype": "bf16", "hidden": 8}, target="sm_90a")
except loader.VariantNotFound as error:
    print(error)
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, environment: Bin) -> Path:
    """Manifests and caches of the names that pages use, with one variant for each target, and a checkout's examples."""
    made = tmp_path_factory.mktemp("template")
    for name in ("manifests/rows", "manifests/norms", "kernels", "manifest", "acme-norms"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / f"{name}.yaml").write_text(SMALL.format(name=Path(name).name))
    shutil.copy(ROOT / "examples" / "add" / "mykernels.py", made)
    mine = (ROOT / "examples" / "add" / "mine.yaml").read_text()
    (made / "mine.yaml").write_text(mine.replace("[128, 256]", "[128]").replace("[bfloat16, float32]", "bfloat16"))
    shutil.copytree(ROOT / "examples", made / "examples")
    (made / "benchmarks").symlink_to(ROOT / "benchmarks")
    (made / "server.py").write_text(SERVER)
    (made / "tuning").mkdir()
    for manifest, names, keep in (
        ("kernels", ("old-cache", "new-cache", "cache-x86_64", "cache-aarch64", *PARTS), []),
        ("kernels", ("cache", "CACHE"), ["ptx"]),
        ("mine", ("old", "new"), []),
    ):
        done = subprocess.run(
            ["precast", "build", f"{manifest}.yaml", "-o", names[0], *(["--keep", *keep] if keep else [])],
            cwd=made, env=shell(environment()), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        for name in names[1:]:
            shutil.copytree(made / names[0], made / name)
    return made


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "reader", symlinks=True))


def key_in(folder: Path) -> str:
    return Cache(folder / "cache").op("rmsnorm").artifacts[0].key


def shell(programs: Path) -> dict[str, str]:
    """A reader's shell, in which an environment is active; its store is that of all tests."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PRECAST_", "PYTHON"))}
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "PATH": path, "PRECAST_STORE": str(kept_store()), "COLUMNS": "200", "CUDA_VISIBLE_DEVICES": "-1"}


def command(line: str, key: str) -> Command:
    """A line as it is run here, with the status that it has on a machine without a GPU."""
    text = line.partition(" #")[0].replace("/var/tmp/", "").replace("KEY", key[:12])
    text = re.sub(r"\b3f2a91\w*", key[:12], text)
    if text.startswith(NEEDS_GPU) and "--emulate" not in text:
        return Command(f"{text}  # on a machine with a GPU")
    if (
        text.startswith(
            ("precast doctor", "precast explain", "precast list cache --op scale", "precast diff old cache")
        )
        or text.startswith("precast reproduce kernels.yaml")  # another extra is installed than where it was built
        or text == "precast list"
    ):
        text = f"{text} || [ $? = 1 ]"  # what differs, does not work, or is not there, on this machine
    if text == "precast init acme-norms":
        text += f" && sed -i {ONE_VARIANT} acme-norms/acme_norms.yaml"
    if text.strip() == "precast new scaled":
        text += f" && sed -i {ONE_VARIANT} scaled.yaml"
    if "--emulate" in text:
        text = f"{text} --most {FEW}"
    return Command(text)


UNTRIED = ("docs/reference/cli.md",)
"""Pages whose commands have not all been seen to end well here yet. PRECAST_ALL_PAGES=1 runs them, too."""
PAGES_TO_RUN = [page for page in PAGES if page not in WALKED and any(not reason(page, line) for line in typed(page))]


@pytest.mark.parametrize("page", [p for p in PAGES_TO_RUN if p not in UNTRIED or "PRECAST_ALL_PAGES" in os.environ])
def test_the_commands_of_a_page(page: str, environment: Bin, folder: Path) -> None:
    extra = EXTRAS.get(page, "")
    assert not extra or f"precast[{extra}]" in text_of(page) or page == "docs/reference/cli.md", (
        "the page names the extra that its commands need"
    )
    env = shell(environment(extra))
    key = key_in(folder)
    lines = []
    for block in typed_blocks(page):
        run = [command(line, key) for line in block if not reason(page, line)]
        lines += [Command(f"cd '{folder}' && {one.line}") for one in run[:1]] + run[1:]
    follow(page, list(lines), folder, env)
    print(f"{page}: {len(lines)} commands")


def test_the_other_commands(environment: Bin, folder: Path, built: dict[str, Path]) -> None:
    env = shell(environment("export,publish"))
    key = key_in(folder)
    lines = [
        "precast wheel cache -o dist",
        *(line.replace("LOADER", str(built["precast-loader"].parent)) for line in MORE),
    ]
    follow("MORE", [command(line, key) for line in lines], folder, env)


def test_every_command_is_run() -> None:
    lines = [line for page in PAGES for line in typed(page) if page in WALKED or not reason(page, line)] + MORE
    words = [
        match[1].split() for line in lines if (match := re.search(r"\bprecast ([a-z].*)", line.partition(" #")[0]))
    ]
    run = {command_of(one) for one in words}
    on_a_gpu = {"tune model", "tune prune", "tune apply", "start record", "start check"}
    assert set(main.commands()) - run == on_a_gpu


def test_no_reason_is_stale() -> None:
    lines = [line.strip() for page in PAGES for line in typed(page)]
    starts = [start for starts in (*NOT_RUN.values(), RUN_ONCE) for start in starts]
    assert not [start for start in starts if not any(line.startswith(start) for line in lines)]
    assert not [page for page in EXTRAS if page not in PAGES_TO_RUN]


@pytest.mark.parametrize(
    "words", [["list"], ["caches"], ["doctor"], ["error", "PCL01"], ["explain", "rmsnorm"], ["--help"]]
)
def test_the_command_line_of_the_loader_alone(words: list[str], environment: Bin, tmp_path: Path) -> None:
    python = environment(loader_alone=True) / "python"
    done = subprocess.run(
        [python, "-m", "precast.loader", *words],
        cwd=tmp_path, env=shell(python.parent), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr and done.returncode in (0, 1), done.stderr
    assert done.stdout or done.stderr.startswith("error: ")
