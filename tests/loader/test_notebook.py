"""What a notebook shows of the loader's values, and that they are what they were to programs."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from precast import loader
from precast.loader.api import Variants
from precast.loader.contract.format.artifact import Artifact, Resources
from precast.loader.contract.format.signature import Argument
from precast.loader.contract.values import replace
from tests.helpers.caches import SCALE_KEYS, CacheWriter, Native, artifact
from tests.helpers.loader_fixtures import Use
from tests.helpers.notebook.markup_reader import MarkupReader
from tests.helpers.web import browser

HOSTILE = (
    "</td><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">$\\alert{1}$\u202e&lt;"
)
SHOWN = HOSTILE.replace("\u202e", r"\u202e")
TAGS = {"div", "style", "table", "caption", "thead", "tbody", "tr", "th", "td", "p", "pre", "b", "span", "wbr"}


def hostile_artifact(writer: CacheWriter, native: Native, target: str = "sm_90a") -> Artifact:
    """An artifact that is hostile wherever a cache may hold any text, and whose code is sound."""
    made = artifact(writer.keep(native.entry()), {"dtype": "bfloat16", "layout": HOSTILE, "threads": 128}, target)
    first, *others = made.signature.arguments
    return replace(
        made,
        signature=replace(made.signature, arguments=(replace(first, name=HOSTILE, dtype=HOSTILE), *others)),
        resources=(Resources(kernel=HOSTILE, registers=40, shared=1024, stack=8, local=0),),
        provenance={"function": HOSTILE, "registered": False},
        evidence=(
            {"check": "verify", "gpu": HOSTILE, "date": HOSTILE, "failed": [HOSTILE]},
            {"check": "verify", "gpu": ["not", "a", "text"], "failed": {}},
        ),
    )


@pytest.fixture
def hostile(native: Native, tmp_path: Path, use: Use) -> Path:
    """A cache of hostile texts, and beside it one that cannot be read, in a folder of a hostile name."""
    writer = CacheWriter(name="hostile")
    writer.runtime(*native.runtime())
    writer.op("scale", [hostile_artifact(writer, native), hostile_artifact(writer, native, "sm_100a")], keys=SCALE_KEYS)
    writer.ops["scale"] = replace(writer.ops["scale"], doc=HOSTILE)
    cache = writer.write(tmp_path / "hostile")
    use(cache, tmp_path / HOSTILE.replace("/", "|").replace(":", ";"))
    return cache


def values() -> Iterator[tuple[str, Any]]:
    """Everything of the loader that a notebook shows, by its name."""
    wanted = {"dtype": "bfloat16", "layout": HOSTILE}
    yield "ops", loader.ops()
    yield "caches", loader.caches()
    yield "variants", loader.variants("scale")
    yield "variant", loader.variants("scale")[0]
    yield "taken", loader.explain("scale", wanted, target="sm_90a")
    yield "refused", loader.explain("scale", {"dtype": "float16", "layout": HOSTILE}, target="sm_90a")
    with pytest.raises(loader.VariantNotFound) as error:
        loader.get("scale", {"dtype": "float16", "layout": HOSTILE}, target="sm_90a")
    yield "missing", error.value
    yield "kernel", loader.get("scale", wanted, target="sm_90a")
    yield "preload", loader.preload("scale", target="sm_90a")
    yield "stats", loader.stats()


def test_nothing_that_a_cache_says_becomes_markup(hostile: Path) -> None:
    texts = {}
    for name, value in values():
        read = MarkupReader(value._repr_html_())
        assert set(read.tags) <= TAGS, name
        assert read.attributes == [("class", "precast-values")], name
        texts[name] = read.text
    for name in ("variants", "variant", "taken", "refused", "missing", "kernel"):
        assert SHOWN[:40] in texts[name], name
    assert SHOWN in texts["variant"] and SHOWN in texts["kernel"]


@pytest.mark.slow
@pytest.mark.skipif(not browser.installed(), reason=browser.MISSING)
def test_a_browser_shows_them_and_runs_none_of_them(hostile: Path, tmp_path: Path) -> None:
    path = tmp_path / "shown.html"
    shown = "".join(value._repr_html_() for _, value in values())
    path.write_text(f'<!doctype html><meta charset="utf-8"><title>quiet</title>{shown}')
    with browser.browser(width=600) as driver:
        driver.get(path.as_uri())
        assert driver.title == "quiet"
        assert (
            driver.execute_script("return document.querySelectorAll('img, script, iframe, a, [src], [href]').length")
            == 0
        )
        assert SHOWN in driver.execute_script("return document.body.textContent")
        assert browser.errors(driver, path) == []
        wide = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        assert driver.execute_script(wide), "a table is wider than the page, and does not scroll in its own frame"
        for color in ("rgb(17, 17, 17)", "rgb(221, 221, 221)"):
            colors = (
                "document.body.style.color = arguments[0]; return [...new Set([...document.querySelectorAll("
                "'.precast-values, .precast-values *')].map(one => getComputedStyle(one).color))]"
            )
            assert driver.execute_script(colors, color) == [color]


def test_a_kernel_tells_all_of_itself(path: Path, use: Use) -> None:
    use(path)
    kernel = loader.get("scale", {"dtype": "bf16"}, target="sm_90a")
    text = MarkupReader(kernel._repr_html_()).text
    assert kernel.cache == "demo"
    assert "scale {dtype: bfloat16, layout: row, threads: 256} for sm_90a" in text
    assert kernel.artifact.key[:12] in text and "no CUDA device" in text
    for word in ("x", "bfloat16[n]", "aligned to 16 bytes", "factor", "float32", "multiple of 8", "never"):
        assert word in text
    assert "stream" not in text  # nobody passes it


def test_the_line_of_a_kernel_gets_it(path: Path, use: Use) -> None:
    use(path)
    for variant in loader.variants("scale"):
        (line,) = (line for line in MarkupReader(variant._repr_html_()).text.split("\n") if "loader.get(" in line)
        found = eval(line[line.index("loader.get(") :], {"loader": loader})
        assert found.artifact.key == variant.artifact.key


def test_a_decision_names_each_candidate_once(path: Path, use: Use) -> None:
    use(path)
    decision = loader.explain("scale", {"dtype": "bf16"}, target="sm_90a")
    read = MarkupReader(decision._repr_html_())
    assert [read.text.count(word) for word in ("taken", "fits", "refused")] == [1, 1, 10]
    assert read.tags.count("tr") == 1 + 12
    assert "to build it" not in read.text
    missing = MarkupReader(loader.explain("scale", {"dtype": "bf16"}, target="sm_120f")._repr_html_()).text
    assert "to build it, put this in a manifest" in missing and "targets: [sm_120f]" in missing


def test_an_error_without_a_decision_has_no_table() -> None:
    assert loader.VariantNotFound("nothing fits")._repr_html_() is None


def test_ops_and_caches_are_the_tuples_that_they_were(path: Path, use: Use) -> None:
    use(path)
    ops, caches = loader.ops(), loader.caches()
    assert isinstance(ops, tuple) and ops == ("scale", "twice") and hash(ops) == hash(("scale", "twice"))
    assert repr(ops) == "('scale', 'twice')" and json.dumps(ops) == '["scale", "twice"]'
    assert list(ops) == sorted(ops) and "scale" in ops and ops[:1] == ("scale",)
    assert pickle.loads(pickle.dumps(ops)) == copy.deepcopy(ops) == copy.copy(ops) == ops
    assert isinstance(caches, tuple) and caches == tuple(caches) and loader.caches() is caches
    assert repr(caches) == "demo (PRECAST_CACHE_PATH): 2 ops"
    shown = MarkupReader(loader.ops()._repr_html_()).text
    assert "demo" in shown and "12" in shown  # the cache, and how many artifacts it has of scale


def test_each_variant_has_a_row(path: Path, use: Use) -> None:
    use(path)
    read = MarkupReader(loader.variants("scale")._repr_html_())
    assert "scale: 12 variants" in read.text and read.tags.count("tr") == 1 + 12
    assert "spilled" not in read.text  # nobody said what they use


def test_nothing_found_is_said(use: Use) -> None:
    use()
    assert "no variants" in MarkupReader(Variants()._repr_html_()).text and repr(Variants()) == "no variants"
    assert repr(loader.caches()) == "no caches"
    assert "PRECAST_CACHE_PATH" in MarkupReader(loader.caches()._repr_html_()).text
    assert "0 ops" in MarkupReader(loader.ops()._repr_html_()).text


def test_a_program_that_shows_nothing_imports_nothing_of_it(path: Path) -> None:
    script = (
        "import sys; from precast import loader; loader.ops(); loader.caches(); loader.variants('scale');"
        "repr(loader.get('scale', {'dtype': 'bf16'}, target='sm_90a')); str(loader.explain('scale', {'dtype': 'bf16'},"
        " target='sm_90a')); str(loader.stats());"
        "print([m for m in sys.modules if 'notebook' in m or m in ('html', 'precast.loader.markup')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PRECAST_CACHE_PATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "[]\n", done.stderr


def test_a_tuple_argument_shows_its_members(native: Native, tmp_path: Path, use: Use) -> None:
    writer = CacheWriter()
    writer.runtime(*native.runtime())
    made = artifact(writer.keep(native.entry()), {"dtype": "bfloat16"})
    members = (Argument(name="a", kind="scalar", dtype="int32"), Argument(name="b", kind="none"))
    both = Argument(name="both", kind="tuple", members=members)
    writer.op("scale", [replace(made, signature=replace(made.signature, arguments=(both,)))])
    use(writer.write(tmp_path / "tuple"))
    assert "(a: int32, b: None)" in MarkupReader(loader.variants("scale")[0]._repr_html_()).text
