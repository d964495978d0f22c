"""The functions that a program calls: get, explain, ops, variants, caches, freeze, stats, torch_op, jax_op."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from precast.loader import session
from precast.loader.errors import Frozen
from precast.loader.launch.kernel import Kernel
from precast.loader.locks import IMPORT_LOCK
from precast.loader.resolve.candidate import Candidate, Request, Verified, checked_verified
from precast.loader.resolve.discover import Caches

if TYPE_CHECKING:
    from precast.loader.counts import Stats
    from precast.loader.resolve.resolution import Resolution


def get(
    op: str,
    config: Mapping[str, object] | None = None,
    *,
    device: object = None,
    target: str | None = None,
    problem: Mapping[str, int] | None = None,
    verified: Verified = False,
) -> Kernel:
    """Find, check and load the variant of an op that serves a config on a device.

    Parameters
    ----------
    op
        The op's name; ``loader.ops()`` lists them.
    config
        The compile-time constants. Keys with a default may be left out. A tuned key that is given is pinned; those
        that are left out are chosen by the loader. dtypes may be ``torch.bfloat16`` or any usual name.
    device
        An int, ``"cuda:1"`` or a ``torch.device``; the current device if None.
    target
        Resolve for an architecture, such as ``"sm_90a"``, in place of a device. No GPU is needed up to the launch.
    problem
        The sizes of the call, to choose among tuned variants by measurements, if a cache has any.
    verified
        Take only a variant that passed ``precast verify --record`` on a GPU of this compute capability. With
        ``"emulated"``, one that was never on such a GPU may have passed ``precast verify --emulate --record``.

    Returns
    -------
    Kernel
        A callable: ``kernel(*tensors)`` launches on the caller's current stream.

    Examples
    --------
    >>> from precast import loader
    >>> kernel = loader.get("scale", {"dtype": "bf16"}, target="sm_90a")
    >>> print(kernel.signature)
    (x: bfloat16[n], y: bfloat16[n], factor: float32)

    See also: ``explain`` for the decision, ``preload`` for many at once.
    """
    key = None
    try:
        items = () if config is None else tuple(config.items())
        sizes = tuple(problem.items()) if problem else None
        key = (op, device, target, sizes, verified, items, tuple([type(value) for _, value in items]))
        return session.default.memo[key]
    except (KeyError, AttributeError):  # a new request, or not a config
        pass
    except TypeError:  # a list in the config, which has no hash
        key = None
    return session.default.get(_request(op, config, device, target, problem, verified, key))


def explain(
    op: str,
    config: Mapping[str, object] | None = None,
    *,
    device: object = None,
    target: str | None = None,
    problem: Mapping[str, int] | None = None,
    verified: Verified = False,
) -> Resolution:
    """Make the decision that ``get`` would make, and load nothing.

    Parameters
    ----------
    op, config, device, target, problem, verified
        As for ``get``.

    Returns
    -------
    Resolution
        ``.chosen``, ``.accepted`` and ``.rejected`` hold every candidate, of thousands the nearest; ``print`` it to
        read why.

    Examples
    --------
    >>> from precast import loader
    >>> print(loader.explain("scale", {"dtype": "float32"}, target="sm_90a").chosen.target)
    sm_90a

    See also: ``get``, ``variants``.
    """
    return session.default.explain(_request(op, config, device, target, problem, verified))


def _request(
    op: str,
    config: Mapping[str, object] | None,
    device: object,
    target: str | None,
    problem: Mapping[str, int] | None,
    verified: Verified,
    memo_key: tuple[Any, ...] | None = None,
) -> Request:
    return Request(
        op=op,
        config={} if config is None else config,
        device=device,
        target=target,
        problem=problem,
        verified=checked_verified(verified),
        memo_key=memo_key,
    )


def ops() -> tuple[str, ...]:
    """List the ops of every cache, sorted.

    Examples
    --------
    >>> from precast import loader
    >>> "scale" in loader.ops()
    True

    See also: ``variants`` for what an op is built for.
    """
    return session.default.ops()


class Variants(tuple[Candidate, ...]):
    """The artifacts of an op; a prompt shows each on a line of its own."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(map(repr, self)) or "no variants"


def variants(op: str) -> Variants:
    """List every artifact of an op, with the cache it is in, the preferred caches first.

    Parameters
    ----------
    op
        The op's name.

    Examples
    --------
    >>> from precast import loader
    >>> sorted({str(v.target) for v in loader.variants("scale")})
    ['sm_100a', 'sm_90a']

    See also: ``ops``, ``explain``.
    """
    sources, _ = session.default.sources(op)
    return Variants(Candidate(source, artifact) for source in sources for artifact in source.op.artifacts)


