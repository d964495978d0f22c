"""References: what is one, what is not, and that nothing else is ever taken for one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precast.fetch.distribution.reference import (
    FolderReference,
    HubReference,
    ImageReference,
    is_loopback,
    read_reference,
)
from precast.loader.errors import ConfigError

part = st.from_regex(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+){0,2}", fullmatch=True)
label = st.from_regex(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,8}[A-Za-z0-9])?", fullmatch=True)
hosts = st.builds(
    lambda labels, port: ".".join(labels) + port,
    st.lists(label, min_size=1, max_size=3),
    st.one_of(st.just(""), st.integers(1, 65535).map(lambda n: f":{n}")),
)
tags = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,20}", fullmatch=True)
digests = st.from_regex(r"sha256:[0-9a-f]{64}", fullmatch=True)
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
images = st.builds(
    lambda host, parts, version, plain: ImageReference(
        host=host, name="/".join(parts), tag=version[0], digest=version[1], plain=plain
    ),
    hosts,
    st.lists(part, min_size=1, max_size=3),
    st.tuples(st.one_of(st.just(""), tags), st.one_of(st.just(""), digests)).filter(any),
    st.booleans(),
)
hubs = st.builds(
    lambda kind, owner, name, revision, folder: HubReference(
        kind=kind, name=f"{owner}/{name}", revision=revision, folder=folder
    ),
    st.sampled_from(["models", "datasets"]),
    names.filter(lambda name: name != "datasets"),
    names,
    st.one_of(names, st.builds(lambda n: f"refs/pr/{n}", st.integers(1, 99))).filter(lambda text: ".." not in text),
    st.lists(st.from_regex(r"[a-z0-9_][a-z0-9._-]{0,10}", fullmatch=True), max_size=3).map("/".join),
)


@settings(max_examples=50)
@given(st.one_of(images, hubs))
def test_a_reference_is_read_as_it_is_printed(reference: ImageReference | HubReference) -> None:
    assert read_reference(str(reference)) == reference


@given(st.text(max_size=80))
def test_any_text_is_a_reference_or_a_clear_error(text: str) -> None:
    for before in ("", "oci://", "hf://", "https://", "file://", "oci://a.example/", "hf://a/", "oci://a/b:"):
        try:
            found = read_reference(before + text)
        except ConfigError as error:
            assert len(str(error)) < 600 and str(error).isprintable()
        else:
            assert read_reference(str(found)) == found


@settings(max_examples=50)
@given(images)
def test_the_address_of_a_registry_has_its_host_alone(reference: ImageReference) -> None:
    address = reference.origin.partition("://")[2]
    assert re.fullmatch(r"[A-Za-z0-9.:\[\]-]+", address)
    assert address in (reference.host, "registry-1.docker.io")


WRONG = [
    ("cache", "is not a reference: write oci://"),
    ("docker://a/b:c", "is not a reference: write oci://"),
    ("oci://a.example/b", "has no version: add a :TAG or a @sha256:DIGEST"),
    ("oci://a.example/B:v1", "is not the name of a repository"),
    ("oci://a.example/../b:v1", "is not the name of a repository"),
    ("oci://a.example/b:v1/../../x", "is not a tag"),
    ("oci://a.example/b:v1?x=1", "is not a tag"),
    ("oci://a.example/b@sha256:abc", "is not a digest"),
    ("oci://a.example/b@sha512:" + "0" * 128, "is not a digest"),
    ("oci://user:secret@a.example/b:v1", "is not the host of a registry"),
    ("oci://a.example:port/b:v1", "is not the host of a registry"),
    ("oci:///b:v1", "is not the host of a registry"),
    ("hf://acme", "is not a repository of the hub"),
    ("hf://acme/kernels@../../x", "is not a folder|is not a revision"),
    ("hf://acme/kernels@main/../x", "is not a folder of a repository"),
    ("hf://acme/kernels@main/.git", "is not a folder of a repository"),
    ("hf://acme/..", "is not a repository of the hub"),
    ("https://user:secret@a.example/b", "must not hold a password"),
    ("https://a.example/b?token=secret", "is not the URL of a folder"),
    ("https://a.example/b#c", "is not the URL of a folder"),
    ("https:///b", "is not the URL of a folder"),
    ("https://a.example:99999/b", "is not a URL"),
    ("file://host/b", "is not a folder of this machine"),
    ("file://b", "is not a folder of this machine"),
    ("oci://a.example/b:v1\n", "is not a reference"),
    ("oci://a.example/" + "b" * 3000 + ":v1", "is not a reference"),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_what_is_no_reference_is_refused_with_what_to_write(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        read_reference(text)
    assert "secret" not in str(caught.value)


def test_a_digest_counts_more_than_a_tag() -> None:
    found = read_reference("oci://a.example/b:v1@sha256:" + "0" * 64)
    assert isinstance(found, ImageReference) and (found.tag, found.digest) == ("v1", "sha256:" + "0" * 64)


def test_folders() -> None:
    assert read_reference("https://a.example/kernels/") == FolderReference(url="https://a.example/kernels")
    assert read_reference("file:///srv/my%20kernels") == FolderReference(path="/srv/my kernels")
    assert read_reference("file://localhost/srv") == FolderReference(path="/srv")


@pytest.mark.parametrize("host", ["localhost.example.com", "127.0.0.1.example.com", "10.0.0.1", "0.0.0.0", ""])
def test_only_this_machine_is_this_machine(host: str) -> None:
    assert not is_loopback(host) and not is_loopback(f"{host}:5000")


def test_this_machine() -> None:
    assert all(map(is_loopback, ("localhost", "localhost:5000", "127.0.0.1:1", "127.9.9.9", "[::1]:5000")))
