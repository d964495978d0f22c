"""Sign a cache or a wheel: what was built, from what, by which tools.

Every byte of the cache is checked first. The signature is a bundle of Sigstore over the digest of index.json, from
which all other digests follow. It is a file beside the index, also in a wheel. Commands that change the cache drop it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.output import print_result
from precast.loader.errors import ConfigError

EXAMPLES = (
    "precast sign cache --key key.pem",
    "precast sign dist/precast_cache_demo-1.0-py3-none-any.whl --keyless",
)


def command(
    cache: Annotated[Path, typer.Argument(help="The folder of the cache, or its wheel.", metavar="CACHE|WHEEL")],
    key: Annotated[
        Path | None, typer.Option(help="A private key of ECDSA on P-256, in PEM, without a password.", metavar="PEM")
    ] = None,
    keyless: Annotated[
        bool,
        typer.Option(
            "--keyless",
            help="Sign as the identity of this CI job, or of the person at the terminal, which Sigstore's public log"
            " then shows.",
        ),
    ] = False,
    as_json: options.Json = False,
) -> None:
    from precast.publish.signing import sign

    if (key is None) != keyless:
        raise ConfigError("sign either with --key PEM or with --keyless: give one of them")
    digest = sign.sign(cache, sign.keyless() if key is None else sign.with_key(key))
    print_result({"signed": str(cache), "digest": digest}, f"{cache}: signed, with the index {digest}", as_json)
