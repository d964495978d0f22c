"""Codes: each error class of precast has one of its own, for ever; they are seen, and get through pickles."""

from __future__ import annotations

import ast
import copy
import importlib
import pickle
import subprocess
import sys

import pytest

from precast.build.errors import Location, ManifestError
from precast.build.ipc.child_process import ChildLost
from precast.emulator import EmulatorError
from precast.loader.errors import ConfigError, FormatError, PrecastError, VariantNotFound
from precast.loader.machine.driver import NoDriver
from tests.helpers.source_tree import modules

GIVEN = {
    "PrecastError": "PCL00", "ConfigError": "PCL01", "TargetError": "PCL02", "FormatError": "PCL03",
    "CacheError": "PCL04", "IntegrityError": "PCL05", "OpNotFound": "PCL06", "VariantNotFound": "PCL07",
    "LoadError": "PCL08", "LaunchError": "PCL09", "Frozen": "PCL10", "NoCudaDevice": "PCL11", "WrongDevice": "PCL12",
    "NoDriver": "PCL13", "NotWarmedUp": "PCL14", "FetchError": "PCL16", "AttachNotInstalled": "PCL17",
    "SignatureError": "PCL18",
    "NotInstalled": "PCA01", "KernelMissing": "PCA02", "UnknownKey": "PCA03", "NoCompiler": "PCA04",
    "DeferredImportFailed": "PCA05", "CompanionLeftOut": "PCA06",
    "DeclarationError": "PCK01", "SourceError": "PCK02", "UnknownOp": "PCK03",
    "NoOperator": "PCK05", "PackageError": "PCK06",
    "ManifestError": "PCB01", "DescribeError": "PCB02", "ToolError": "PCB03",
    "ObjectError": "PCB05", "LinkError": "PCB06", "PlanError": "PCB07", "StoreError": "PCB08", "OutputError": "PCB09",
    "WheelError": "PCB10", "BundleError": "PCB11", "MergeError": "PCB12", "ClusterError": "PCB13",
    "RemoteError": "PCB14", "ChangedInputError": "PCB15", "Lost": "PCB16", "ChildLost": "PCB17",
    "UnknownFact": "PCB18", "Refused": "PCB19", "ProcessLost": "PCB20", "PushError": "PCB21",
    "Unsupported": "PCB22", "EmulationFault": "PCB23", "InterpreterError": "PCB24", "NoPtx": "PCB25",
    "UndeclaredInput": "PCB26", "UnsteadyKernel": "PCB27",
    "NoSuchArtifact": "PCC01",
}  # fmt: skip
"""Every code that was ever given. A line is added for a new class. None is changed or taken out: logs have them."""
RETIRED: frozenset[str] = frozenset()
"""Of these, the classes that are no more. Their entries stay on the page, and say so."""
LETTERS = {
    "loader": "L",
    "attach": "A",
    "kernels": "K",
    "build": "B",
    "emulator": "B",
    "measure": "B",
    "publish": "B",
    "cli": "C",
}


def error_classes() -> dict[str, type[PrecastError | EmulatorError]]:
    """Every class of the packages that derives from PrecastError, by its name: found in the source, then imported.

    Those of the emulator, which does not know the loader, have a base of their own.
    """
    defined = [
        (node, name)
        for name, module in modules().items()
        if name.startswith("precast.")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
    ]
    known = {"PrecastError", "EmulatorError"}
    while more := {n.name for n, _ in defined if n.name not in known and known & {_last(b) for b in n.bases}}:
        known |= more
    found = {}
    for node, name in defined:
        if node.name in known - {"EmulatorError"}:
            assert node.name not in found, f"two error classes are named {node.name}: messages and logs show the name"
            found[node.name] = getattr(importlib.import_module(name), node.name)
    return found


def _last(base: ast.expr) -> str:
    return ast.unparse(base).rpartition(".")[2]


def test_each_class_has_a_code_of_its_own_for_ever() -> None:
    codes = {name: vars(kind).get("code") for name, kind in error_classes().items()}
    without = sorted(name for name, code in codes.items() if code is None)
    assert not without, f"give {without} the next code of its letter, here and in the class, and an entry on the page"
    assert codes == {name: code for name, code in GIVEN.items() if name not in RETIRED}
    assert len(set(GIVEN.values())) == len(GIVEN), "two classes have one code"


def test_a_code_says_where_its_class_is() -> None:
    for name, kind in error_classes().items():
        letters = LETTERS[kind.__module__.split(".")[1]]
        assert kind.code[:2] == "PC" and kind.code[2] == letters and kind.code[3:].isdecimal(), name


def test_a_class_of_a_user_has_the_code_of_its_base() -> None:
    class Mine(ConfigError):
        def __init__(self, first: int, *, second: int) -> None:  # which calls no other
            self.both = (first, second)

    error = Mine(1, second=2)
    assert error.code == "PCL01"
    if sys.version_info >= (3, 11):
        assert error.__notes__ == ["PCL01: 'python -m precast.loader error PCL01' explains it"]


ERRORS = [
    ConfigError("no key 'a': write b"),
    FormatError("expected int", "a").within(3),
    VariantNotFound("no variant fits", resolution=("rejected",)),
    ManifestError("unknown key", Location("m.yaml", 2, 5)),
    ChildLost("it ended", "printed"),
    NoDriver("not installed", (13, 0)),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_crosses_processes_whole(error: PrecastError) -> None:
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error) and str(twin) == str(error) and vars(twin) == vars(error)
        assert len(getattr(twin, "__notes__", [""])) == 1


def test_the_code_is_no_part_of_the_message() -> None:
    assert str(ConfigError("as it was")) == "as it was" and ConfigError("as it was").args == ("as it was",)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python prints notes since 3.11")
@pytest.mark.parametrize(
    "script",
    [
        "from precast import loader; loader.get('skale', target='sm_90a')",
        "import logging, sys\nfrom precast import loader\nlogging.basicConfig(stream=sys.stderr)\n"
        "try: loader.get('skale', target='sm_90a')\nexcept Exception: logging.exception('a request failed')",
        "import concurrent.futures as f\nfrom precast import loader\n"
        "with f.ThreadPoolExecutor() as pool: pool.submit(loader.get, 'skale', target='sm_90a').result()",
    ],
    ids=["uncaught", "logged", "from a thread"],
)
def test_a_traceback_ends_with_the_code(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.rstrip().endswith("PCL06: 'python -m precast.loader error PCL06' explains it")
