"""The builder: every stage of a build, from a plan to a cache on disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from precast.build.build_run import BuildRun, Options, Show
from precast.build.cache.blob_reuse import BlobReuse
from precast.build.cache.cache_folder import check_output, write_cache
from precast.build.cache.pack import pack
from precast.build.cache.up_to_date import inputs_digest, is_up_to_date, mark_up_to_date
from precast.build.inputs.closure import Closures
from precast.build.ipc.capacity import default_jobs
from precast.build.link.toolchain import find_toolchain
from precast.build.plan.plan import Plan
from precast.build.report import Report
from precast.build.store.key import variant_key
from precast.build.store.lookup import Lookup
from precast.build.store.store import Store
from precast.build.store.usage_log import note_build


def build(plan: Plan, cache: Path, *, store: Store, options: Options | None = None, show: Show | None = None) -> Report:
    """Compile what the store lacks, and write the cache of everything that compiled.

    The output folder is checked first. A variant that fails is reported and left out, unless ``fail_fast`` is set: then
    the first failure ends the build and the old cache stays. Nothing is written where nothing compiled.
    """
    check_output(cache)
    options = options or Options()
    show = show or (lambda step: None)
    toolchain = find_toolchain()
    closures = Closures.here(plan.search, store.notes)
    sources = closures.sources
    lookup = Lookup(store, closures.answers)
    keys = {v.identity_on_gpu: variant_key(v, toolchain, sources.digest(v.source)) for v in plan.variants}
    requests = [(keys[v.identity_on_gpu], plan.profiles.of(v.target, v.profile)) for v in plan.variants]
    records = {v.identity_on_gpu: lookup.record_key(*r) for v, r in zip(plan.variants, requests, strict=True)}
    inputs = inputs_digest(plan, records, toolchain, sources, options.dictionary, options.keep_ptx)
    if None not in records.values() and is_up_to_date(store.notes, inputs, cache):
        for record in filter(None, records.values()):
            store.mark_used(record)
        lookup.share(requests)
        note_build(store, plan.variants, ())
        store.finish()
        files = [p.stat().st_size for p in cache.rglob("*") if p.is_file()]
        return Report(built=(), reused=plan.variants, failed=(), files=len(files), size=sum(files))
    lookup.prefetch(requests)
    run = BuildRun(plan, keys, lookup, closures, toolchain, options, show)
    report = run.go()
    failures = [(failed.variant, 0.0) for failed in report.failed]
    note_build(store, report.reused, [*((built.variant, built.seconds) for built in report.facts), *failures])
    if report.failed and (options.fail_fast or not run.records):
        store.finish()
        return report
    whole = _without(plan, {f.variant.identity_on_gpu for f in report.failed})
    assert run.runtime is not None
    packed = pack(
        whole, run.records, run.runtime, toolchain.versions,
        threads=default_jobs(), reuse=BlobReuse(cache, store.notes), dictionary=options.dictionary,
        keep_ptx=options.keep_ptx,
    )  # fmt: skip
    write_cache(cache, packed.files)
    lookup.share(requests)
    store.finish()
    if report.complete:
        records = {identity: record.key for identity, record in run.records.items()}
        inputs = inputs_digest(plan, records, toolchain, sources, options.dictionary, options.keep_ptx)
        mark_up_to_date(store.notes, inputs, packed.files)
    sizes = [len(data) for data in packed.files.values()]
    return replace(report, files=len(sizes), size=sum(sizes), tuning=packed.tuning if whole.tuning.groups else None)


def _without(plan: Plan, lost: set[str]) -> Plan:
    return replace(plan, variants=tuple(v for v in plan.variants if v.identity_on_gpu not in lost)) if lost else plan
