"""A Hugging Face hub on this machine, as far as its client asks: listings, files, large files elsewhere, and faults.

    hub = HubServer()
    hub.add("owner/name", {"config.json": b"..."})
    hub.faults["config.json"] = "corrupt"
    HF_ENDPOINT = hub.url

Large files are answered as by the real hub: with a redirect to another host, where no token must arrive. The other
host is the same server under its other name, `localhost`.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

LARGE = re.compile(r".*\.(safetensors|bin|h5|msgpack|onnx|ot)")
REASONS = {401: "RepoNotFound", 404: "RepoNotFound", 403: "GatedRepo"}


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]

    @property
    def is_content(self) -> bool:
        """Whether the content of a file is asked for."""
        return self.method == "GET" and not self.path.startswith("/api/")


@dataclass
class Repository:
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)


def git_blob(content: bytes) -> str:
    """Git's name for a file's content, which is the hub's checksum of small files."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def checksum(file: str, content: bytes) -> str:
    return hashlib.sha256(content).hexdigest() if LARGE.fullmatch(file) else git_blob(content)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_) -> None:
        """Says nothing: a client that hangs up is what some tests want to see."""


class HubServer:
    """faults: "api", or a file's name -> "truncate", "truncate once", "short", "corrupt", "not json", "silent" (nothing
    comes for a minute, unless it is closed), or an HTTP status. requests: all that came in, in turn."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.faults: dict[str, str | int] = {}
        self.closed = threading.Event()
        self.requests: list[Request] = []
        self.large: dict[str, tuple[str, bytes]] = {}
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self.closed.set()
        self._server.shutdown()
        self._server.server_close()

    def add(self, repo_id: str, files: dict[str, bytes], ref: str = "main") -> str:
        """A commit with these files, which `ref` then is. Returns the commit."""
        repository = self.repositories.setdefault(repo_id, Repository())
        commit = hashlib.sha1(f"{repo_id} {ref} {len(repository.commits)}".encode()).hexdigest()
        repository.commits[commit] = files
        repository.refs[ref] = commit
        self.large |= {checksum(f, c): (f, c) for f, c in files.items() if LARGE.fullmatch(f)}
        return commit

    def listings(self) -> int:
        """How often a list of files was asked for: the client asks on its own account for other things."""
        return sum(request.path.startswith("/api/models/") for request in self.requests)

    def fetched(self) -> list[str]:
        """The names of the files whose content was asked for, in alphabetical order."""
        names = []
        for request in self.requests:
            if request.is_content:
                head, last = re.fullmatch(r"(/cdn/|.+/resolve/[^/]+/)(.+)", request.path).groups()
                names.append(self.large[last][0] if head == "/cdn/" else last)
        return sorted(names)


def _handler(hub: HubServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_) -> None:
            pass

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            hub.requests.append(Request(self.command, path, {k.lower(): v for k, v in self.headers.items()}))
            if match := re.fullmatch(r"/api/models/(.+?)(?:/revision/(.+))?", path):
                self.listing(match[1], match[2] or "main")
            elif match := re.fullmatch(r"/cdn/(\w+)", path):
                file, content = hub.large[match[1]]
                self.content(file, content, {"Content-Disposition": f'inline; filename="{file}";'})
            elif match := re.fullmatch(r"/(.+?)/resolve/([^/]+)/(.+)", path):
                self.file(*match.groups())
            else:
                self.refuse(404, "")

        do_HEAD = do_GET

        def listing(self, repo_id: str, revision: str) -> None:
            fault = hub.faults.get("api")
            if fault == "silent":
                hub.closed.wait(60)
            if isinstance(fault, int):
                return self.refuse(fault, REASONS.get(fault, ""))
            if fault == "not json":
                return self.send(200, b"<html>Please log in</html>", {"Content-Type": "text/html"})
            commit = self.commit(repo_id, revision)
            if commit is None:
                return None
            siblings = []
            for file, content in hub.repositories[repo_id].commits[commit].items():
                siblings.append({"rfilename": file, "size": len(content), "blobId": git_blob(content)})
                if LARGE.fullmatch(file):
                    sha256 = checksum(file, content)
                    siblings[-1] |= {"lfs": {"sha256": sha256, "size": len(content), "pointerSize": 134}}
            info = {"id": repo_id, "modelId": repo_id, "sha": commit, "private": False, "siblings": siblings}
            return self.send(200, json.dumps(info).encode(), {"Content-Type": "application/json"})

        def file(self, repo_id: str, revision: str, file: str) -> None:
            fault = hub.faults.get(file)
            if isinstance(fault, int):
                return self.refuse(fault, REASONS.get(fault, ""))
            commit = self.commit(repo_id, revision)
            if commit is None:
                return None
            content = hub.repositories[repo_id].commits[commit].get(file)
            if content is None:
                return self.refuse(404, "EntryNotFound", {"X-Repo-Commit": commit})
            tags = {"ETag": f'"{checksum(file, content)}"', "X-Repo-Commit": commit}
            if not LARGE.fullmatch(file):
                return self.content(file, content, tags)
            sha256 = checksum(file, content)
            linked = {"X-Linked-Etag": f'"{sha256}"', "X-Linked-Size": str(len(content))}
            location = f"http://localhost:{hub.port}/cdn/{sha256}"
            return self.send(302, b"", tags | linked | {"Location": location})

        def commit(self, repo_id: str, revision: str) -> str | None:
            repository = hub.repositories.get(repo_id)
            if repository is None:
                return self.refuse(404, "RepoNotFound")
            commit = repository.refs.get(revision, revision)
            return commit if commit in repository.commits else self.refuse(404, "RevisionNotFound")

        def content(self, file: str, content: bytes, headers: dict[str, str]) -> None:
            """The bytes of a file, or of its end if a range is asked for, with the fault that is set for it."""
            fault = hub.faults.get(file) if self.command == "GET" else None
            start = int((re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")) or [0, 0])[1])
            half = len(content) // 2
            if fault == "truncate once":
                del hub.faults[file]
            if fault == "corrupt":
                content = content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :]
            if fault == "short":
                content = content[:half]
            if start:
                headers = headers | {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
            stop = half if fault in ("truncate", "truncate once") else None
            self.send(206 if start else 200, content[start:], headers, content[start:stop])

        def refuse(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
            self.send(status, b"", {"X-Error-Code": code, **(headers or {})} if code else headers or {})

        def send(self, status: int, body: bytes, headers: dict[str, str], sent: bytes | None = None) -> None:
            """An answer whose length is that of `body`; of which only `sent` is sent, before the line goes dead."""
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body if sent is None else sent)
                self.close_connection = sent is not None and sent != body

    return Handler
