"""The distributions: what is in them, and that making them leaves the tree alone."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from configparser import ConfigParser
from email import message_from_bytes
from email.message import Message
from importlib.metadata import EntryPoint
from pathlib import Path

import hatchling
import pytest

from precast.attach.activation import plugin
from precast.loader.version import VERSION, compatible

ROOT = Path(__file__).resolve().parents[2]
ALONE = ("loader", "emulator", "attach", "measure", "native", "publish")  # each a distribution of its own
PACKAGES = ("kernels", "manifests", "build", "cli")
COMPILED = "native/_callpath.abi3.so"
ACTIVATION = "precast_attach.pth"  # at the top of the wheel, where Python reads it when it starts
LEFT_OUT = (".git", ".work", "__pycache__", ".*_cache", ".hypothesis", Path(COMPILED).name)

# By the functions that every front end calls, in one process: each front end starts several for each distribution.
BUILD = """
import os, sys, tarfile
from pathlib import Path
from hatchling import build
out, *sources = map(Path, sys.argv[1:])
for source in sources:
    os.chdir(source)
    build.build_wheel(str(out / "direct"))
    with tarfile.open(out / build.build_sdist(str(out))) as archive:
        archive.extractall(out / "unpacked")
        os.chdir(out / "unpacked" / archive.getnames()[0].partition("/")[0])
    build.build_wheel(str(out))
