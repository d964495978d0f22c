"""An attachment serves exactly the key that was built; everything else is a miss that says why."""

from __future__ import annotations

import enum
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from precast.attach.attachment import Attachment, KernelMissing
from precast.attach.library import Library
from precast.attach.recorder import Recorder
from precast.attach.recordings.keys import canonical, encode
from precast.attach.recordings.recording import read_recording
from precast.loader import api, session
from precast.loader.errors import ConfigError, Frozen
from precast.loader.launch.kernel import Kernel
from tests.helpers.attach.mini_library import PACKAGE
from tests.helpers.attached import MINE, key_of, write_cache
from tests.helpers.caches import Native

FUNCTION = f"{PACKAGE}.kernels:compiled"


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2


class Tile(NamedTuple):
    rows: Any
    columns: Any


ASKED: dict[str, Any] = {
    "n": 1,
    "dtype": "bf16",
    "eps": 1e-6,
    "zero": 0.0,
    "causal": True,
    "mask": None,
    "tile": Tile(64, (1, 2)),
    "mode": Mode.FAST,
}
VALUES = st.recursive(
    st.sampled_from([None, True, False, 0, 1, -0.0, 0.0, 1.0, 1e-6, 64.0, "bf16", "bfloat16", "1", "", *Mode, Mode]),
    lambda inner: st.lists(inner, max_size=2) | st.tuples(inner, inner) | st.builds(Tile, inner, inner),
    max_leaves=4,
)


@pytest.fixture
def cache(native: Native, installed: Path, tmp_path: Path, use: Callable[..., session.Session]) -> Path:
    """A cache that holds one key, in use."""
    path = write_cache(native, tmp_path / "keys", FUNCTION, [key_of(ASKED)])
    use(path)
    return path


def serving(**more: Any) -> Attachment:
    return Attachment(more.pop("mode", "serve"), target="sm_90a", **more)


def test_the_key_that_was_built_is_served(cache: Path) -> None:
    attachment = serving()
    assert isinstance(attachment.obtain(MINE, FUNCTION, ASKED), Kernel)
    assert str(attachment) == f"{FUNCTION}: 1 served, 0 not"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@example("dtype", "bfloat16")  # another name of one dtype
@example("n", True)
@example("zero", -0.0)
@example("tile", Tile(64, (1, 2.0)))
@example("tile", (64, (1, 2)))
@given(st.sampled_from(sorted(ASKED)), VALUES)
def test_a_change_of_any_field_misses_and_is_named(cache: Path, name: str, value: Any) -> None:
    attachment = serving()
    found = attachment.obtain(MINE, FUNCTION, {**ASKED, name: value})
    same = canonical(encode(value)) == canonical(encode(ASKED[name]))
    assert (found is not None) == same
    if not same:
        (count,) = attachment.counts()
        assert name in next(iter(count.reasons))


def test_a_field_more_or_less_misses(cache: Path) -> None:
    less = {name: value for name, value in ASKED.items() if name != "mask"}
    assert serving().obtain(MINE, FUNCTION, less) is None
    assert serving().obtain(MINE, FUNCTION, {**ASKED, "more": 1}) is None


@pytest.mark.parametrize("other", ["compiled_", "_compiled", "Compiled", "inner.compiled"])
def test_functions_of_like_names_do_not_share_kernels(cache: Path, other: str) -> None:
    attachment = serving()
    assert attachment.obtain(MINE, f"{PACKAGE}.kernels:{other}", ASKED) is None
    assert "no cache holds attach.mine." in str(attachment)


def test_ops_are_names_that_a_cache_can_hold() -> None:
    from precast.loader.contract.format.patterns import OP_NAME

    for place in (f"{PACKAGE}:_", f"{PACKAGE}:_2d", f"{PACKAGE}.a:{'x' * 200}", f"{PACKAGE}:ü", "elsewhere.m:F.g"):
        assert OP_NAME.admits(MINE.op(place)), MINE.op(place)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("library_version", "0.9", "built with minilib 0.9; 1.0 is installed"),
        ("library_source", "0" * 64, "built with other sources of minilib 1.0 than are installed"),
        ("dsl_version", "4.0.0", "built with nvidia-cutlass-dsl 4.0.0; 4."),
    ],
)
def test_a_skew_misses_and_says_which(
    name: str,
    value: str,
    words: str,
    native: Native,
    installed: Path,
    tmp_path: Path,
    use: Callable[..., session.Session],
    capsys: pytest.CaptureFixture[str],
) -> None:
    if name == "dsl_version":
        pytest.importorskip("cutlass")
    use(write_cache(native, tmp_path / "keys", FUNCTION, [key_of(ASKED, **{name: value})]))
    attachment = serving()
    assert attachment.obtain(MINE, FUNCTION, ASKED) is None
    ((reason, count),) = attachment.counts()[0].reasons.items()
    assert words in reason and count == 1
    said = capsys.readouterr().err
    assert said.startswith(f"precast: {FUNCTION} is compiled in this process") and words in said
    assert value == value[:20] or value[:20] not in reason + said
    with pytest.raises(KernelMissing, match="precast record --update") as raised:
        serving(mode="frozen").obtain(MINE, FUNCTION, ASKED)
    assert words in str(raised.value)


