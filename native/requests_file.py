"""The requests to freeze: read from a file that ``PRECAST_REQUESTS`` named, or from a list in YAML."""

from __future__ import annotations

from pathlib import Path

from precast.build.errors import ManifestError
from precast.build.plan.problems import parse_problems
from precast.build.plan.request_files import read_request_files
from precast.build.plan.yaml import fields as yaml_fields
from precast.build.plan.yaml.reader import Node, read_yaml
from precast.loader.contract.format.patterns import NAME, OP_NAME
from precast.loader.errors import ConfigError
from precast.loader.resolve.candidate import Request


def read_requests(path: Path) -> tuple[tuple[Request, ...], tuple[str, ...]]:
    """The requests of a file, and notes about it.

    Parameters
    ----------
    path
        A file of the loader's requests, a line of JSON each; or a YAML list as ``parse_requests`` reads it.
    """
    try:
        is_log = path.read_bytes().lstrip()[:1] == b"{"
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): name a file of requests") from None
    if not is_log:
        return parse_requests(read_yaml(path.read_bytes(), str(path))), ()
    records, notes = read_request_files([path])
    return tuple(Request(op=r.op, config=r.config, problem=r.problem or None) for r in records), notes


def parse_requests(node: Node) -> tuple[Request, ...]:
    """The requests of a YAML list: each an op, a config and, for a choice by measurements, problems.

    Values of a config are written as the program writes them; they do not multiply. Problems are grids, as in a
    manifest, and each is one request.

    >>> text = b"[{op: scale, config: {dtype: bf16}}, {op: gemm, problems: [{m: [1, 16], n: 64}]}]"
    >>> [str(request) for request in parse_requests(read_yaml(text, "requests.yaml"))]
    ['scale {dtype: bf16}', "gemm {}, problem {'m': 1, 'n': 64}", "gemm {}, problem {'m': 16, 'n': 64}"]
    """
    requests: list[Request] = []
    for item in yaml_fields.items(node):
        data = yaml_fields.mapping(item, ("op", "config", "problems"))
        op = yaml_fields.matching(yaml_fields.required(data, "op", item), OP_NAME, "a name of an op")
        config = yaml_fields.mapping(data["config"]) if "config" in data else {}
        for name, value in config.items():
            if not NAME.admits(name):
                raise ManifestError(f"{name[:80]!r} is not a config key: correct it", value.named_at)
        plain = {name: value.plain() for name, value in config.items()}
        problems = parse_problems(data["problems"]) if "problems" in data else (None,)
        requests += [Request(op=op, config=plain, problem=dict(p) if p else None) for p in problems]
    if not requests:
        raise ManifestError("no request is listed: add one such as {op: scale, config: {dtype: bfloat16}}", node.at)
    return tuple(requests)
