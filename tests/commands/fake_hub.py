"""A server on this machine that answers what the Hub's own library asks of the Hub.

Made after the requests of huggingface_hub 2.4.0: repositories, their trees, files, commits, large files.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

COMMIT = "1" * 40
TOKEN = "hf_of_the_tests"
OWN = ".gitattributes"
"""What the Hub puts into each repository that is made."""


class FakeHub(ThreadingHTTPServer):
    """The server with what it keeps.

    Attributes:
        repos: user/name -> the files of that repository.
        private: user/name of the repositories that were made private.
        large: what was sent as large files, by SHA-256.
        breaks: names of files whose connection breaks half-way, once.
        heals: whether such a file can be had when it is asked for again.
        requests: "METHOD path" of all that was asked.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.repos: dict[str, dict[str, bytes]] = {}
        self.private: set[str] = set()
        self.large: dict[str, bytes] = {}
        self.breaks: set[str] = set()
        self.broken: set[str] = set()
        self.heals = False
        self.requests: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def running() -> Iterator[FakeHub]:
    hub = FakeHub()
    thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        thread.join()
        hub.server_close()


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeHub

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b"".join(self._chunks())
        path = urlsplit(self.path).path
        self.server.requests.append(f"{self.command} {path}")
        known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if self.command == "POST" and path.startswith("/api/") and not known:
            return self._json({"error": "Invalid username or password."}, 401)
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if path == "/api/validate-yaml":
            return self._json({"warnings": [], "errors": []})
        if path.startswith("/large/"):
            self.server.large[path.rpartition("/")[2]] = body
            return self._json({})
        found = re.fullmatch(r"(?:/api/models)?/([^/]+/[^/]+?)(?:\.git)?(?:/(.*))?", path)
        assert found is not None, path
        repo, what = found[1], found[2] or ""
        if repo not in self.server.repos:
            return self._json(
                {"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"}
            )
        files = self.server.repos[repo]
        if what == "":
            return self._json({"id": repo, "sha": COMMIT, "siblings": [], "tags": []})
        if what.startswith("tree/"):
            return self._json(
                [
                    {"type": "file", "path": n, "size": len(d), "oid": "0" * 40}
                    for n, d in files.items()
                ]
            )
        if what.startswith("preupload/"):
            return self._json({"files": [_mode(file) for file in json.loads(body)["files"]]})
        if what == "info/lfs/objects/batch":
            return self._json(
                {"objects": [self._place(each) for each in json.loads(body)["objects"]]}
            )
        if what.startswith("commit/"):
            return self._commit(repo, body)
        if what.startswith("resolve/"):
            return self._file(files, what.split("/", 2)[2])
        raise AssertionError(self.path)

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _create(self, asked: dict[str, Any]) -> None:
        repo = f"{asked['organization']}/{asked['name']}"
        known = repo in self.server.repos
        self.server.repos.setdefault(repo, {OWN: b"*.safetensors filter=lfs\n"})
        if asked.get("visibility") == "private":
            self.server.private.add(repo)
        self._json({"url": f"{self.server.address}/{repo}"}, 409 if known else 200)

    def _place(self, asked: dict[str, Any]) -> dict[str, Any]:
        upload = {"href": f"{self.server.address}/large/{asked['oid']}", "header": {}}
        return {**asked, "actions": {"upload": upload}}

    def _commit(self, repo: str, body: bytes) -> None:
        files = self.server.repos[repo]
        for line in body.splitlines():
            key, value = json.loads(line).values()
            if key == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif key == "lfsFile":
                files[value["path"]] = self.server.large[value["oid"]]
        self._json(
            {"commitUrl": f"{self.server.address}/{repo}/commit/{COMMIT}", "commitOid": COMMIT}
        )

    def _file(self, files: dict[str, bytes], name: str) -> None:
        if name not in files:
            return self._json({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
        data = files[name]
        if name in self.server.broken and not self.server.heals:
            return self._json({"error": "Service unavailable"}, 503)
        etag = f'"{hashlib.sha256(data).hexdigest()}"'
        sent = data
        if name in self.server.breaks and self.command == "GET":
            self.server.breaks.remove(name)
            self.server.broken.add(name)
            self.close_connection, sent = True, data[: len(data) // 2]
        self._send(200, {"X-Repo-Commit": COMMIT, "ETag": etag}, sent, len(data))

    def _json(self, values: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(values).encode()
        self._send(status, {"Content-Type": "application/json", **(headers or {})}, data, len(data))

    def _send(self, status: int, headers: dict[str, str], data: bytes, length: int) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(length)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _mode(file: dict[str, Any]) -> dict[str, Any]:
    large = file["path"].endswith(".safetensors")
    return {
        "path": file["path"],
        "uploadMode": "lfs" if large else "regular",
        "shouldIgnore": False,
    }
