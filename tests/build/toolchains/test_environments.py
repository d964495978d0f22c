"""Environments: isolated, made once and in one step, checked before use, removed only while nothing uses them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from precast.build.errors import Location, ToolchainError, ToolError
from precast.build.link.toolchain import find_toolchain
from precast.build.plan.toolchain_spec import ToolchainSpec
from precast.build.toolchains.interpreter_info import inspect_interpreter
from precast.build.toolchains.plans import Toolchains
from precast.build.toolchains.uv import Sources, find_uv
from tests.helpers.toolchains.tiny_wheels import make_wheel

HERE = Location("m.yaml", 4, 1)
SPEC = ToolchainSpec(dsl="4.8.1", requirements=("acme-norms==1.0",), location=HERE)


@pytest.fixture
def toolchains(tmp_path: Path, wheels: Path) -> Toolchains:
    return Toolchains(root=tmp_path / "toolchains", sources=Sources(find_links=(wheels,), offline=True))


def run(executable: str, code: str, **environment: str) -> str:
    done = subprocess.run(
        [executable, "-c", code], env=environment, capture_output=True, text=True, check=False, cwd="/"
    )
    return done.stdout.strip() or done.stderr


def test_it_holds_what_was_asked_for_and_nothing_of_the_caller(
    toolchains: Toolchains, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("PYTHONPATH", "PYTHONUSERBASE"):
        (tmp_path / variable).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / variable))
    (tmp_path / "PYTHONPATH" / "acme_norms.py").write_text("VERSION = 'of the caller'\n")
    made = toolchains.interpreter(SPEC)
    assert dict(made.locked)["acme-norms"] == "1.0"
    assert made.distribution("acme-norms").version == "1.0"
    with pytest.raises(Exception, match=r"pytest is not installed for \S+: add it to the toolchain's requirements"):
        made.distribution("pytest")
    environment = made.environment(os.environ)
    assert "PYTHONUSERBASE" not in environment
    assert run(made.executable, "import acme_norms; print(acme_norms.VERSION)", **environment) == "1.0"
    assert "No module named 'pytest'" in run(made.executable, "import pytest", **environment)
    code = "import precast.build.child.serve as s; print(s.__file__)"
    assert run(made.executable, code, **environment).startswith(made.precast)
    assert not any(str(tmp_path / "PYTHONPATH") in folder for folder in made.folders)


def test_a_cuda_of_which_nothing_was_asked_is_left_out(toolchains: Toolchains, wheels: Path) -> None:
    """The library asks for the compiler's libraries for both: a toolchain holds one."""
    both = [f"nvidia-cutlass-dsl-libs-cu{cuda}==4.8.1" for cuda in (12, 13)]
    make_wheel(wheels, "asks-for-both", "1.0", requires=both)
    spec = ToolchainSpec(dsl="4.8.1", cuda=12, requirements=("asks-for-both",), location=HERE)
    locked = dict(toolchains.interpreter(spec).locked)
    assert "nvidia-cutlass-dsl-libs-cu12" in locked and "nvidia-cutlass-dsl-libs-cu13" not in locked


def test_it_is_made_once_and_found_again_without_wheels(toolchains: Toolchains, wheels: Path) -> None:
    said: list[str] = []
    telling = Toolchains(root=toolchains.root, sources=toolchains.sources, say=said.append)
    first = telling.interpreter(SPEC)
    for wheel in wheels.iterdir():
        wheel.unlink()
    again = telling.interpreter(
        ToolchainSpec(dsl="4.8.1", requirements=SPEC.requirements, location=Location("n", 1, 1))
    )
    assert first == again and len(said) == 1


def test_the_versions_that_were_chosen_are_kept_until_it_is_removed(toolchains: Toolchains, wheels: Path) -> None:
    spec = ToolchainSpec(dsl="4.8.1", requirements=("acme-norms",), location=HERE)
    assert dict(toolchains.interpreter(spec).locked)["acme-norms"] == "2.0"
    make_wheel(wheels, "acme-norms", "3.0", {"acme_norms.py": b""})
    assert dict(toolchains.interpreter(spec).locked)["acme-norms"] == "2.0"
    assert toolchains.locked(spec).versions["acme-norms"] == "3.0"  # what a lock written now has