def caches(
    *, refresh: bool = False, pins: Mapping[str, str] | None = None, order: Iterable[str] | None = None
) -> Caches:
    """List the caches in the order in which they are searched, the broken ones with their error.

    Parameters
    ----------
    refresh
        Search ``PRECAST_CACHE_PATH`` and the installed wheels again. Kernels from earlier calls stay valid.
    pins
        The SHA-256 that each cache's ``index.json`` must have, by the name of the cache, from now on: other caches are
        refused. This searches again, and replaces ``PRECAST_PIN``.
    order
        Names of installed caches in the order in which they are searched, before the others, from now on. This searches
        again, and replaces ``PRECAST_CACHES``.

    Examples
    --------
    >>> from precast import loader
    >>> all(found.error is None for found in loader.caches())
    True

    See also: ``ops``.
    """
    return session.default.caches(refresh=refresh, pins=pins, order=order)


def stats() -> Stats:
    """Count what this process has loaded so far.

    Examples
    --------
    >>> from precast import loader
    >>> before = loader.stats().loads
    >>> kernel = loader.get("twice", target="sm_90a")
    >>> loader.stats().loads - before <= 1
    True

    See also: ``preload``, ``freeze``.
    """
    return session.default.stats


def freeze(frozen: bool = True) -> None:
    """Make any later load an error (``loader.Frozen``), so that nothing is loaded after start-up.

    It is an error, too, if two installed caches serve a request differently, and no order of them was given.

    Parameters
    ----------
    frozen
        False lifts it again.

    Examples
    --------
    >>> from precast import loader
    >>> done = loader.preload([("scale", {"dtype": "float32"})], target="sm_90a")
    >>> loader.freeze()
    >>> loader.get("scale", {"dtype": "float32"}, target="sm_90a").op  # loaded before
    'scale'
    >>> loader.freeze(False)

    See also: ``preload``, ``stats``.
    """
    if frozen and (disputes := session.default.disputes):
        raise Frozen(next(iter(disputes.values())))
    session.default.frozen = frozen


def torch_op(kernel: Kernel, name: str | None = None, *, outputs: Iterable[str] | None = None) -> Callable[..., Any]:
    """Register a kernel as a PyTorch operator, once.

    It works under ``torch.compile(fullgraph=True)``, in CUDA graphs and with ``torch.library.opcheck``. It has no
    gradient. Where none of that is needed call the kernel itself: an operator costs some microseconds more.

    Parameters
    ----------
    kernel
        A kernel that ``get`` returned.
    name
        ``"namespace::operator"``; one made of the op and the artifact's key if None, so that two versions of an op are
        two operators.
    outputs
        The arguments that the kernel writes, by name; what its author declared if None.

    Returns
    -------
    Callable
        The operator, a ``torch._ops.OpOverload``. It takes what the kernel takes and returns None.

    Examples
    --------
    >>> from precast import loader
    >>> kernel = loader.get("scale", {"dtype": "float32"}, target="sm_90a")
    >>> loader.torch_op(kernel, "example::scale", outputs=["y"])
    <OpOverload(op='example.scale', overload='default')>

    See also: ``get``.
    """
    return session.default.operators.register(kernel, name, outputs)


def jax_op(kernel: Kernel, *, outputs: Iterable[str] | None = None, vmap_method: str | None = None) -> Any:
    """Make a JAX function of a kernel, for ``jax.jit``, ``jax.export`` and CUDA graphs.

    It takes the kernel's inputs by position and its numbers by name, which are constants of a trace, and returns new
    arrays; what an output held before cannot be passed. Gradients are left to ``jax.custom_vjp``. Arrays that are
    sharded over several devices are gathered first, except inside ``jax.shard_map``.

    Parameters
    ----------
    kernel
        A kernel that ``get`` returned, with ``target`` on a machine without a GPU: then a trace can be exported.
    outputs
        The arguments that the kernel writes, by name; what its author declared if None.
    vmap_method
        What ``jax.vmap`` does, as for ``jax.ffi.ffi_call``: ``"sequential"`` launches the kernel once for each element,
        None is an error.

    Returns
    -------
    Callable
        The function. It returns one array, or a list of several. Its ``target`` is the name that ``jax.export`` has to
        allow.

    Raises
    ------
    ConfigError
        XLA cannot call the kernel: it takes something else than row-major arrays and numbers, or mixes their order.
    LoadError
        jax-tvm-ffi is not installed.

    Examples
    --------
    >>> from precast import loader
    >>> kernel = loader.get("scale", {"dtype": "float32"}, target="sm_90a")
    >>> scale = loader.jax_op(kernel, outputs=["y"])  # doctest: +SKIP
    >>> jax.jit(lambda x: scale(x, factor=2.0) + 1)  # doctest: +SKIP

    See also: ``get``, ``torch_op``.
    """
    with IMPORT_LOCK:
        from precast.loader.launch.jax_op import register
    return register(kernel, outputs, vmap_method)