def test_the_first_miss_of_a_process_names_edited_files_and_later_ones_are_silent(
    cache: Path, installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (installed / PACKAGE / "kernels.py").write_text("def compiled(n): return 'edited'\n")
    attachment = serving()
    assert attachment.obtain(MINE, FUNCTION, ASKED) is attachment.obtain(MINE, FUNCTION, {**ASKED, "n": 2}) is None
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "files of minilib were edited: kernels.py." in said
    assert "precast record --update recorded.yaml; precast build recorded.yaml" in said


@pytest.mark.parametrize(
    ("function", "n", "target", "words", "command"),
    [
        (FUNCTION, 2, "sm_90a", "the recording that the caches were built from does not have it", "record --append"),
        (
            f"{FUNCTION}_",
            1,
            "sm_90a",
            "no cache that is installed here has a kernel of this function",
            "record --append",
        ),
        (FUNCTION, 1, "sm_100a", "built for sm_90a", "(precast build recorded.yaml"),
    ],
)
def test_a_miss_says_why_and_what_mends_it(
    function: str, n: int, target: str, words: str, command: str, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Attachment("serve", target=target).obtain(MINE, function, {**ASKED, "n": n}) is None
    said = capsys.readouterr().err
    assert words in said and command in said and "attach.mine" not in said


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (object(), "builtins.object has no form"),
        (2**70, "beyond 64 bits"),
        ("x" * 2000, "2000 characters"),
        ((((((((((((((1,),),),),),),),),),),),),), "levels"),
    ],
)
def test_what_no_key_can_hold_is_compiled_as_before(cache: Path, value: object, reason: str) -> None:
    attachment = serving()
    assert attachment.obtain(MINE, FUNCTION, {**ASKED, "n": value}) is None
    assert reason in str(attachment)
    with pytest.raises(KernelMissing, match="no cache can hold it: attach with mode='serve'"):
        serving(mode="frozen").obtain(MINE, FUNCTION, {**ASKED, "n": value})


def test_a_library_that_pip_does_not_know_is_a_miss_that_says_so(cache: Path) -> None:
    attachment = serving()
    unknown = Library(name="mine", distribution="no-such-thing", package=PACKAGE, seams=())
    assert attachment.obtain(unknown, FUNCTION, ASKED) is None
    assert "no-such-thing is not installed: pip install no-such-thing" in str(attachment)


def test_a_key_that_needs_its_call_is_to_be_recorded(cache: Path) -> None:
    with pytest.raises(KernelMissing, match="record the program"):
        serving(mode="frozen").obtain(MINE, FUNCTION, {"key": 1}, call=dict)


def test_what_happens_to_a_missing_kernel(cache: Path) -> None:
    missing = {**ASKED, "n": 2}
    with pytest.raises(KernelMissing, match="n is"):
        serving(missing="raise").obtain(MINE, FUNCTION, missing)
    skipped = serving(mode="record", missing="skip").obtain(MINE, FUNCTION, missing)
    assert skipped is not None and skipped(1, x=2) is None


@pytest.mark.parametrize(
    ("mode", "missing"), [("serve", "skip"), ("frozen", "skip"), ("record", "raise"), ("x", "compile"), ("serve", "x")]
)
def test_modes_that_would_give_wrong_results_are_refused(mode: Any, missing: Any) -> None:
    with pytest.raises(ConfigError, match="use"):
        Attachment(mode, missing=missing)


def test_record_writes_hits_and_misses_down_once(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "recording"
    attachment = serving(mode="record", recorder=Recorder(path))
    for _ in range(2):
        assert attachment.obtain(MINE, FUNCTION, ASKED) is not None
        assert attachment.obtain(MINE, FUNCTION, {**ASKED, "n": 2}) is None
    assert [one.config["n"] for one in read_recording(path.read_bytes())] == [1, 2]
    expected = {name: value for name, value in key_of(ASKED).items() if name != "dsl_version"}
    assert attachment.recorder.recorded[0].config == expected


def test_another_mode_later(cache: Path) -> None:
    attachment = serving()
    forgotten: list[str] = []
    attachment.on_change(lambda: forgotten.append("x"))
    attachment.change("serve")
    assert forgotten == []
    attachment.change("frozen")
    assert forgotten == ["x"]
    attachment.change(missing="raise")
    assert (attachment.mode, attachment.missing) == ("frozen", "raise")
    with pytest.raises(ConfigError, match="separate process"):
        attachment.change("record")


def test_after_freeze_a_kernel_that_is_not_loaded_is_an_error_and_not_compiled(cache: Path) -> None:
    api.freeze()
    with pytest.raises(Frozen):
        serving().obtain(MINE, FUNCTION, ASKED)


def test_the_loader_explains_and_counts_the_keys_of_seams(cache: Path) -> None:
    serving().obtain(MINE, FUNCTION, ASKED)
    assert api.stats().lookups == 1
    assert api.explain(MINE.op(FUNCTION), key_of(ASKED), target="sm_90a").chosen is not None
