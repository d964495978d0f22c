"""The commands: what they print, and which requests are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from precast.cli import main as cli
from precast.loader.resolve.cache import Cache
from tests.helpers.packed_caches import Built
from tests.helpers.signatures.signed import Pair, key_pair, policy_file


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return key_pair(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    try:
        cli.run([str(word) for word in words])
        status = 0
    except SystemExit as ended:
        status = int(ended.code or 0)
    printed = capsys.readouterr()
    return status, printed.out, " ".join(printed.err.split())


def test_sign_then_verify_then_pin(tmp_path: Path, pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    path = Built().write(tmp_path / "cache")
    digest = Cache(path).digest
    assert run(capsys, "sign", path, "--key", pair.private) == (0, f"{path}: signed, with the index {digest}\n", "")
    pins = tmp_path / "pins.txt"
    status, out, _ = run(capsys, "verify-signature", path, "--key", pair.public, "--pin", pins)
    first, second, provenance = out.split("\n", 2)
    assert (status, first) == (0, f"{path}: intact, trusted by the key {pair.public}")
    assert second == f"PRECAST_PIN=demo={digest}" and pins.read_text() == f"demo={digest}\n"
    assert json.loads(provenance)["buildDefinition"]["externalParameters"]["name"] == "demo"
    policy = policy_file(tmp_path / "policy.json", keys=["key.pub"])
    status, out, _ = run(capsys, "verify-signature", path, "--trust", policy, "--json")
    assert status == 0 and json.loads(out)["pin"] == f"demo={digest}"


def test_what_is_not_trusted_is_a_failure(tmp_path: Path, pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    path, pins = Built().write(tmp_path / "cache"), tmp_path / "pins.txt"
    status, _, err = run(capsys, "verify-signature", path, "--key", pair.public, "--pin", pins)
    assert status == 1 and "it is not signed" in err and err.endswith("(PCL18)") and not pins.exists()


@pytest.mark.parametrize(
    "words",
    [
        ["sign", "cache"],
        ["sign", "cache", "--key", "key.pem", "--keyless"],
        ["verify-signature", "cache"],
        ["verify-signature", "cache", "--identity", "ci@acme.example"],
        ["verify-signature", "cache", "--key", "key.pub", "--trust", "policy.json"],
    ],
)
def test_a_request_that_names_no_signer_or_two(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, *words)
    assert status == 2 and "with --key" in err


def test_a_bill_of_materials(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cyclonedx", reason="cyclonedx-python-lib is not installed: the extra 'sign'")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1796000000")
    path = Built().write(tmp_path / "cache")
    status, out, _ = run(capsys, "sbom", path)
    bill = json.loads(out)
    assert status == 0 and (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    (hashed,) = bill["metadata"]["component"]["hashes"]
    assert hashed == {"alg": "SHA-256", "content": Cache(path).digest}
    purls = {part["purl"]: part.get("scope") for part in bill["components"]}
    assert purls["pkg:pypi/nvidia-cutlass-dsl@4.8.1"] is None and purls["pkg:generic/gcc@12.2.0"] == "excluded"
    assert run(capsys, "sbom", path, "-o", tmp_path / "bill.json")[0] == 0
    assert (tmp_path / "bill.json").read_text() == out, "the same cache has the same bill"
