"""The image and the pod of docs/engines.md, compared with the code: no builder of images is here."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any, get_args

import yaml

from precast.attach.attachment import Mode
from precast.attach.library import SHIPPED
from tests.helpers.pages import blocks
from tests.helpers.source_tree import ROOT

PAGE = "docs/engines.md#Other compilers' files"
VARIABLES = set(re.findall(r"`(PRECAST_[A-Z_]+)`", (ROOT / "docs" / "environment.md").read_text()))


def pod() -> dict[str, Any]:
    (text,) = blocks(PAGE, "yaml")
    return dict(yaml.safe_load(text)["spec"])


def test_the_image_attaches_libraries_that_there_are() -> None:
    (image,) = blocks(PAGE, "dockerfile")
    (words,) = re.findall(r"^ENV (.*)$", image, re.MULTILINE)
    variables = dict(word.split("=", 1) for word in words.split())
    assert variables.keys() <= VARIABLES
    assert set(variables["PRECAST_ATTACH"].split(",")) <= set(SHIPPED)
    assert variables["PRECAST_ATTACH_MODE"] in get_args(Mode)


def test_what_the_pod_writes_lies_in_its_volume() -> None:
    spec = pod()
    (server,) = spec["containers"]
    mounts = {PurePosixPath(mount["mountPath"]) for mount in server["volumeMounts"]}
    assert {mount["name"] for mount in server["volumeMounts"]} == {volume["name"] for volume in spec["volumes"]}
    assert server["securityContext"]["readOnlyRootFilesystem"] and spec["securityContext"]["runAsNonRoot"]
    values = {variable["name"]: PurePosixPath(variable["value"]) for variable in server["env"]}
    assert {name for name in values if name.startswith("PRECAST_")} <= VARIABLES
    assert all(value in mounts or mounts & set(value.parents) for value in values.values())
    assert values["PRECAST_COMPANIONS"] not in mounts, "the volume's own folder belongs to root"
