"""Logins, tokens and redirects: what a server is given, and what another server is not."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from precast.fetch.distribution.reference import read_reference
from precast.fetch.fetcher import fetch
from precast.fetch.source import open_source
from precast.fetch.transport.credentials import hub_token, registry_login
from precast.fetch.transport.web import Web
from precast.loader.errors import ConfigError, FetchError
from precast.loader.resolve.cache import Cache
from precast.publish.push.push import push_cache
from tests.helpers.packed_caches import tree
from tests.helpers.web.hub import Hub
from tests.helpers.web.many import QUICK
from tests.helpers.web.registry import in_front_of, needs_registry, with_tokens
from tests.helpers.web.server import Request, Response, files_of, serving

BASIC = "Basic " + base64.b64encode(b"ci:secret").decode()


def log_in(folder: Path, monkeypatch: pytest.MonkeyPatch, config: Any) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))


def auths(host: str, user: str = "ci", password: str = "secret") -> dict[str, Any]:
    return {"auths": {host: {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}}}


@needs_registry
def test_a_registry_with_tokens(upstream: str, old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pushing and fetching: the login goes to the server of tokens, the token to the registry."""

    def tokens(request: Request) -> Response:
        if request.headers.get("authorization") != BASIC:
            return Response(401, body=b'{"errors":[{"code":"DENIED","message":"who are you"}]}')
        assert "scope=repository%3Akernels%2Fa%3Apull%2Cpush" in request.path
        return Response(200, body=b'{"token": "a-token", "expires_in": 60}')

    with serving(tokens) as realm, serving(with_tokens(in_front_of(upstream), f"{realm.url}/token")) as registry:
        reference = f"oci://{registry.host}/kernels/a:v1"
        with pytest.raises(FetchError, match=r"401 DENIED: who are you\): log in with 'docker login"):
            push_cache(old, reference, patience=QUICK)
        log_in(tmp_path / "docker", monkeypatch, auths(registry.host))
        push_cache(old, reference, patience=QUICK)
        realm.requests.clear()
        fetch(reference, tmp_path / "cache", patience=QUICK)
        assert tree(tmp_path / "cache") == tree(old)
        assert len(realm.requests) == 1, "one token for all requests"
        log_in(tmp_path / "docker", monkeypatch, auths(registry.host, password="wrong"))
        with pytest.raises(FetchError, match="log in with 'docker login"):
            fetch(reference, tmp_path / "other", patience=QUICK)
    assert not any("secret" in str(r.headers) or BASIC in str(r.headers) for r in registry.requests)


