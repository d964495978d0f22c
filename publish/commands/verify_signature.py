"""Verify who signed a cache or a wheel, and that no byte of it is another one. No network is used.

A wheel must also hold nothing but its cache. What the signer says of the cache is printed: how it was built, and when
it was written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.output import print_result
from precast.loader.errors import ConfigError

EXAMPLES = (
    "precast verify-signature cache --key key.pub --pin pins.txt",
    "precast verify-signature cache --trust policy.json",
)


def command(
    cache: Annotated[Path, typer.Argument(help="The folder of the cache, or its wheel.", metavar="CACHE|WHEEL")],
    key: Annotated[
        list[Path] | None, typer.Option(help="The public key of a signer, in PEM; may be repeated.", metavar="PUB")
    ] = None,
    identity: Annotated[
        str, typer.Option(help="The identity of a signer without a key, such as a workflow's URL.", metavar="ID")
    ] = "",
    issuer: Annotated[str, typer.Option(help="The issuer that knows the identity.", metavar="URL")] = "",
    trust: Annotated[
        Path | None, typer.Option(help="In place of these, the file of a policy.", metavar="POLICY")
    ] = None,
    pin: Annotated[
        Path | None,
        typer.Option(help="Add the pin of the cache to this file, which PRECAST_PIN can name.", metavar="FILE"),
    ] = None,
    as_json: options.Json = False,
) -> None:
    from precast.fetch.trust.policy import TrustPolicy
    from precast.publish.signing.signed import add_pin, verify_signature

    if bool(identity) != bool(issuer) or bool(trust) == bool(key or identity):
        raise ConfigError("say whom you trust: with --key PUB, with --identity ID --issuer URL, or with --trust POLICY")
    identities = [(identity, issuer)] if identity else []
    policy = TrustPolicy.read(trust) if trust else TrustPolicy.of(keys=key or (), identities=identities)
    contents, accepted = verify_signature(cache, policy)
    name = f"{contents.index.name}={contents.cache.digest}"
    provenance = accepted.statement.predicate if accepted.statement else {}
    if pin is not None:
        add_pin(pin, name)
    data = {"verified": str(cache), "by": accepted.by, "pin": name, "provenance": provenance}
    text = [f"{cache}: intact, trusted by {accepted.by}", f"PRECAST_PIN={name}"]
    text += [json.dumps(provenance, indent=1, sort_keys=True)] if provenance else []
    print_result(data, "\n".join(text), as_json)
