# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""gma data: downloads from a server that breaks off, changes its mind, or lies."""

import hashlib
import json
import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from conftest import command, gma, gma_fails, gma_ok
from test_data import contents, make_zip, wikitext_files

NAME = "wikitext-2-v1.zip"
SPLITS = ["wiki.test.tokens", "wiki.train.tokens", "wiki.valid.tokens"]


@dataclass
class Server:
    """What the server has, how it behaves, and what it was asked."""

    data: bytes
    etag: str | None = '"one"'
    last_modified: str | None = None
    ranges: bool = True
    if_range: bool = True  # honours the condition
    break_after: list[int] = field(default_factory=list)  # bytes of each answer, first to last
    status: list[int] = field(default_factory=list)  # of each answer, instead of the right one
    pause: float = 0.0  # after breaking off, with the connection open
    redirect_to: str | None = None
    shift: int = 0  # sends parts from another place than is asked for
    requests: list[dict[str, str | None]] = field(default_factory=list)
    url: str = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        wanted, condition = handler.headers.get("Range"), handler.headers.get("If-Range")
        self.requests.append({"path": handler.path, "Range": wanted, "If-Range": condition})
        if self.redirect_to is not None and handler.path != self.redirect_to:
            handler.send_response(302)
            handler.send_header("Location", self.redirect_to)
            handler.send_header("ETag", '"of the redirect"')
            handler.end_headers()
            return
        if self.status and (status := self.status.pop(0)) != 200:
            handler.send_response(status)
            handler.end_headers()
            handler.wfile.write(b"a page about it")
            return
        body, start = self.data, 0
        is_same = not self.if_range or condition in (self.etag, self.last_modified)
        if wanted is not None and self.ranges and is_same:
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) + self.shift
            if start >= len(body):
                handler.send_response(416)
                handler.send_header("Content-Range", f"bytes */{len(body)}")
                handler.end_headers()
                return
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            handler.send_response(200)
        for name, value in (("ETag", self.etag), ("Last-Modified", self.last_modified)):
            if value is not None:
                handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body) - start))
        handler.end_headers()
        body = body[start:]
        if self.break_after:
            handler.wfile.write(body[: self.break_after.pop(0)])
            handler.wfile.flush()
            time.sleep(self.pause)
        else:
            handler.wfile.write(body)

    def ranges_asked(self) -> list[str | None]:
        return [request["Range"] for request in self.requests]


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """Of some size when packed, so that parts of the archive can be told apart."""
    digests = (hashlib.sha256(str(i).encode()).hexdigest() for i in range(4000))
    noise = "".join(digests).encode()
    return {name: text + noise + b"\n" for name, text in wikitext_files().items()}