def test_builds_at_once_make_it_once(toolchains: Toolchains, wheels: Path) -> None:
    code = f"""
        from pathlib import Path
        from precast.build.errors import Location
        from precast.build.plan.toolchain_spec import ToolchainSpec
        from precast.build.toolchains.plans import Toolchains
        from precast.build.toolchains.uv import Sources
        sources = Sources(find_links=(Path({str(wheels)!r}),), offline=True)
        spec = ToolchainSpec(dsl="4.8.1", requirements=("acme-norms==1.0",), location=Location("m", 1, 1))
        made = Toolchains(root=Path({str(toolchains.root)!r}), sources=sources, say=print).interpreter(spec)
        print("uses", made.lock)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    several = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    printed = [one.communicate(timeout=120)[0] for one in several]
    assert [one.returncode for one in several] == [0, 0, 0]
    assert sum(text.count("creating the toolchain") for text in printed) == 1
    assert len({text.splitlines()[-1] for text in printed}) == 1
    assert len(toolchains.environments()) == 1


def test_a_killed_one_leaves_nothing_that_is_used(
    toolchains: Toolchains, monkeypatch: pytest.MonkeyPatch, wheels: Path
) -> None:
    """The process ends in the middle of installing, as by SIGKILL; the next build makes it anew."""
    code = f"""
        import os
        from pathlib import Path
        from precast.build.errors import Location
        from precast.build.plan.toolchain_spec import ToolchainSpec
        from precast.build.toolchains import environments
        from precast.build.toolchains.plans import Toolchains
        from precast.build.toolchains.uv import Sources, run_uv

        def killed(*words):
            if words[:2] == ("pip", "sync"):
                os.kill(os.getpid(), 9)
            return run_uv(*words)

        environments.run_uv = killed
        sources = Sources(find_links=(Path({str(wheels)!r}),), offline=True)
        spec = ToolchainSpec(dsl="4.8.1", requirements=("acme-norms==1.0",), location=Location("m", 1, 1))
        Toolchains(root=Path({str(toolchains.root)!r}), sources=sources).interpreter(spec)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    assert done.returncode == -9
    left = [path for path in (toolchains.root / "made").iterdir() if path.is_dir()]
    assert left and toolchains.environments() == []
    assert dict(toolchains.interpreter(SPEC).locked)["acme-norms"] == "1.0"
    assert not any(path.exists() for path in left)


def test_one_that_was_changed_is_refused_with_the_way_out(toolchains: Toolchains, tmp_path: Path) -> None:
    made = toolchains.interpreter(SPEC)
    (one,) = toolchains.environments()
    (info,) = one.path.glob("lib/python3*/site-packages/acme_norms-1.0.dist-info")
    info.rename(info.with_name("acme_norms-9.9.dist-info"))
    with pytest.raises(ToolchainError, match=f"precast toolchains --remove {one.path.name[:12]}"):
        toolchains.interpreter(SPEC)
    assert made.lock == one.digest


def test_one_in_use_stays_and_one_that_is_not_goes(toolchains: Toolchains, wheels: Path) -> None:
    code = f"""
        import sys
        from pathlib import Path
        from precast.build.errors import Location
        from precast.build.plan.toolchain_spec import ToolchainSpec
        from precast.build.toolchains.plans import Toolchains
        from precast.build.toolchains.uv import Sources
        sources = Sources(find_links=(Path({str(wheels)!r}),), offline=True)
        spec = ToolchainSpec(dsl="4.8.1", requirements=("acme-norms==1.0",), location=Location("m", 1, 1))
        kept = Toolchains(root=Path({str(toolchains.root)!r}), sources=sources).interpreter(spec)
        print("ready", flush=True)
        sys.stdin.read()
    """
    user = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert user.stdout is not None and user.stdout.readline() == "ready\n"
    (one,) = toolchains.environments()
    assert not toolchains.remove(one) and toolchains.environments() == [one]
    user.communicate("")
    assert toolchains.remove(one) and toolchains.environments() == []
    assert not list((toolchains.root / "locks").glob("*.txt"))


def test_a_file_that_is_not_what_the_lock_says_is_refused(
    toolchains: Toolchains, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "my.lock"
    lock.write_text(str(toolchains.locked(SPEC)))
    make_wheel(wheels, "acme-norms", "1.0", {"acme_norms.py": b"VERSION = 'evil'\n"})
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "another"))  # else the right one comes from there
    spec = ToolchainSpec(lock=lock, location=HERE)
    with pytest.raises(ToolchainError, match=r"(?s)the lock cannot be installed.*acme.norms.*--find-links"):
        toolchains.interpreter(spec)
    assert toolchains.environments() == []


def test_a_lock_without_the_compilers_libraries_is_told(toolchains: Toolchains, tmp_path: Path) -> None:
    lock = tmp_path / "my.lock"
    whole = toolchains.locked(SPEC)
    lock.write_text("".join(f"{one}\n" for one in whole.distributions if "libs-cu12" not in one.name))
    made = toolchains.interpreter(ToolchainSpec(lock=lock, location=HERE))
    with pytest.raises(ToolError, match=r"has no nvidia-cutlass-dsl-libs-cu12 or .*-cu13: add one to its lock"):
        find_toolchain(made)


def test_a_python_that_has_gone_is_told_with_the_way_out(toolchains: Toolchains) -> None:
    made = toolchains.interpreter(SPEC)
    Path(made.executable).unlink()
    inspect_interpreter.cache_clear()
    with pytest.raises(ToolchainError, match=r"does not run.*precast toolchains --remove"):
        toolchains.interpreter(SPEC)


def test_uv_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match=r"pip install 'precast\[toolchains\]'"):
        find_uv()


def test_requirements_that_exclude_each_other_are_told_in_uvs_words(toolchains: Toolchains) -> None:
    spec = ToolchainSpec(dsl="4.8.1", requirements=("acme-norms==2.0", "only-old"), location=HERE)
    with pytest.raises(Exception, match=r"(?s)m\.yaml:4:1: the toolchain .*only-old.*two manifests"):
        toolchains.interpreter(spec)


def test_a_python_that_nobody_has_is_told(toolchains: Toolchains) -> None:
    spec = ToolchainSpec(dsl="4.8.1", python="3.99", location=HERE)
    with pytest.raises(Exception, match=r"(?s)m\.yaml:4:1: no Python 3\.99 is installed.*Install one and add it to"):
        toolchains.interpreter(spec)
