"""Plans of manifests with toolchains: one plan, and so one cache, for each toolchain."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from precast.build.disk.memo import Memo
from precast.build.errors import ManifestError, OutputError
from precast.build.gpu.profile import Profiles
from precast.build.interpreter import HERE, Interpreter
from precast.build.plan.manifest import Manifest
from precast.build.plan.plan import Plan, check_targets
from precast.build.plan.planner import plan_of, read_manifests
from precast.build.plan.toolchain_spec import ToolchainSpec
from precast.build.toolchains.environments import Environment, Environments
from precast.build.toolchains.lock import Lock
from precast.build.toolchains.own_code import link_own_code
from precast.build.toolchains.resolver import Resolver, read_lock
from precast.build.toolchains.uv import Sources
from precast.loader.contract.format.target import Target
from precast.loader.errors import FormatError

_NOTHING: Mapping[str, str] = MappingProxyType({})


def default_toolchains() -> Path:
    """The folder of toolchains: ``PRECAST_TOOLCHAINS``, or a folder in the user's cache."""
    named = os.environ.get("PRECAST_TOOLCHAINS")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "precast" / "toolchains"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchains:
    """The folder of the toolchains' environments, and the sources of their wheels. ``say`` reports slow steps."""

    root: Path = field(default_factory=default_toolchains)
    sources: Sources = field(default_factory=Sources)
    say: Callable[[str], None] = lambda text: None

    def interpreter(self, spec: ToolchainSpec | None) -> Interpreter:
        """The Python of a toolchain, in an environment that is created if necessary; this Python without ``spec``."""
        if spec is None:
            return HERE
        resolver = Resolver(root=self.root, sources=self.sources)
        python = resolver.python(spec)
        return Environments(self.root).interpreter(
            resolver.lock(spec, python),
            python,
            self.sources,
            link_own_code(self.root / "precast"),
            lambda: self.say(f"creating the toolchain {spec}: this may download a gigabyte"),
        )

    def locked(self, spec: ToolchainSpec) -> Lock:
        """The lock of a toolchain: the one that it names, or a new one with the newest versions."""
        resolver = Resolver(root=self.root, sources=self.sources)
        return read_lock(spec.lock) if spec.lock is not None else resolver.resolve(spec, resolver.python(spec))

    def environments(self) -> list[Environment]:
        """The existing environments, the one used last first."""
        return Environments(self.root).environments()

    def remove(self, environment: Environment) -> bool:
        """Remove an environment and its lock, unless a build uses it, and return whether it was removed."""
        removed = Environments(self.root).remove(environment)
        if removed:
            Resolver(root=self.root, sources=self.sources).forget(environment.digest, environment.python)
        return removed


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The manifests of one toolchain, which become one plan and one cache. Empty ``targets`` select all."""

    manifests: tuple[Manifest, ...]
    targets: tuple[Target, ...] = ()
    name: str

    @property
    def spec(self) -> ToolchainSpec | None:
        """Their toolchain."""
        return self.manifests[0].toolchain

    def plan(
        self,
        toolchains: Toolchains,
        *,
        profiles: Profiles | None = None,
        notes: Memo | None = None,
    ) -> Plan:
        """Their plan, for the Python of their toolchain."""
        return plan_of(
            self.manifests,
            targets=self.targets,
            name=self.name,
            profiles=profiles,
            notes=notes,
            interpreter=toolchains.interpreter(self.spec),
        )


def groups_of_files(
    paths: Sequence[Path],
    *,
    targets: Sequence[str] = (),
    name: str = "",
    passed: Mapping[str, str] = _NOTHING,
    emit: Sequence[str] = (),
    retarget: Sequence[str] = (),
) -> tuple[Group, ...]:
    """Read manifests, and group them by toolchain, in their order. Groups without any of the targets are left out.

    The other arguments are those of ``read_manifests``.
    """
    manifests = read_manifests(paths, name=name, passed=passed, emit=emit, retarget=retarget)
    selected = [Target.parse(target) for target in targets]
    check_targets(manifests, selected)
    by_spec: dict[ToolchainSpec | None, list[Manifest]] = {}
    for manifest in manifests:
        by_spec.setdefault(manifest.toolchain, []).append(manifest)
    if len(by_spec) > 1:
        _check_names(list(by_spec.values()), name)
    groups = []
    for several in by_spec.values():
        built = {target for m in several for entry in m.entries for target in entry.targets}
        mine = tuple(target for target in selected if target in built)
        if mine or not selected:
            groups.append(Group(manifests=tuple(several), targets=mine, name=name or several[0].name))
    return tuple(groups)


def plans_of_files(
    paths: Sequence[Path],
    *,
    toolchains: Toolchains | None = None,
    targets: Sequence[str] = (),
    name: str = "",
    profiles: Profiles | None = None,
    passed: Mapping[str, str] = _NOTHING,
    emit: Sequence[str] = (),
    retarget: Sequence[str] = (),
) -> tuple[Plan, ...]:
    """The plan of each toolchain's manifests, in their order. The other arguments apply to each of them.

    See also: ``precast.build.plan.planner.plan_of``.
    """
    groups = groups_of_files(paths, targets=targets, name=name, passed=passed, emit=emit, retarget=retarget)
    return tuple(group.plan(toolchains or Toolchains(), profiles=profiles) for group in groups)


def cache_folders(groups: Sequence[Group | Plan], folder: Path) -> tuple[Path, ...]:
    """The folder of each cache: the given folder, or, for several, a folder in it with the cache's name."""
    if len(groups) == 1:
        return (folder,)
    if (folder / "index.json").exists():
        raise OutputError(f"{folder} is a cache, and these manifests make {len(groups)} caches: name another folder")
    return tuple(folder / group.name for group in groups)


def _check_names(groups: Sequence[Sequence[Manifest]], name: str) -> None:
    if name:
        raise FormatError("--name is for one cache, and these manifests have several toolchains: remove it")
    seen: dict[str, Manifest] = {}
    for manifest, *_ in groups:
        first = seen.setdefault(manifest.name, manifest)
        spec = manifest.toolchain or first.toolchain
        if first is not manifest and spec is not None:
            raise ManifestError(
                f"each toolchain has its own cache, and {first.path} and {manifest.path} have the same name "
                f"{first.name!r}: change one 'name'",
                spec.location,
            )
