"""What the site changes in the HTML of its pages."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tests.helpers.documentation.site import SITE


def test_only_the_first_line_of_a_command_has_a_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SITE))
    module = importlib.import_module("page_html")
    assert doctest.testmod(module).failed == 0
    block = '<div class="highlight-{}notranslate"><div class="highlight"><pre><span></span>{}\n</pre></div></div>'
    typed = "# a\n\nsh -c &#39;\n  x\n&#39;\n<span>A=b</span> y \\\n    z"
    shown = module.prompted(block.format("sh ", typed)).replace(module.PROMPT, "$ ")
    assert shown == block.format("sh ", typed.replace("sh -c", "$ sh -c").replace("<span>A", "$ <span>A"))
    assert module.prompted(block.format("text ", "x")) == block.format("text ", "x")