@needs_registry
def test_a_registry_with_a_password(upstream: str, old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    push_cache(old, f"oci://{upstream}/kernels/basic:v1", patience=QUICK)

    def basic(request: Request) -> Response:
        if request.headers.get("authorization") != BASIC:
            return Response(401, {"WWW-Authenticate": 'Basic realm="x"'})
        return in_front_of(upstream)(request)

    with serving(basic) as registry:
        reference = f"oci://{registry.host}/kernels/basic:v1"
        with pytest.raises(FetchError, match="does not let this user"):
            fetch(reference, tmp_path / "cache", patience=QUICK)
        log_in(tmp_path / "docker", monkeypatch, auths(registry.host))
        fetch(reference, tmp_path / "cache", patience=QUICK)
    assert tree(tmp_path / "cache") == tree(old)


@needs_registry
def test_a_token_that_expires_is_renewed(upstream: str, old: Path, tmp_path: Path) -> None:
    push_cache(old, f"oci://{upstream}/kernels/short:v1", patience=QUICK)
    given: list[str] = []

    def tokens(request: Request) -> Response:
        given.append(f"token-{len(given)}")
        return Response(200, body=json.dumps({"access_token": given[-1]}).encode())

    uses: dict[str, int] = {}

    def twice(request: Request) -> Response:
        token = request.headers.get("authorization", "")
        uses[token] = uses.get(token, 0) + 1
        if token != f"Bearer {given[-1] if given else ''}" or uses[token] > 2:
            return Response(401, {"WWW-Authenticate": f'Bearer realm="{realm.url}/token"'})
        return in_front_of(upstream)(request)

    with serving(tokens) as realm, serving(twice) as registry:
        fetch(f"oci://{registry.host}/kernels/short:v1", tmp_path / "cache", threads=1, patience=QUICK)
    assert tree(tmp_path / "cache") == tree(old) and len(given) > 1


@needs_registry
def test_a_redirect_elsewhere_gets_no_login(
    upstream: str, old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blobs lie on other servers often: their addresses hold what gives access."""
    push_cache(old, f"oci://{upstream}/kernels/cdn:v1", patience=QUICK)
    pass_on = in_front_of(upstream)
    with serving(lambda request: pass_on(Request("GET", request.path.removeprefix("/cdn"), request.headers))) as cdn:

        def handle(request: Request) -> Response:
            if request.headers.get("authorization") != BASIC:
                return Response(401, {"WWW-Authenticate": 'Basic realm="x"'})
            if "/blobs/" in request.path:
                return Response(307, {"Location": f"{cdn.url}/cdn{request.path}?signature=abc"})
            return pass_on(request)

        with serving(handle) as registry:
            log_in(tmp_path / "docker", monkeypatch, auths(registry.host))
            fetch(f"oci://{registry.host}/kernels/cdn:v1", tmp_path / "cache", patience=QUICK)
    assert tree(tmp_path / "cache") == tree(old)
    assert cdn.requests and not any("authorization" in request.headers for request in cdn.requests)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("file:///etc/passwd", "which is not an http"),
        ("ftp://example.com/x", "which is not an http"),
        ("http://[", "an invalid address"),
        ("/again", "more than 5 redirects"),
    ],
)
def test_redirects_that_are_not_followed(tmp_path: Path, place: str, said: str) -> None:
    redirect = Response(302, {"Location": place})
    with serving(lambda request: redirect) as server, pytest.raises(FetchError, match=said):
        fetch(f"{server.url}/caches", tmp_path / "cache", patience=QUICK)


def test_a_hub_with_a_token(old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub(token="hf_secret")
    hub.commit({"README.md": b"kernels"})
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with serving(hub) as cdn, serving(hub) as server:
        hub.cdn = cdn.url
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        push_cache(old, "hf://acme/kernels@main/h200")
        fetch("hf://acme/kernels@main/h200", tmp_path / "cache", patience=QUICK)
        assert tree(tmp_path / "cache") == tree(old)
        assert cdn.requests and not any("authorization" in r.headers for r in cdn.requests)
        monkeypatch.setenv("HF_TOKEN", "wrong")
        with pytest.raises(FetchError, match=r"answered 401; this user may not read it: set HF_TOKEN"):
            fetch("hf://acme/kernels@main/h200", tmp_path / "other", patience=QUICK)


def test_the_token_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hub_token() == ""
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    (tmp_path / "token").write_text("hf_file\n")
    assert hub_token() == "hf_file"
    monkeypatch.setenv("HF_TOKEN", " hf_given ")
    assert hub_token() == "hf_given"
    monkeypatch.setenv("HF_TOKEN", "hf\r\nX-Other: 1")
    with pytest.raises(ConfigError, match="holds a valid token"):
        hub_token()


def test_a_token_is_not_sent_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with Web(QUICK) as web, pytest.raises(ConfigError, match="is not sent to another machine without TLS"):
        open_source(read_reference("hf://acme/kernels"), web, hub="http://hub.example.com")


@pytest.mark.parametrize("reference", ["http://files.example.com/caches", "oci+http://10.0.0.1:5000/kernels:v1"])
def test_without_tls_a_digest_is_needed(tmp_path: Path, reference: str) -> None:
    with pytest.raises(ConfigError, match=r"is read without TLS: add .*--digest"):
        fetch(reference, tmp_path / "cache")


@pytest.mark.parametrize("kind", ["Basic", "Bearer"])
def test_a_password_is_not_sent_without_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A registry elsewhere without TLS, reached through a proxy of the test."""
    challenge = f'{kind} realm="http://registry.example.com/token"'
    log_in(tmp_path / "docker", monkeypatch, auths("registry.example.com"))
    with serving(lambda request: Response(401, {"WWW-Authenticate": challenge})) as server:
        monkeypatch.setenv("http_proxy", server.url)
        with pytest.raises(FetchError, match="a password is not sent to another machine without TLS: use oci://"):
            fetch(f"oci+http://registry.example.com/kernels@sha256:{'0' * 64}", tmp_path / "cache", patience=QUICK)
    assert server.requests and not any("authorization" in request.headers for request in server.requests)


def test_what_docker_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert registry_login("a.example") is None, "no config at all"
    folder = tmp_path / "docker"
    log_in(folder, monkeypatch, {**auths("a.example:5000"), "HttpHeaders": {}})
    found = registry_login("a.example:5000")
    assert found is not None and found.header == BASIC and "secret" not in repr(found)
    assert registry_login("a.example") is None, "another port is another registry"
    log_in(folder, monkeypatch, auths("https://index.docker.io/v1/"))
    assert registry_login("docker.io") is not None
    log_in(folder, monkeypatch, {"auths": {"a.example": {"username": "ci", "password": "secret"}}})
    assert registry_login("a.example") is not None
    for wrong in ("{", "[" * 100_000, '{"auths": {"a.example": {"auth": "?"}}}', '{"credsStore": "../../bin/sh"}'):
        log_in(folder, monkeypatch, wrong)
        with pytest.raises(ConfigError, match=r"config\.json|credential helper|log in again"):
            registry_login("a.example")
    odds: list[Any] = [[], {"auths": []}, {"auths": {"a.example": 3}}, {"auths": {"a.example": {"auth": 3}}}]
    for odd in odds:
        log_in(folder, monkeypatch, odd)
        assert registry_login("a.example") is None
    log_in(folder, monkeypatch, {"auths": {"a.example": {"identitytoken": "x"}}})
    with pytest.raises(FetchError, match="identity token"):
        registry_login("a.example")


def test_who_has_no_home_has_no_logins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user id that no image knows; and the home of another user, which may not be read."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}[uid])
    assert registry_login("a.example") is None and hub_token() == ""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".docker").mkdir()
    monkeypatch.setattr(Path, "open", refuse)
    assert registry_login("a.example") is None and hub_token() == ""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / ".docker"))
    with pytest.raises(ConfigError, match=r"config\.json cannot be read .*or set DOCKER_CONFIG"):
        registry_login("a.example")


