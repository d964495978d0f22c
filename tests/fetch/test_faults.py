"""What goes wrong on the way: cut connections, wrong bytes, busy servers, lies. The cache that was there stays."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path

import pytest

from precast.fetch.fetcher import fetch
from precast.fetch.transport.patience import Patience
from precast.fetch.transport.progress import Progress
from precast.loader.errors import FetchError, IntegrityError
from tests.helpers.packed_caches import tree
from tests.helpers.web.many import QUICK, many
from tests.helpers.web.served import Served
from tests.helpers.web.server import Request, Response, once


@pytest.fixture
def target(served: Served, old: Path, new: Path, tmp_path: Path) -> Path:
    """A place with the old cache, where the new one is served now."""
    served.put(old)
    fetch(served.reference, tmp_path / "cache", patience=QUICK)
    served.put(new)
    served.server.requests.clear()
    return tmp_path / "cache"


def refused(served: Served, target: Path, kind: type[Exception] | tuple[type[Exception], ...], match: str) -> str:
    """Fetch, expect an error, and that nothing has changed. Then the server behaves again, and it works."""
    before = tree(target)
    with pytest.raises(kind, match=match) as caught:
        fetch(served.reference, target, patience=QUICK)
    assert tree(target) == before
    served.behave()
    return str(caught.value)


def works(served: Served, target: Path, new: Path) -> None:
    assert fetch(served.reference, target, patience=QUICK).changed
    assert tree(target) == tree(new)
    assert sorted(p.name for p in target.parent.iterdir() if p.name.startswith(".")) == []


def halves(response: Response) -> Response:
    return response if len(response.body) < 4000 else response.changed(cut=len(response.body) // 2)


def test_a_cut_connection_goes_on_where_it_was_cut(served: Served, tmp_path: Path) -> None:
    cache = many(tmp_path / "large", blobs=6, largest=60_000)
    served.put(cache)
    served.misbehave(once(served.handler, served.large, halves, times=12))
    done = fetch(served.reference, tmp_path / "cache", patience=QUICK)
    assert tree(tmp_path / "cache") == tree(cache)
    begun = [r.headers.get("range", "") for r in served.server.requests if served.large in r.path]
    assert any(not text.startswith("bytes=0-") for text in begun)
    blobs = sum(p.stat().st_size for p in cache.rglob("*") if p.is_file())
    assert done.received < 1.6 * blobs, "nothing comes twice, but for the padding of layers"


def test_a_cut_connection_without_progress_is_an_error(served: Served, target: Path, new: Path) -> None:
    served.misbehave(once(served.handler, served.large, lambda r: r.changed(cut=0), times=1000))
    said = refused(served, target, FetchError, "attempts failed: try again later")
    assert "the connection" in said or "no answer" in said
    works(served, target, new)


def flipped(response: Response) -> Response:
    if len(response.body) < 600:
        return response
    middle = len(response.body) // 2
    wrong = bytes(byte ^ 0xFF for byte in response.body[middle - 50 : middle + 50])
    return response.changed(body=response.body[: middle - 50] + wrong + response.body[middle + 50 :])


def test_wrong_bytes_are_asked_for_again(served: Served, new: Path, tmp_path: Path) -> None:
    served.put(new)
    served.misbehave(once(served.handler, served.large, flipped))
    fetch(served.reference, tmp_path / "cache", patience=QUICK)
    assert tree(tmp_path / "cache") == tree(new)


def without_an_op(response: Response) -> Response:
    return response.changed(body=response.body.replace(b'"symbol"', b'"cymbol"'))


def test_a_wrong_file_of_an_op_is_asked_for_again(served: Served, new: Path, tmp_path: Path) -> None:
    served.put(new)
    sent = []

    def noted(response: Response) -> Response:
        sent.append(b'"symbol"' in response.body)
        return without_an_op(response) if sent.count(True) == 1 and sent[-1] else response

    served.misbehave(once(served.handler, "", noted, times=1000))
    fetch(served.reference, tmp_path / "cache", patience=QUICK)
    assert tree(tmp_path / "cache") == tree(new) and sent.count(True) >= 2


def test_wrong_bytes_never_get_into_place(served: Served, target: Path, new: Path) -> None:
    served.misbehave(once(served.handler, served.large, flipped, times=1000))
    refused(
        served,
        target,
        (IntegrityError, FetchError),
        "bytes of another digest|damaged|does not hold what|not JSON|index.json",
    )
    works(served, target, new)


def test_a_file_that_is_shorter_there_is_an_error(served: Served, target: Path, new: Path) -> None:
    def short(request: Request) -> Response:
        response = served.handler(request)
        if served.large not in request.path:
            return response
        headers = {name: value for name, value in response.headers.items() if name != "Content-Length"}
        return response.changed(headers=headers, body=response.body[:-30])

    served.misbehave(short)
    refused(served, target, (FetchError, IntegrityError), r"ended after|smaller than|damaged|another digest")
    works(served, target, new)


@pytest.mark.parametrize("lie", ["stated", "sent"])
def test_nothing_is_read_beyond_its_limit(served: Served, target: Path, new: Path, lie: str) -> None:
    """The first file: a manifest, a table, a commit, an index."""
    huge = b" " * (17 << 20)

    def large(request: Request) -> Response:
        response = served.handler(request)
        first = any(text in request.path for text in ("/manifests/", "layers.json", "index.json", "/revision/"))
        if not first:
            return response
        if lie == "stated":
            return response.changed(status=200, headers={"Content-Length": str(1 << 50)}, body=b"{}", cut=2)
        return response.changed(status=200, headers={"Connection": "close"}, body=huge)

    served.misbehave(large)
    refused(served, target, FetchError, "more than the limit of [0-9]+")
    works(served, target, new)


def test_a_busy_server_is_asked_again(served: Served, target: Path, new: Path) -> None:
    states = iter((429, 503, 500))
    served.misbehave(once(served.handler, "", lambda _: Response(next(states), {"Retry-After": "0"}), times=3))
    works(served, target, new)


def test_a_server_that_stays_busy_is_an_error_with_its_words(served: Served, target: Path, new: Path) -> None:
    served.misbehave(lambda request: Response(503, {"Retry-After": "0"}, b"closed for \x1b[31m lunch"))
    said = refused(served, target, FetchError, "the server answered 503 closed for")
    assert said.isprintable()
    works(served, target, new)


def test_what_a_server_asks_for_is_waited(served: Served, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    real = threading.Event.wait

    def wait(event: threading.Event, timeout: float | None = None) -> bool:
        if timeout is not None and timeout < 5:
            waited.append(timeout)
            return event.is_set()
        return real(event, timeout)

    served.misbehave(once(served.handler, "", lambda _: Response(429, {"Retry-After": "3"}), times=1))
    monkeypatch.setattr(threading.Event, "wait", wait)
    log = io.StringIO()
    fetch(served.reference, target, patience=Patience(tries=3, first=0.01, longest=4.0), progress=Progress(log))
    assert 3.0 in waited
    assert "the server answered 429 at attempt 1; retrying in 3 s" in log.getvalue()


@pytest.mark.parametrize("served", ["image", "files"], indirect=True)
def test_a_server_that_is_not_there(served: Served, target: Path) -> None:
    elsewhere = served.reference.replace(served.server.host, "127.0.0.1:9")
    before = tree(target)
    with pytest.raises(FetchError, match=r"no answer \(ConnectionRefusedError.*attempts failed: try again later"):
        fetch(elsewhere, target, patience=QUICK)
    assert tree(target) == before


def test_a_slow_server_is_left(served: Served, new: Path, tmp_path: Path) -> None:
    served.put(new)
    impatient = Patience(tries=2, first=0.01, longest=0.02, timeout=0.3)
    release = threading.Event()

    def hang(request: Request) -> Response:
        if served.large in request.path:
            release.wait(20)
        return served.handler(request)

    served.misbehave(hang)
    with pytest.raises(FetchError, match=r"timed out.*2 attempts failed"):
        fetch(served.reference, tmp_path / "cache", patience=impatient)
    release.set()


def test_without_ranges_the_rest_is_skipped(served: Served, old: Path, new: Path, tmp_path: Path) -> None:
    """A server may answer with the whole file, whatever was asked for."""

    def whole(request: Request) -> Response:
        plain = {name: value for name, value in request.headers.items() if name != "range"}
        return served.handler(Request(request.method, request.path, plain, request.body))

    served.put(new)
    served.misbehave(once(whole, served.large, halves, times=2))
    fetch(served.reference, tmp_path / "cache", reuse=[old], patience=QUICK)
    assert tree(tmp_path / "cache") == tree(new)


def test_another_range_than_the_one_asked_for_is_refused(served: Served, target: Path, new: Path) -> None:
    def other(response: Response) -> Response:
        if response.status != 206:
            return response
        return response.changed(status=206, headers={"Content-Range": "bytes 7-99/100"})

    served.misbehave(once(served.handler, served.large, other, times=1000))
    refused(served, target, IntegrityError, "returned another range than the requested one")
    works(served, target, new)


@pytest.mark.parametrize("served", ["hub", "layers"], indirect=True)
@pytest.mark.parametrize("name", ["../../escaped", "/etc/passwd", "blobs/../../escaped", "ops/..%2fescaped.json"])
def test_no_name_leads_out_of_the_cache(served: Served, target: Path, new: Path, name: str) -> None:
    """A table of layers names files; only those that an index can name are read."""

    def hostile(request: Request) -> Response:
        response = served.handler(request)
        if "layers.json" not in request.path or response.status != 200:
            return response
        table = json.loads(response.body)
        table["layers"][0]["files"][0][0] = name
        return response.changed(body=json.dumps(table).encode())

    served.misbehave(hostile)
    refused(served, target, FetchError, "is not a file of a cache in 'layers")
    assert not list(target.parent.rglob("*escaped*"))
    works(served, target, new)


def test_a_name_that_is_moved_meanwhile_gives_one_cache(served: Served, old: Path, new: Path, tmp_path: Path) -> None:
    """The tag, branch or folder gets another cache between the first answer and the second."""
    served.put(old)
    moved = threading.Event()

    def moving(request: Request) -> Response:
        response = served.handler(request)
        if not moved.is_set():
            moved.set()
            served.put(new)
        return response

    served.misbehave(moving)
    if served.kind in ("image", "hub"):
        fetch(served.reference, tmp_path / "cache", patience=QUICK)
        assert tree(tmp_path / "cache") == tree(old)
        return
    try:
        fetch(served.reference, tmp_path / "cache", patience=QUICK)
        assert tree(tmp_path / "cache") in (tree(old), tree(new))
    except (FetchError, IntegrityError) as error:
        assert "run this again" in str(error)
        assert not (tmp_path / "cache").exists()
    served.behave()
    fetch(served.reference, tmp_path / "cache", patience=QUICK)
    assert tree(tmp_path / "cache") == tree(new)


def test_an_unexpected_answer_says_its_status(served: Served, target: Path, new: Path) -> None:
    served.misbehave(lambda request: Response(418, body=b'{"errors":[{"code":"TEAPOT","message":"short and stout"}]}'))
    refused(served, target, FetchError, "418")
    works(served, target, new)
