"""What kernels over rows have in common: which rows they take, and the problems to verify them with.

``key`` is the config key with the length of a row: ``hidden`` of norms, ``width`` elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from precast.kernels import configs
from precast.kernels.authoring.declare import Problem
from precast.kernels.authoring.dtypes import bits
from precast.kernels.own.rows import Split
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

THREADS = (32, 64, 128, 256, 512, 1024)
CLUSTERS = (1, 2, 4, 8)
STAGE = 96 << 10  # bytes of shared memory that a block has on every target
STEPS = 32  # vectors of a lane in shared memory: it holds a quarter of them at a time


def split_of(config: Config, key: str) -> Split:
    """How the threads of a block share rows, or their share of one where a cluster of blocks has it.

    >>> config = {"dtype": "bfloat16", "width": 128256, "threads": 512}
    >>> split_of(config, "width").fits_registers, split_of({**config, "cluster": 4}, "width").fits_registers
    (False, True)
    """
    share = configs.integer(config, key) // (configs.integer(config, "cluster") if "cluster" in config else 1)
    return Split.of(share, bits(str(config["dtype"])), configs.integer(config, "threads"))


def refusal(config: Config, key: str, *, multiple: int | None = None, threads: Sequence[int] = THREADS) -> str | None:
    """Why rows cannot be taken, or None. Their length is a multiple of what 16 bytes hold, or of another number.

    >>> refusal({"dtype": "bfloat16", "width": 1001, "threads": 128}, "width")
    'width is 1001: use a multiple of 8'
    """
    if reason := configs.not_among(config, "threads", threads) or configs.unsupported_dtype(config):
        return reason
    multiple = multiple or 128 // bits(str(config["dtype"]))
    length = configs.integer(config, key)
    return None if length > 0 and length % multiple == 0 else f"{key} is {length}: use a multiple of {multiple}"


def spill_refusal(config: Config, key: str) -> str | None:
    """Why a row cannot stay in the registers of a block, or None.

    >>> spill_refusal({"dtype": "bfloat16", "hidden": 16384, "threads": 128}, "hidden")
    'hidden is 16384, and threads 128: a row stays in registers; use more threads'
    """
    if split_of(config, key).fits_registers:
        return None
    return f"{key} is {config[key]}, and threads {config['threads']}: a row stays in registers; use more threads"


def cluster_refusal(config: Config, key: str, target: Target) -> str | None:
    """Why a cluster of blocks cannot share rows, or None.

    >>> config = {"dtype": "bfloat16", "width": 128256, "threads": 512, "cluster": 4}
    >>> cluster_refusal(config, "width", Target.parse("sm_80"))
    'cluster is 4: clusters need sm_90; use 1'
    """
    if reason := configs.not_among(config, "cluster", CLUSTERS):
        return reason
    cluster, length = configs.integer(config, "cluster"), configs.integer(config, key)
    if cluster == 1:
        return None
    if target.major < 9:
        return f"cluster is {cluster}: clusters need sm_90; use 1"
    if length % (cluster * 128 // bits(str(config["dtype"]))):
        return f"{key} is {length}, and cluster {cluster}: blocks share a row in equal parts of whole vectors"
    if split_of(config, key).rows > 1:
        return f"{key} is {length}, and cluster {cluster}: rows are too short to be shared; use fewer blocks or threads"
    return None


def stage_refusal(config: Config, key: str) -> str | None:
    """Why rows, or the parts of them that blocks have, cannot be staged in shared memory, or None.

    >>> stage_refusal({"dtype": "bfloat16", "width": 128256, "threads": 512, "cluster": 2, "staged": True}, "width")
    'staged is true, and 128256 bytes for each block: use a larger cluster, for at most 98304'
    """
    if not config["staged"]:
        return None
    size = configs.integer(config, key) // configs.integer(config, "cluster") * bits(str(config["dtype"])) // 8
    split = split_of(config, key)
    if split.rows > 1:
        return "staged is true, and a block has several rows: use fewer threads, or false"
    if split.steps > STEPS:
        return f"staged is true, and {split.steps} vectors for each thread: use more threads, for at most {STEPS}"
    if size > STAGE:
        return f"staged is true, and {size} bytes for each block: use a larger cluster, for at most {STAGE}"
    return None


def problems(config: Config, key: str, *, pad: int | None = None) -> Sequence[Problem]:
    """No row, one row, about as many as a block takes, padded rows, and a large matrix last.

    ``pad`` must divide the distance between rows: the elements of 16 bytes, or another number.

    >>> problems({"dtype": "bfloat16", "width": 128, "threads": 32}, "width")[:3]
    [{'rows': 0, 'padding': 0}, {'rows': 1, 'padding': 8}, {'rows': 4, 'padding': 0}]
    """
    split = split_of(config, key)
    rows, length, pad = split.rows, configs.integer(config, key), pad or split.vector
    cases = [(0, 0), (1, pad), (rows, 0), (rows + 1, pad), (5 * rows + 3, 3 * pad), (133, 0)]
    cases.append((max(64, (1 << 26) // length), 0))
    return [{"rows": rows, "padding": padding} for rows, padding in dict.fromkeys(cases)]


def large(config: Config, key: str) -> Problem:
    """More elements than 32 bits count, and a few rows.

    >>> large({"width": 4096}, "width")["rows"] - 2**31 // 4096
    3
    """
    return {"rows": (1 << 31) // configs.integer(config, key) + 3, "padding": 0}


def additions(split: Split) -> int:
    """How many additions are on the longest way through a sum: those of a lane, the shuffles of its warp, and one for
    each warp.

    >>> additions(Split.of(4096, 16, 128))
    42
    """
    return split.steps * split.vector + min(split.lanes, 32).bit_length() + split.warps