@pytest.fixture
def server(tmp_path: Path, files: dict[str, bytes]) -> Iterator[Server]:
    state = Server(make_zip(tmp_path / "original.zip", files).read_bytes())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                state.answer(self)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the program was stopped

        def log_message(self, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    state.url = f"http://127.0.0.1:{http.server_port}/data/{NAME}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield state
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def fetch(server: Server, out: Path, *more: object) -> tuple[object, ...]:
    return ("data", "wikitext-2", "--url", server.url, "--out", out, *more)


def check_result(out: Path, files: dict[str, bytes]) -> None:
    assert contents(out) == {name.partition("/")[2]: text for name, text in files.items()}


def test_whole_file(server: Server, out: Path, files: dict[str, bytes]) -> None:
    digest = hashlib.sha256(server.data).hexdigest()
    gma_ok(*fetch(server, out, "--sha256", digest.upper()))
    check_result(out, files)
    assert server.ranges_asked() == [None]


def test_archive_is_kept_and_used_again(server: Server, out: Path, files: dict[str, bytes]) -> None:
    gma_ok(*fetch(server, out, "--keep-archive"))
    assert sorted(contents(out)) == sorted([*SPLITS, NAME])
    assert (out / NAME).read_bytes() == server.data
    text = gma_ok(*fetch(server, out, "--overwrite"))
    assert f"Using {out / NAME}, which is there" in text
    assert len(server.requests) == 1
    assert (out / NAME).exists(), "it was there before"
    message = gma_fails(2, *fetch(server, out, "--overwrite", "--sha256", "0" * 64))
    assert f"{out / NAME}: expected the SHA-256 {'0' * 64}, got " in message


@pytest.mark.parametrize(
    ("etag", "last_modified", "condition"),
    [
        ('"one"', None, '"one"'),
        ('"one"', "Mon, 02 Mar 2020 10:00:00 GMT", '"one"'),
        ('W/"weak"', "Mon, 02 Mar 2020 10:00:00 GMT", "Mon, 02 Mar 2020 10:00:00 GMT"),
        (None, "Mon, 02 Mar 2020 10:00:00 GMT", "Mon, 02 Mar 2020 10:00:00 GMT"),
    ],
)
def test_break_is_mended(
    etag: str | None,
    last_modified: str | None,
    condition: str,
    server: Server,
    out: Path,
    files: dict[str, bytes],
) -> None:
    server.etag, server.last_modified = etag, last_modified
    server.break_after = [10000, 20000]
    text = gma_ok(*fetch(server, out))
    assert text.count("trying again in 1.0 s") == 2, "each break came after progress"
    check_result(out, files)
    assert server.ranges_asked() == [None, "bytes=10000-", "bytes=30000-"]
    assert [request["If-Range"] for request in server.requests[1:]] == [condition] * 2


@pytest.mark.parametrize("etag", [None, 'W/"weak"'])
def test_without_a_name_for_the_version_it_starts_anew(
    etag: str | None, server: Server, out: Path, files: dict[str, bytes]
) -> None:
    server.etag = etag
    server.break_after = [10000]
    gma_ok(*fetch(server, out))
    check_result(out, files)
    assert server.ranges_asked() == [None, None]


def test_later_call_goes_on(server: Server, out: Path, files: dict[str, bytes]) -> None:
    server.break_after = [10000]
    message = gma_fails(1, *fetch(server, out, "--retries=0"))
    assert message.startswith(f"{server.url}: ")
    part = out / f".{NAME}.part"
    assert contents(out) == {
        part.name: server.data[:10000],
        f"{part.name}.json": (out / f"{part.name}.json").read_bytes(),
    }
    assert json.loads((out / f"{part.name}.json").read_text()) == {
        "url": server.url,
        "validator": '"one"',
    }
    gma_ok(*fetch(server, out))
    check_result(out, files)
    assert server.ranges_asked() == [None, "bytes=10000-"]


def test_part_of_another_address_is_not_gone_on_with(
    server: Server, out: Path, files: dict[str, bytes]
) -> None:
    server.break_after = [10000]
    gma_fails(1, *fetch(server, out, "--retries=0"))
    server.url = server.url.replace("/data/", "/other/")
    gma_ok(*fetch(server, out))
    check_result(out, files)
    assert server.ranges_asked() == [None, None]


def test_part_that_is_whole(server: Server, out: Path, files: dict[str, bytes]) -> None:
    """What a kill just before the renaming leaves."""
    server.break_after = [len(server.data) - 1]
    gma_fails(1, *fetch(server, out, "--retries=0"))
    with (out / f".{NAME}.part").open("ab") as part:
        part.write(server.data[-1:])
    gma_ok(*fetch(server, out))
    check_result(out, files)
    assert server.ranges_asked() == [None, f"bytes={len(server.data)}-"]


def test_part_that_is_longer_than_the_file(
    server: Server, out: Path, files: dict[str, bytes]
) -> None:
    server.break_after = [10000]
    gma_fails(1, *fetch(server, out, "--retries=0"))
    with (out / f".{NAME}.part").open("ab") as part:
        part.write(bytes(len(server.data)))
    assert "shorter than before" in gma_ok(*fetch(server, out))
    check_result(out, files)


def test_server_without_ranges(server: Server, out: Path, files: dict[str, bytes]) -> None:
    server.ranges = False
    server.break_after = [10000]
    text = gma_ok(*fetch(server, out))
    assert "it starts anew" in text
    check_result(out, files)
    assert server.ranges_asked() == [None, "bytes=10000-"]


def test_changed_file_is_not_glued(
    server: Server, out: Path, files: dict[str, bytes], tmp_path: Path
) -> None:
    server.break_after = [10000]
    gma_fails(1, *fetch(server, out, "--retries=0"))
    changed = {name: text.replace(b"0", b"z") for name, text in files.items()}
    server.data = make_zip(tmp_path / "changed.zip", changed).read_bytes()
    server.etag = '"two"'
    text = gma_ok(*fetch(server, out))
    assert "note: the file has changed, or its server sends no parts: it starts anew" in text
    check_result(out, changed)


@pytest.mark.parametrize("lie", ["condition", "place"])
def test_parts_that_do_not_fit_are_not_glued(
    lie: str, server: Server, out: Path, files: dict[str, bytes]
) -> None:
    """A server that sends parts of a changed file in spite of If-Range, or other parts."""
    server.break_after = [10000]
    gma_fails(1, *fetch(server, out, "--retries=0"))
    if lie == "condition":
        server.if_range = False
        server.etag = '"two"'
    else:
        server.shift = 7
    text = gma_ok(*fetch(server, out))
    assert "note: the server sent another part than was asked for; trying again" in text
    check_result(out, files)
    assert server.ranges_asked() == [None, "bytes=10000-", None]


@pytest.mark.parametrize("status", [403, 404, 410])
def test_no_such_file(status: int, server: Server, out: Path) -> None:
    server.status = [status]
    assert f"{server.url}: the server answered {status}" == gma_fails(2, *fetch(server, out))
    assert not out.exists()
    assert len(server.requests) == 1, "a retry would not help"


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_server_that_recovers(
    status: int, server: Server, out: Path, files: dict[str, bytes]
) -> None:
    server.status = [status]
    text = gma_ok(*fetch(server, out))
    assert f"the server answered {status}; trying again in 1.0 s" in text
    check_result(out, files)


def test_server_that_does_not_recover(server: Server, out: Path) -> None:
    server.status = [503, 503]
    assert "the server answered 503" in gma_fails_with_notes(1, *fetch(server, out, "--retries=1"))
    assert not out.exists()


def gma_fails_with_notes(code: int, *args: object) -> str:
    result = gma(*args)
    assert result.returncode == code
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_nobody_listens(out: Path) -> None:
    url = f"http://127.0.0.1:1/{NAME}"
    message = gma_fails(1, "data", "wikitext-2", "--url", url, "--out", out, "--retries=0")
    assert message.startswith(f"{url}: ")
    assert not out.exists()


def test_wrong_checksum(server: Server, out: Path) -> None:
    message = gma_fails(2, *fetch(server, out, "--sha256", "0" * 64))
    digest = hashlib.sha256(server.data).hexdigest()
    assert f"expected the SHA-256 {'0' * 64}, got {digest}" in message
    assert not out.exists(), "what is wrong is not kept to go on from"


def test_damaged_download_is_not_kept(server: Server, out: Path) -> None:
    server.data = server.data[:-100]
    assert "damaged or truncated zip file" in gma_fails(2, *fetch(server, out))
    assert not out.exists()


def test_redirect(server: Server, out: Path, files: dict[str, bytes]) -> None:
    server.redirect_to = "/elsewhere"
    server.break_after = [10000]
    gma_ok(*fetch(server, out))
    check_result(out, files)
    paths = [request["path"] for request in server.requests]
    assert paths == [f"/data/{NAME}", "/elsewhere"] * 2
    assert server.requests[-1]["If-Range"] == '"one"', "of the file, not of the redirect"


@pytest.mark.parametrize("place", ["file:///etc/passwd", "ftp://127.0.0.1/a"])
def test_redirect_to_another_protocol(place: str, server: Server, out: Path) -> None:
    server.redirect_to = place
    gma_fails(2, *fetch(server, out, "--retries=0"))
    assert not out.exists()


def test_interrupt_keeps_the_part(server: Server, out: Path, files: dict[str, bytes]) -> None:
    server.break_after = [10000]
    server.pause = 5.0
    process = subprocess.Popen(
        command(*fetch(server, out)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    part = out / f".{NAME}.part"
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size == 10000) and time.monotonic() < deadline:
        time.sleep(0.02)
    other = gma_fails(2, *fetch(server, out))
    assert "another process is writing it" in other
    process.send_signal(signal.SIGINT)
    text, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")
    assert "what is downloaded is kept, and the same command goes on from it" in text
    gma_ok(*fetch(server, out))
    check_result(out, files)
    assert server.ranges_asked() == [None, "bytes=10000-"]
