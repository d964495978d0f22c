"""Reports in JUnit's XML format, which CI systems display."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedCase:
    """One test case: its failures, or why it was skipped. With neither, it passed."""

    group: str
    name: str
    seconds: float = 0.0
    failures: Sequence[str] = ()
    skipped: str = ""


def report(suite: str, cases: Sequence[ReportedCase], properties: Mapping[str, object]) -> bytes:
    """The file: one suite with a case for each of ``cases``, and properties of all of them.

    Characters that XML cannot hold are replaced.

    >>> print(report("verify", [ReportedCase(group="scale", name="a<b", failures=["wrong"])], {}).decode())
    <?xml version='1.0' encoding='utf-8'?>
    <testsuites>
      <testsuite name="verify" tests="1" failures="1" skipped="0" time="0.000">
        <testcase classname="scale" name="a&lt;b" time="0.000">
          <failure message="wrong">wrong</failure>
        </testcase>
      </testsuite>
    </testsuites>
    """
    root = ElementTree.Element("testsuites")
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(bool(case.failures) for case in cases)),
        "skipped": str(sum(bool(case.skipped) for case in cases)),
        "time": f"{sum(case.seconds for case in cases):.3f}",
    }
    top = ElementTree.SubElement(root, "testsuite", {"name": clean(suite), **counts})
    if properties:
        listed = ElementTree.SubElement(top, "properties")
        for name, value in properties.items():
            ElementTree.SubElement(listed, "property", {"name": clean(name), "value": clean(str(value))})
    for case in cases:
        attributes = {"classname": clean(case.group), "name": clean(case.name), "time": f"{case.seconds:.3f}"}
        element = ElementTree.SubElement(top, "testcase", attributes)
        if case.failures:
            failure = ElementTree.SubElement(element, "failure", {"message": clean(case.failures[0])})
            failure.text = clean("\n".join(case.failures))
        elif case.skipped:
            ElementTree.SubElement(element, "skipped", {"message": clean(case.skipped)})
    ElementTree.indent(root)
    data: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return data


def clean(text: str) -> str:
    """A text with a replacement character for each that XML cannot hold, such as a control character.

    >>> clean("a" + chr(0) + chr(27) + "b") == "a" + 2 * chr(0xFFFD) + "b"
    True
    """
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
