"""Model the times of candidates, for a GPU that nobody has measured on.

Nothing is launched: the times follow from the kernels' tiles and costs, and from the GPU's data sheet. They replace
earlier modelled times of this GPU in the tuning file. Exit status 1 means that nothing could be modelled.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.output import count, print_result
from precast.measure.commands.shared import selection
from precast.measure.commands.shared.contests import CacheOption, OutputFile, Selection
from precast.measure.commands.shared.values import problem_sizes

if TYPE_CHECKING:
    from precast.build.measurements.tuning_file import Group
    from precast.loader.resolve.cache import Cache
    from precast.measure.tuning.contest import Contest
    from precast.measure.tuning.model import Model

EXAMPLES = ("precast tune model manifest.yaml --cache cache --gpu B200 -o b200.json",)


def command(
    manifests: selection.Manifests,
    cache: CacheOption,
    gpu: Annotated[str, typer.Option("--gpu", help="The GPU to model, such as B200.", metavar="GPU")],
    output: OutputFile = None,
    op: selection.Op = None,
    where: selection.Where = None,
    problem: selection.Problems = None,
    as_json: options.Json = False,
) -> None:
    from precast.build.disk.scratch import write_output
    from precast.build.measurements.tuning_file import TuningFile
    from precast.measure.tuning.model import Model
    from precast.measure.tuning.tuner import read_file

    selection = Selection.read(manifests, cache, op, where)
    path = selection.tuning_file("--output", output)
    model = Model.of(gpu)
    capability = model.gpu.capability
    contests = selection.contests(
        lambda artifact: "" if artifact.target.runs_on(capability) else f"built for {artifact.target}"
    )
    if problem:  # else the manifests': the problems that a kernel declares are not the sizes of a service
        contests = selection.with_problems(contests, [problem_sizes(text) for text in problem])
    groups, left_out = [], []
    for contest in contests:
        group = _group(selection.cache, contest, model)
        if isinstance(group, str):
            left_out.append(f"{contest}: {group}")
        else:
            groups.append(group)
    file = read_file(path)
    modelled = TuningFile(gpus=(model.gpu,), groups=tuple(groups))
    if groups:
        kept = tuple(group for group in file.groups if group.gpu != model.gpu.name)
        gpus = tuple(other for other in file.gpus if other.name != model.gpu.name)
        file = replace(modelled, gpus=(*gpus, model.gpu), groups=(*kept, *groups))
        write_output(path, file.encode())
    lines = [f"left out: {text}" for text in left_out]
    lines.append(
        f"{count(modelled.count, 'time')} modelled for {model.gpu.name}, not measured; "
        f"{path} has {count(file.count, 'time')}"
    )
    data = {"file": str(path), "gpu": model.gpu.to_json(), "modelled": modelled.count, "left_out": left_out}
    print_result(data, "\n".join(lines), as_json)
    if not groups:
        raise typer.Exit(1)


def _group(cache: Cache, contest: Contest, model: Model) -> Group | str:
    """The modelled times of a contest, or why there are none."""
    from precast.measure.launching.cases import declaration_for

    if not contest.problems:
        return "no problems"
    artifact = next(a for a in cache.op(contest.op).artifacts if a.key == contest.contestants[0].key)
    group = model.group(contest, contest.problems, declaration_for(contest.op, artifact))
    return group or "its kernel declares no tile or no cost"
