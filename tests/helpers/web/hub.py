"""A double of the Hugging Face Hub: the part of its documented HTTP interface that a fetch and a commit use.

Not the hub itself: no Xet, no large files, no access control but one token.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from dataclasses import dataclass, field
from urllib.parse import unquote

from tests.helpers.web.server import Request, Response, ranged


@dataclass
class Hub:
    """One repository: commits by their id, and the commits that branches and tags stand for."""

    repository: str = "acme/kernels"
    token: str = ""
    cdn: str = ""  # where files are redirected to, if anywhere
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def commit(self, files: dict[str, bytes], ref: str = "main", deleted: frozenset[str] = frozenset()) -> str:
        """Add files to what a branch has, and delete others."""
        with self.lock:
            before = self.commits.get(self.refs.get(ref, ""), {})
            whole = {name: data for name, data in {**before, **files}.items() if name not in deleted}
            listed = json.dumps([[name, hashlib.sha256(data).hexdigest()] for name, data in sorted(whole.items())])
            sha = hashlib.sha1(f"{len(self.commits)} {listed}".encode()).hexdigest()
            self.commits[sha] = whole
            self.refs[ref] = sha
            return sha

    def __call__(self, request: Request) -> Response:
        path = unquote(request.path.partition("?")[0]).strip("/")
        if path.startswith("cdn/"):
            _, sha, name = path.split("/", 2)
            return ranged(request, self.commits[sha][name])
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            return Response(401, body=b'{"error":"Invalid credentials"}')
        if path.startswith(f"api/models/{self.repository}/"):
            return self._api(request, path.removeprefix(f"api/models/{self.repository}/"))
        if path.startswith(f"{self.repository}/resolve/"):
            revision, _, name = path.removeprefix(f"{self.repository}/resolve/").partition("/")
            return self._file(request, self.refs.get(revision, revision), name)
        return Response(404, body=b'{"error":"Repository not found"}')

    def _file(self, request: Request, sha: str, name: str) -> Response:
        files = self.commits.get(sha, {})
        if name not in files:
            return Response(404, {"X-Error-Code": "EntryNotFound"}, b"Entry not found")
        if self.cdn:
            return Response(302, {"Location": f"{self.cdn}/cdn/{sha}/{name}?signature=secret"})
        return ranged(request, files[name])

    def _api(self, request: Request, path: str) -> Response:
        what, _, revision = path.partition("/")
        if what == "revision":
            sha = self.refs.get(revision)
            if sha is None:
                return Response(404, {"X-Error-Code": "RevisionNotFound"}, b'{"error":"Invalid rev id"}')
            listed = [{"rfilename": name} for name in self.commits[sha]]
            return _json({"id": self.repository, "sha": sha, "siblings": listed})
        if what == "preupload":
            asked = json.loads(request.body)["files"]
            return _json(
                {"files": [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in asked]}
            )
        if what == "commit":
            lines = [json.loads(line) for line in request.body.splitlines()]
            files = {
                line["value"]["path"]: base64.b64decode(line["value"]["content"])
                for line in lines
                if line["key"] == "file"
            }
            if lines[0]["value"].get("parentCommit", self.refs[revision]) != self.refs[revision]:
                return Response(412, body=b'{"error":"the branch has moved"}')
            deleted = frozenset(line["value"]["path"] for line in lines if line["key"] == "deletedFile")
            sha = self.commit(files, revision, deleted)
            url = f"http://{request.headers['host']}/{self.repository}/commit/{sha}"
            return _json({"success": True, "commitOid": sha, "commitUrl": url, "hookOutput": ""})
        return Response(404, body=b'{"error":"not in this double"}')


def _json(value: object) -> Response:
    return Response(200, {"Content-Type": "application/json"}, json.dumps(value).encode())