def refuse(*_: object, **named: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_credential_helpers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = tmp_path / "docker-credential-mine"
    helper.write_text(
        "#!/bin/sh\nread host\n"
        '[ "$host" = a.example ] || { echo "credentials not found"; exit 1; }\n'
        '[ "$1" = get ] && echo \'{"ServerURL": "a.example", "Username": "ci", "Secret": "secret"}\'\n'
    )
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for config in ({"credsStore": "mine"}, {"credHelpers": {"a.example": "mine"}}):
        log_in(tmp_path / "docker", monkeypatch, config)
        found = registry_login("a.example")
        assert found is not None and found.header == BASIC
        assert registry_login("b.example") is None
    log_in(tmp_path / "docker", monkeypatch, {"credsStore": "absent"})
    with pytest.raises(FetchError, match="docker-credential-absent is not installed"):
        registry_login("a.example")


def test_a_token_server_without_tls_gets_no_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry that names another machine for tokens, by an address without TLS."""
    challenge = {"WWW-Authenticate": 'Bearer realm="http://elsewhere.example.com/token"'}
    with serving(lambda request: Response(401, challenge)) as registry:
        log_in(tmp_path / "docker", monkeypatch, auths(registry.host))
        with pytest.raises(FetchError, match=r"names 'http://elsewhere.example.com/token' for tokens"):
            fetch(f"oci://{registry.host}/kernels:v1", tmp_path / "cache", patience=QUICK)


@pytest.mark.parametrize("answer", [b"[]", b"{}", b'{"token": ""}', b'{"token": "a\\r\\nX-Other: 1"}', b"no json"])
def test_a_token_that_is_none_is_refused(tmp_path: Path, answer: bytes) -> None:
    with serving(lambda request: Response(200, body=answer)) as realm:
        challenge = {"WWW-Authenticate": f'Bearer realm="{realm.url}/token",service="x"'}
        refuse = Response(401, challenge)
        said = pytest.raises(FetchError, match="did not return a token")
        with serving(lambda request: refuse) as registry, said:
            fetch(f"oci://{registry.host}/kernels:v1", tmp_path / "cache", patience=QUICK)


def test_a_certificate_that_nobody_signed_is_refused(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the certificate named, the same server is read: over TLS."""
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = [str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, "-keyout", *files]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("openssl is not installed here, which makes the certificate of this test")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    with serving(files_of(tmp_path), tls=context) as server:
        with pytest.raises(FetchError, match=r"its certificate is not trusted .*SSL_CERT_FILE"):
            fetch(f"{server.url}/old", tmp_path / "cache", patience=QUICK)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        fetch(f"{server.url}/old", tmp_path / "cache", patience=QUICK)
        server.handler = lambda request: Response(302, {"Location": "http://localhost:9/x"})
        with pytest.raises(FetchError, match="redirects from https to http"):
            fetch(f"{server.url}/old", tmp_path / "other", patience=QUICK)
    assert tree(tmp_path / "cache") == tree(old)


def test_no_proxy_is_asked_for_this_machine(old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with serving(files_of(old)) as server:
        fetch(f"{server.url}/.", tmp_path / "cache", patience=QUICK)
    assert tree(tmp_path / "cache") == tree(old)


def test_a_proxy_is_used(old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of it is the whole address; what it asks for, a password, it gets."""
    asked: list[Request] = []

    def proxy(request: Request) -> Response:
        asked.append(request)
        assert request.path.startswith("http://files.example.com/caches/")
        path = request.path.removeprefix("http://files.example.com/caches")
        return files_of(old)(Request(request.method, path, request.headers))

    with serving(proxy) as server:
        monkeypatch.setenv("http_proxy", server.url.replace("//", "//me:word@"))
        fetch("http://files.example.com/caches", tmp_path / "cache", digest=Cache(old).digest, patience=QUICK)
    assert tree(tmp_path / "cache") == tree(old)
    login = "Basic " + base64.b64encode(b"me:word").decode()
    assert {request.headers.get("proxy-authorization") for request in asked} == {login}
