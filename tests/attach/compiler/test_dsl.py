"""What is answered in place of the DSL where it is installed. Each in a process of its own: the DSL is changed."""

from __future__ import annotations

import os

import pytest

from tests.helpers.attached import TORCH_AND_DSL
from tests.helpers.forks.forked_process import run_code

COUNT = """
import sys
from precast.attach import attach
from precast.attach.compiler import dsl

dsl.max_active_clusters = lambda size, device: 10 * size + device
attach([], mode=sys.argv[1])
attach([])
from cutlass.utils import HardwareInfo

info = object.__new__(HardwareInfo)
info.device_id = 3
for arguments in ((2,), (64,), (2, "a stream")):
    try:
        print(info.get_max_active_clusters(*arguments))
    except AttributeError as error:  # the DSL's own method asks the driver, and this object has none
        print("the DSL")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "first"), [("serve", "23"), ("frozen", "23"), ("record", "the DSL")])
def test_the_driver_counts_clusters_so_that_nothing_is_compiled_for_it(mode: str, first: str) -> None:
    done = run_code([COUNT, mode], os.environ, TORCH_AND_DSL)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [first, "the DSL", "the DSL"]


OPTIONS = """
import inspect
from cutlass import cute
from cutlass.base_dsl.compiler import CompileOption
from precast.attach.compiler.host_values import OPTIONS

options = {name for name, value in vars(cute).items() if inspect.isclass(value) and issubclass(value, CompileOption)}
assert options == set(OPTIONS), options ^ set(OPTIONS)
"""


def test_the_options_that_stand_in_are_those_of_the_dsl() -> None:
    pytest.importorskip("cutlass")
    done = run_code([OPTIONS], os.environ, TORCH_AND_DSL)
    assert done.returncode == 0, done.stderr
