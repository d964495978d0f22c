"""Every name in the documentation exists: files, links, modules, commands and their options."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from precast.cli import main
from tests.helpers.pages import PACKAGES, PAGES, beside, command_of, commands, prose, quoted, text_of
from tests.helpers.source_tree import ROOT, modules

HOME = "docs/README.md"
BELOW = {"docs/reference/python.md": "docs/reference/python/", "docs/reference/emulation.md": "docs/upstream/"}
"""Pages that lead to every page of a folder."""

TOP = (
    "attach",
    "build",
    "cli",
    "emulator",
    "fetch",
    "kernels",
    "loader",
    "manifests",
    "measure",
    "native",
    "publish",
    "tests",
    "benchmarks",
    "docs",
    "examples",
    ".github",
    ".ci",
    "src",
)
PATH = re.compile(rf"(?:{'|'.join(map(re.escape, TOP))})(?:/[\w.-]+)+/?")
FILE = re.compile(r"[\w.-]+\.(?:py|toml|yaml|md|c|txt|yml)")
USERS = {
    "precast.toml",
    "pyproject.toml",
    "mine.yaml",
    "mykernels.py",
    "gelu.py",
    "kernels.yaml",
    "MANIFEST.yaml",
    "manifest.yaml",
    "suites.yaml",
}
USERS |= {"server.py", "warmup.py", "recorded.yaml", ".gitlab-ci.yml"}
USERS |= {"scaled.py", "scaled_device.py", "scaled.yaml", "look.py", "missing.py", "start.py", "launch.py"}
USERS |= {"precast.toml", "pyproject.toml", "warm_up.py", "server.yaml", "README.txt", "requirements.txt"}
"""Files that pages speak of and that are the reader's own."""


@cache
def files() -> frozenset[str]:
    """The name of every file of the repository."""
    tops = [path for path in ROOT.iterdir() if path.name not in (".git", ".work")]
    return frozenset(path.name for top in tops for path in (top, *top.rglob("*.*")))


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_is_named_exists(page: str) -> None:
    words = {word for text in quoted(page) for word in re.split(r"[\s,]+", text)}
    paths = {word for word in words if PATH.fullmatch(word)}
    missing = {path for path in paths if not (ROOT / path).exists()}
    names = {word for word in words if FILE.fullmatch(word)} - USERS
    assert not missing | (names - files())


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file(page: str) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose(page))
    assert not [t for t in targets if "://" not in t and not (beside(page) / t).exists()]


@pytest.mark.parametrize("page", PAGES)
def test_every_module_that_is_named_exists(page: str) -> None:
    missing = []
    for name in set(re.findall(r"\bprecast(?:\.[a-zA-Z_]\w*)+", text_of(page))):
        module = next((name.rsplit(".", n)[0] for n in range(3) if name.rsplit(".", n)[0] in modules()), None)
        rest = name[len(module) + 1 :].split(".")[0] if module else name
        top = name.count(".") == 1
        if not top and (module is None or (rest and rest not in defined(module))):
            missing.append(name)
    assert not missing


def defined(module: str) -> set[str]:
    """The names that a module defines or imports."""
    found = set()
    for node in ast.walk(modules()[module].tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
    return found


def test_the_map_names_every_room() -> None:
    """Rooms of two levels: a room shows those in it."""
    folders = {m.path.parent.relative_to(ROOT).parts for m in modules().values() if m.name.startswith("precast.")}
    rooms = {"/".join(parts[:2]) for parts in folders if len(parts) > 1}
    assert len(rooms) > 40
    assert rooms - {text.rstrip("/") for text in quoted("docs/architecture.md")} == set()


def test_the_map_names_every_layer() -> None:
    """Each layer of the contracts of build and loader, in its order."""
    layers = re.findall(
        r'name = "the rooms of (build|loader)".*?layers = \[(.*?)\]', (ROOT / "pyproject.toml").read_text(), re.DOTALL
    )
    assert [top for top, _ in layers] == ["loader", "build"]
    drawn = text_of("docs/architecture.md").partition("the folders       the rooms of build")[2].partition("```")[0]
    for _, contract in layers:
        words = [one for line in re.findall(r'"([^"]+)"', contract) for one in line.split(" | ")]
        at = [match.start() if (match := re.search(rf"(?<!\w){word}(?!\w)", drawn)) else -1 for word in words]
        assert -1 not in at, f"not drawn: {words[at.index(-1)]}"


@pytest.mark.parametrize("page", PAGES)
def test_every_command_and_option_exists(page: str) -> None:
    wrong = []
    for line in commands(page):
        words = line.partition(" -- ")[0].split()[1:]  # what follows is another program's
        name = command_of(words) or " ".join(words)
        if name not in (*main.commands(), *main.SUBCOMMANDS):
            wrong.append(line)
            continue
        known = {option for p in main.load(name).params for option in (*p.opts, *p.secondary_opts)}
        wrong += [f"{line}: {word}" for word in words if re.match(r"--?[a-zA-Z]", word) and word not in known]
    assert not wrong


def test_every_page_is_reached_from_the_readme() -> None:
    """By the first page of the documentation, whose links are the navigation of the site, too: each page once."""
    assert "(docs/README.md)" in text_of("README.md")

    def reached(page: str) -> list[str]:
        linked = re.findall(r"\]\(([\w./-]+\.md)\)", text_of(page))
        return [(ROOT / page).parent.joinpath(link).resolve().relative_to(ROOT).as_posix() for link in linked]

    below = {page: {p for p in PAGES if p.startswith(folder)} for page, folder in BELOW.items()}
    assert {page for page, pages in below.items() if not pages <= set(reached(page))} == set()
    expected = set(PAGES).difference({HOME, *PACKAGES}, *below.values())
    assert sorted(expected) == sorted(reached(HOME)), f"link each page once in {HOME}"


def test_the_text_of_a_link_to_a_page_is_no_file_name() -> None:
    links = [(page, text.strip("`")) for page in PAGES for text in re.findall(r"\[([^\]]+)\]\([^)]+\)", prose(page))]
    named = [link for link in links if re.fullmatch(r"[\w./-]+\.md|README|CONTRIBUTING|CHANGELOG|SECURITY", link[1])]
    assert not named, "name the page by its title"
