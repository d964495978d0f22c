"""The kernels that SGLang compiles for a model after it is loaded: ``python -m ... FOLDER [--tensor-parallel N]``.

SGLang has no registry of kernels. Classes of models may have a method ``precompile_kernels_after_loading``. SGLang
calls it on the loaded model; here it is called on an object of the class without layers, and what it compiles by the
DSL is recorded. A method that needs the layers is reported as not enumerated. Kernels that a model compiles at their
first call are not among these: record a program that makes the calls.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from precast.attach.builder.child.engines.model_kernels import finish, options, say, step
from precast.loader.errors import ConfigError

_HOOK = "precompile_kernels_after_loading"


def main() -> None:
    """Call the hook of the model's class."""
    parsed = options()
    data = json.loads((parsed.model / "config.json").read_text())
    names = data.get("architectures") or []
    with step("SGLang's configuration"):
        publish(parsed.model, parsed.tensor_parallel, dict(parsed.option))
        importlib.import_module("sglang.srt.layers.quantization.unquant").initialize_bf16_gemm_config()
    with step(f"the model's class ({', '.join(names)})"):
        owner, name = importlib.import_module("sglang.srt.models.registry").ModelRegistry.resolve_model_cls(names)
        hook = getattr(owner, _HOOK, None)
        if hook is None:
            say(f"{name} has no {_HOOK}: SGLang compiles its kernels at their first calls; record a program of these")
            return
        with step(f"what {name}.{_HOOK} compiles"):
            hook(without_layers(owner, data))
    finish()


def publish(model: Path, tensor_parallel: int, more: Mapping[str, Any]) -> None:
    """Make SGLang's configuration known to it, as a scheduler does."""
    arguments = importlib.import_module("sglang.srt.server_args").ServerArgs
    for name in more:
        if name not in inspect.signature(arguments).parameters:
            raise ConfigError(f"SGLang has no option {name!r}: use the names of its ServerArgs")
    fields = {"model_path": str(model), "load_format": "dummy", "skip_tokenizer_init": True, "tp_size": tensor_parallel}
    context = importlib.import_module("sglang.srt.runtime_context")
    context.publish(arguments(**{**fields, **more}), role="scheduler")


def without_layers(owner: type, config: Mapping[str, Any]) -> Any:
    """An object of a model's class that has its configuration and nothing else."""
    import torch

    transformers = importlib.import_module("transformers")
    model: Any = object.__new__(owner)
    torch.nn.Module.__init__(model)
    model.config = transformers.PretrainedConfig.from_dict(dict(config))
    return model


if __name__ == "__main__":
    main()
