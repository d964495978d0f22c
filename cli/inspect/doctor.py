"""Report what is installed, which GPUs and caches are present, and what will not work.

Each line is ok, warn (something is missing that not every machine needs) or fail, with what to do. Exit status 1
means that a line is fail.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict

import typer

from precast.build.doctor.facts import Facts, machine_facts
from precast.build.errors import ToolError
from precast.build.link.versions import DSL, LIBRARIES, RELEASES, VARIABLE, choose_cuda, known_versions, release_of
from precast.cli.shared import options
from precast.cli.shared.output import print_result, terminal_width
from precast.loader.command_line.checks import (
    Check,
    cache_checks,
    call_path_check,
    checked,
    device_checks,
    package_check,
    render,
    system_checks,
)

_LIBC = "; artifacts that are built here may need this version or newer"

EXAMPLES = ("precast doctor",)


def command(as_json: options.Json = False) -> None:
    checks = judge(machine_facts())
    print_result([asdict(check) for check in checks], render(checks, terminal_width(sys.stdout)), as_json)
    if any(check.status == "fail" for check in checks):
        raise typer.Exit(1)


def judge(facts: Facts) -> tuple[Check, ...]:
    """The findings about a machine, from its facts alone."""
    return (
        *system_checks(facts.python, facts.system, facts.processor, facts.glibc, _LIBC),
        *_packages(facts), *_tools(facts), *_compiler(facts),
        *device_checks(facts.driver, _chosen(facts)), *cache_checks(facts.caches),
    )  # fmt: skip


_OPTIONAL = {
    "torch": ("references and torch tensors need it", "precast[torch]"),
}


def _packages(facts: Facts) -> Iterator[Check]:
    for name in ("precast", "precast-loader", "apache-tvm-ffi", "zstandard"):
        yield package_check(name, facts.packages.get(name) or "", own_zstd=facts.own_zstd)
    for name, (purpose, extra) in _OPTIONAL.items():
        version, todo = facts.packages.get(name) or "", f"pip install '{extra}' if you use them"
        yield checked(name, bool(version), version, f"not installed; {purpose}", todo, "warn")
    yield call_path_check(facts.native_code)


def _tools(facts: Facts) -> Iterator[Check]:
    problem = "not found; linking artifacts needs it"
    yield checked("C compiler", bool(facts.cc), str(facts.cc), problem, "install gcc, or set CC")
    if facts.packages.get("precast-emulator"):
        problem, todo = (
            "not found; precast verify --emulate needs it",
            "install g++ (on Debian and Ubuntu: apt-get install g++)",
        )
        yield checked("C++ compiler", bool(facts.cxx), str(facts.cxx), problem, todo, "warn")
    version = str(facts.packages.get("nvidia-cuda-cuobjdump"))
    problem = "not found; reading registers and shared memory needs it"
    todo = "pip install --force-reinstall nvidia-cuda-cuobjdump"
    yield checked("cuobjdump", facts.cuobjdump, version, problem, todo)


def _installed(facts: Facts) -> list[int]:
    """The major versions of CUDA that the compiler has libraries for."""
    return [cuda for cuda, name in LIBRARIES.items() if facts.packages.get(name)]


def _chosen(facts: Facts) -> int:
    """The major version of CUDA that builds use; 0 if it is not known."""
    try:
        return choose_cuda(_installed(facts), facts.cuda)
    except ToolError:
        return 0


def _compiler(facts: Facts) -> Iterator[Check]:
    version = facts.packages.get(DSL)
    if not version:
        yield Check(DSL, "fail", "not installed; building needs it", f"pip install {DSL}")
        return
    release = release_of(version)
    untested = f"{version}, which is not tested; precast supports {known_versions()}"
    todo = f"if a build fails: pip install '{DSL}=={RELEASES[-1].dsl}.*'"
    yield checked(DSL, release.known, version, untested, todo, "warn")
    try:
        cuda = choose_cuda(_installed(facts), facts.cuda)
    except ToolError as error:
        yield Check("CUDA", "fail", "the compiler has no libraries for it", str(error))
        return
    others = " and ".join(str(version) for version in _installed(facts) if version != cuda)
    yield Check("CUDA", "ok", f"{cuda}; {VARIABLE} selects {others}" if others else str(cuda))