"""

pytestmark = pytest.mark.slow


def snapshot(folder: Path) -> dict[str, str]:
    """Every path under a folder with the digest of its content; links as links."""
    result = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if "__pycache__" in path.parts:
            continue
        if path.is_symlink():
            result[name] = f"-> {os.readlink(path)}"
        else:
            result[name] = "folder" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
    return result


def sources(folder: str, home: str) -> set[str]:
    """The files of a top folder as a distribution names them, without the metadata that stands beside the loader."""
    beside = {"pyproject.toml", "README.md", "LICENSE"} if folder in ALONE else set()
    found = (p.relative_to(ROOT / folder) for p in (ROOT / folder).rglob("*") if p.is_file())
    beside.add(COMPILED)
    return {f"{home}{p}" for p in found if str(p) not in beside and "__pycache__" not in p.parts}


def of_host_programs(home: str) -> set[str]:
    """The C sources that libprecast shares with the loader: a link in the repository, files in a distribution."""
    return sources("loader/native/host_program", f"{home}host_program/")


def frontend(*words: object) -> None:
    """Run a command; its output is shown if it fails."""
    done = subprocess.run([str(w) for w in words], cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A copy of the tree, all sdists, the wheels made from them, and the wheels made from the tree."""
    base = tmp_path_factory.mktemp("packaging")
    tree, out = base / "tree", base / "out"
    shutil.copytree(ROOT, tree, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
    before = snapshot(tree)
    frontend(sys.executable, "-c", BUILD, out, *(tree / name for name in ALONE), tree)
    editable = base / "editable"
    frontend(sys.executable, "-m", "venv", "--without-pip", editable)
    pip = (sys.executable, "-m", "pip", "--python", editable / "bin" / "python", "install", "-q", "--no-deps")
    shared = Path(hatchling.__path__[0]).parent  # the backend comes from here, not from the network
    (next(editable.glob("lib/python3*/site-packages")) / "shared.pth").write_text(f"{shared}\n")
    frontend(*pip, "--no-build-isolation", *(word for name in ALONE for word in ("-e", tree / name)), "-e", tree)
    (tree / "loader" / COMPILED).unlink()  # git ignores it
    after = snapshot(tree)
    assert after == before, f"made or changed: {sorted(set(after.items()) ^ set(before.items()))}"
    return {"tree": tree, "out": out, "editable": editable}


def test_the_builder_wheel_holds_the_four_folders(made: dict[str, Path]) -> None:
    wheel = zipfile.ZipFile(made["out"] / f"precast-{VERSION}-py3-none-any.whl")
    info = f"precast-{VERSION}.dist-info/"
    expected = set().union(*(sources(p, f"precast/{p}/") for p in PACKAGES))
    expected |= {"precast/__main__.py"}
    expected -= {"precast/cli/__main__.py"}  # it stands at the top instead
    metadata = {f"{info}{n}" for n in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")}
    assert set(wheel.namelist()) == expected | metadata
    assert {f"precast/{p}/py.typed" for p in PACKAGES} <= expected
    assert "precast = precast.cli.main:run" in wheel.read(f"{info}entry_points.txt").decode()
    assert wheel.read(f"{info}licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_the_loader_wheel_holds_the_loader_and_fetch(made: dict[str, Path]) -> None:
    """Their Python modules and the compiled call path; no C source."""
    wheel = zipfile.ZipFile(wheel_of(made["out"], "precast_loader"))
    info = f"precast_loader-{VERSION}.dist-info/"
    metadata = {f"{info}{n}" for n in ("METADATA", "WHEEL", "RECORD", "licenses/LICENSE")}
    left_out = (".c", ".h", "hatch_build.py")
    modules = {n for n in sources("loader", "precast/loader/") if not n.endswith(left_out)}
    modules |= sources("fetch", "precast/fetch/")
    page = "precast/loader/command_line/errors.md"
    assert set(wheel.namelist()) == modules | metadata | {f"precast/loader/{COMPILED}", page}
    assert wheel.read(page) == (ROOT / "docs" / "errors.md").read_bytes()
    assert "Tag: cp310-abi3-manylinux_2_" in wheel.read(f"{info}WHEEL").decode()
    assert "precast/loader/py.typed" in wheel.namelist()
    assert wheel.read(f"{info}licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_the_emulator_wheel_holds_the_emulator(made: dict[str, Path]) -> None:
    """Its Python modules and the C++ sources of its interpreter."""
    wheel = zipfile.ZipFile(made["out"] / f"precast_emulator-{VERSION}-py3-none-any.whl")
    info = f"precast_emulator-{VERSION}.dist-info/"
    expected = sources("emulator", "precast/emulator/") | {
        f"{info}{n}" for n in ("METADATA", "WHEEL", "RECORD", "licenses/LICENSE")
    }
    assert set(wheel.namelist()) == expected
    assert {"precast/emulator/py.typed", "precast/emulator/interpreter/core/machine.cpp"} <= expected


def test_the_emulator_needs_nothing_and_is_brought_by_an_extra(made: dict[str, Path], tmp_path: Path) -> None:
    """Its wheel alone runs a kernel."""
    assert metadata(made, "precast_emulator").get_all("Requires-Dist", []) == []
    assert f"precast-emulator=={VERSION}; extra == 'emulate'" in metadata(made, "precast").get_all("Requires-Dist", [])
    zipfile.ZipFile(wheel_of(made["out"], "precast_emulator")).extractall(tmp_path)
    script = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from precast.emulator import Launch, __file__, emulate
launch = Launch(kernel="k", grid=(2, 1, 1), block=(32, 1, 1))
text = ".version 8.8\\n.target sm_90a\\n.address_size 64\\n.visible .entry k() {{ ret; }}"
print(__file__, emulate(text, launch).checked().blocks)
"""
    done = subprocess.run([sys.executable, "-S", "-I", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(tmp_path / "precast" / "emulator" / "__init__.py"), "2"]


def test_the_attach_wheel_holds_attach_and_asks_for_the_loader_alone(made: dict[str, Path]) -> None:
    wheel = zipfile.ZipFile(made["out"] / f"precast_attach-{VERSION}-py3-none-any.whl")
    info = f"precast_attach-{VERSION}.dist-info/"
    files = {f"{info}{n}" for n in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")}
    modules = {n for n in sources("attach", "precast/attach/") if not n.endswith(("hatch_build.py", ACTIVATION))}
    assert set(wheel.namelist()) == modules | files | {ACTIVATION}
    assert {"precast/attach/py.typed", "precast/attach/libraries/quack.py"} <= modules
    assert metadata(made, "precast_attach").get_all("Requires-Dist", []) == [f"precast-loader=={VERSION}"]
    assert f"precast-attach=={VERSION}; extra == 'attach'" in metadata(made, "precast").get_all("Requires-Dist", [])


def test_the_loader_brings_nothing_of_attach_but_its_door(made: dict[str, Path]) -> None:
    names = zipfile.ZipFile(wheel_of(made["out"], "precast_loader")).namelist()
    door = {
        f"precast/loader/attach/{n}"
        for n in ("__init__.py", "__main__.py", "libraries/__init__.py", "libraries/vllm.py")
    }
    assert {name for name in names if "attach" in name or name.endswith(".pth")} == door
    assert "precast-attach; extra == 'attach'" in metadata(made, "precast_loader").get_all("Requires-Dist", [])


def test_the_native_wheel_holds_the_sources_of_libprecast_and_asks_for_the_builder(made: dict[str, Path]) -> None:
    names = set(zipfile.ZipFile(wheel_of(made["out"], "precast_native")).namelist())
    expected = sources("native", "precast/native/") | of_host_programs("precast/native/")
    assert expected <= names and {"precast/native/include/precast.h"} < expected
    assert metadata(made, "precast_native").get_all("Requires-Dist", []) == [f"precast=={VERSION}"]
    assert f"precast-native=={VERSION}; extra == 'native'" in metadata(made, "precast").get_all("Requires-Dist", [])


def test_the_measure_wheel_holds_its_page_and_is_brought_by_what_measures(made: dict[str, Path]) -> None:
    names = set(zipfile.ZipFile(wheel_of(made["out"], "precast_measure")).namelist())
    modules = sources("measure", "precast/measure/")
    assert {"precast/measure/py.typed", "precast/measure/web_report/page.html"} < modules < names
    assert metadata(made, "precast_measure").get_all("Requires-Dist", []) == [f"precast=={VERSION}"]
    requirements = metadata(made, "precast").get_all("Requires-Dist", [])
    for extra in ("emulate", "export", "measure", "torch"):
        assert f"precast-measure=={VERSION}; extra == '{extra}'" in requirements


def test_the_publish_wheel_is_brought_by_its_extra(made: dict[str, Path]) -> None:
    names = set(zipfile.ZipFile(wheel_of(made["out"], "precast_publish")).namelist())
    assert {"precast/publish/py.typed"} < sources("publish", "precast/publish/") < names
    requirements = metadata(made, "precast_publish").get_all("Requires-Dist", [])
    assert requirements == ["packaging>=24.2", f"precast=={VERSION}"]
    whole = metadata(made, "precast").get_all("Requires-Dist", [])
    assert f"precast-publish=={VERSION}; extra == 'publish'" in whole


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("precast", ""),
        ("precast_loader", "loader"),
        ("precast_emulator", "emulator"),
        ("precast_attach", "attach"),
        ("precast_measure", "measure"),
        ("precast_native", "native"),
        ("precast_publish", "publish"),
    ],
)
def test_an_sdist_holds_its_sources_and_no_links(made: dict[str, Path], name: str, folder: str) -> None:
    with tarfile.open(made["out"] / f"{name}-{VERSION}.tar.gz") as archive:
        members = archive.getmembers()
    home = f"{name}-{VERSION}/"
    top = {f"{home}{n}" for n in ("PKG-INFO", "pyproject.toml", "README.md", "LICENSE", ".gitignore")}
    parts = [sources(folder, home)] if folder else [sources(p, f"{home}{p}/") for p in PACKAGES]
    if folder == "loader":
        parts += [{f"{home}command_line/errors.md"}, sources("fetch", f"{home}fetch/")]
    if folder == "native":
        parts.append(of_host_programs(home))
    if not folder:
        parts.append({f"{home}hatch_build.py", f"{home}loader/version.py"})  # what its metadata is made from
    assert {m.name for m in members} == set().union(*parts) | top
    assert all(m.isfile() for m in members)


@pytest.mark.parametrize("name", ["precast", *(f"precast_{name}" for name in ALONE)])
def test_a_wheel_from_the_sdist_is_the_wheel_from_the_tree(made: dict[str, Path], name: str) -> None:
    wheel = wheel_of(made["out"], name)
    assert wheel.read_bytes() == (made["out"] / "direct" / wheel.name).read_bytes()


def wheel_of(folder: Path, name: str) -> Path:
    """The one wheel of a distribution."""
    (wheel,) = folder.glob(f"{name}-*.whl")
    return wheel


def test_a_loader_without_native_code_is_for_every_host(made: dict[str, Path], tmp_path: Path) -> None:
    command = (
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--wheel",
        "--outdir",
        tmp_path,
        made["tree"] / "loader",
    )
    frontend("env", "PRECAST_NATIVE=0", *command)
    wheel = wheel_of(tmp_path, "precast_loader")
    names = zipfile.ZipFile(wheel).namelist()
    assert wheel.name.endswith("-py3-none-any.whl") and f"precast/loader/{COMPILED}" not in names


def test_native_code_that_must_be_there_and_cannot_be_compiled(made: dict[str, Path], tmp_path: Path) -> None:
    command = (
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--wheel",
        "--outdir",
        tmp_path,
        made["tree"] / "loader",
    )
    words = [str(word) for word in ("env", "PRECAST_NATIVE=1", "CC=/no/such/compiler", *command)]
    done = subprocess.run(words, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode and "/no/such/compiler does not run" in done.stdout + done.stderr
    frontend("env", "CC=/no/such/compiler", *command)
    assert wheel_of(tmp_path, "precast_loader").name.endswith("-py3-none-any.whl")


def metadata(made: dict[str, Path], name: str) -> Message:
    """The metadata of a distribution's wheel."""
    wheel = zipfile.ZipFile(wheel_of(made["out"], name))
    return message_from_bytes(wheel.read(f"{name}-{VERSION}.dist-info/METADATA"))


def test_all_distributions_have_one_version(made: dict[str, Path]) -> None:
    builder = metadata(made, "precast")
    others = [metadata(made, f"precast_{name}")["Version"] for name in ALONE]
    assert [builder["Version"], *others] == [VERSION] * (1 + len(ALONE))
    assert f"precast-loader=={VERSION}" in builder.get_all("Requires-Dist", [])


def test_the_version_of_the_tree_is_of_the_range_that_a_cache_asks_for() -> None:
    least, below = compatible().removeprefix(">=").split(",<")
    version = [int(part) for part in VERSION.split(".")]
    assert [int(part) for part in least.split(".")] <= version < [int(part) for part in below.split(".")]


def test_an_editable_install_reads_the_tree(made: dict[str, Path]) -> None:
    script = "import precast.loader, precast.build, precast.cli; print(precast.build.__file__, precast.loader.__file__)"
    python = made["editable"] / "bin" / "python"
    done = subprocess.run([str(python), "-I", "-c", script], capture_output=True, text=True, check=True)
    built, loader = (Path(p).resolve() for p in done.stdout.split())
    assert built == made["tree"] / "build" / "__init__.py"
    assert loader == made["tree"] / "loader" / "__init__.py"


def test_each_process_of_an_installation_reads_the_variable(made: dict[str, Path], tmp_path: Path) -> None:
    """Of an editable one, and of a wheel."""
    installed = tmp_path / "installed"
    frontend(sys.executable, "-m", "venv", "--without-pip", installed)
    pip = (sys.executable, "-m", "pip", "--python", installed / "bin" / "python", "install", "-q", "--no-deps")
    frontend(*pip, "--no-index", *(wheel_of(made["out"], name) for name in ("precast_loader", "precast_attach")))
    script = "import sys; print('precast.attach.activation' in sys.modules, 'precast.loader' in sys.modules)"
    for folder in (made["editable"], installed):
        for named, printed in (("quack", "True True\n"), ("", "False False\n")):
            words = ["env", f"PRECAST_ATTACH={named}", str(folder / "bin" / "python"), "-I", "-c", script]
            done = subprocess.run(words, capture_output=True, text=True, check=True, cwd="/")
            assert (done.stdout, done.stderr) == (printed, "")


def test_engines_find_the_plug_in(made: dict[str, Path]) -> None:
    wheel = zipfile.ZipFile(wheel_of(made["out"], "precast_attach"))
    points = ConfigParser()
    points.read_string(wheel.read(f"precast_attach-{VERSION}.dist-info/entry_points.txt").decode())
    engines = ["sglang.srt.plugins", "vllm.general_plugins"]
    assert points.sections() == ["precast.adapters", *engines]
    for group in engines:
        (point,) = (EntryPoint(name, value, group) for name, value in points.items(group))
        assert point.name == "precast" and point.load() is plugin


def test_a_built_wheel_imports_alone(made: dict[str, Path], tmp_path: Path) -> None:
    zipfile.ZipFile(wheel_of(made["out"], "precast_loader")).extractall(tmp_path)
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import precast.loader as p; print(p.__file__)"
    done = subprocess.run([sys.executable, "-S", "-I", "-c", script], capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()) == tmp_path / "precast" / "loader" / "__init__.py"
