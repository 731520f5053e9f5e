"""Downloads against a server that is slow, breaks off, knows no ranges, redirects, sends something else, or is not there."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import likewise
from likewise import downloads
from likewise.downloads import Download, download

CONTENT = bytes(range(256)) * 4000  # 1,024,000 bytes
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT at /weights.pth, with what is wrong with it in these fields."""

    daemon_threads = True
    content = CONTENT
    has_ranges = True
    has_length = True
    breaks_after: list[int]  # bytes after which each of the next answers ends
    statuses: list[int]  # of the next answers
    pause = 0.0  # before each chunk
    chunk = 2**16

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.breaks_after, self.statuses = [], []
        self.asked: list[tuple[str, str | None]] = []  # path and range

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/weights.pth"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        server = self.server
        asked = self.headers.get("Range")
        server.asked.append((self.path, asked))
        if self.path.endswith("/moved.pth"):
            self.send_response(302)
            self.send_header("Location", "/weights.pth")
            self.end_headers()
            return
        if server.statuses:
            self.send_error(server.statuses.pop(0))
            return
        start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1]) if asked and server.has_ranges else 0  # type: ignore[index]
        if start >= len(server.content):
            self.send_error(416)
            return
        body = server.content[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(server.content) - 1}/{len(server.content)}")
        if server.has_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if server.breaks_after:
            body = body[: server.breaks_after.pop(0)]
        try:
            for place in range(0, len(body), server.chunk):
                time.sleep(server.pause)
                self.wfile.write(body[place : place + server.chunk])
        except OSError:  # the client has gone
            pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr(downloads, "PAUSES", (0.0, 0.0))
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def wanted(server: Server, folder: Path, *, address: str | None = None, digest: str = DIGEST) -> Download:
    return Download("tiny", address or server.address, folder / "weights" / "weights.pth", digest)


def ranges(server: Server) -> list[str | None]:
    return [asked for _, asked in server.asked]


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "weights").iterdir() if path.suffix != ".lock")


def test_fetched_once_and_told(server: Server, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    file = wanted(server, tmp_path)
    for _ in range(2):
        download(file, on_progress=lambda *what: told.append(what))
    assert file.target.read_bytes() == CONTENT
    assert left(tmp_path) == ["weights.pth"]
    assert ranges(server) == [None]
    assert {what for what, _, _ in told} == {"fetching tiny, kB"}
    done = [kilobytes for _, kilobytes, _ in told]
    assert len(done) > 3
    assert done == sorted(done)
    assert {total for _, _, total in told} == {1024}
    assert [count for count in done if count >= 1024] == [1024], "told to be over before it was"


def test_broken_off_and_gone_on_with(server: Server, tmp_path: Path) -> None:
    server.breaks_after = [300_000, 400_000]
    download(wanted(server, tmp_path))
    assert (tmp_path / "weights" / "weights.pth").read_bytes() == CONTENT
    assert ranges(server) == [None, "bytes=300000-", "bytes=700000-"]


def test_no_length_is_no_fault(server: Server, tmp_path: Path) -> None:
    server.has_length = False
    download(wanted(server, tmp_path), on_progress=lambda what, done, total: None)
    assert (tmp_path / "weights" / "weights.pth").read_bytes() == CONTENT


def test_what_came_is_kept_for_the_next_command(server: Server, tmp_path: Path) -> None:
    server.breaks_after = [300_000, 0, 0, 0]
    with pytest.raises(ValueError, match=r"tiny cannot be fetched: the connection broke off .* are kept, and the same command goes on"):
        download(wanted(server, tmp_path))
    assert left(tmp_path) == ["weights.pth.part"]
    assert ranges(server) == [None, *["bytes=300000-"] * 3]
    download(wanted(server, tmp_path))
    assert ranges(server)[4:] == ["bytes=300000-"]
    assert left(tmp_path) == ["weights.pth"]
    assert (tmp_path / "weights" / "weights.pth").read_bytes() == CONTENT


def test_a_server_without_ranges_starts_anew(server: Server, tmp_path: Path) -> None:
    server.breaks_after = [300_000]
    server.has_ranges = False
    download(wanted(server, tmp_path))
    assert (tmp_path / "weights" / "weights.pth").read_bytes() == CONTENT
    assert ranges(server) == [None, "bytes=300000-"]


def test_slow_is_waited_for_and_silence_is_not(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "PATIENCE", 0.5)
    server.pause = 0.05  # in all longer than the patience
    download(wanted(server, tmp_path))
    assert ranges(server) == [None]
    server.pause, server.content = 3.0, CONTENT[::-1]
    with pytest.raises(ValueError, match=r"broke off \(.*timed out\)"):
        download(wanted(server, tmp_path, digest="0" * 64))


def test_a_killed_process_is_gone_on_with(server: Server, tmp_path: Path) -> None:
    server.pause, server.chunk = 0.05, 2**14
    process = subprocess.Popen(command(wanted(server, tmp_path)), env=environment())
    part = tmp_path / "weights" / "weights.pth.part"
    while not part.is_file() or part.stat().st_size == 0:
        time.sleep(0.01)
        assert process.poll() is None
    process.kill()
    process.wait()
    came = part.stat().st_size
    assert 0 < came < len(CONTENT)
    server.pause = 0
    download(wanted(server, tmp_path))
    assert ranges(server)[-1] == f"bytes={came}-"
    assert (tmp_path / "weights" / "weights.pth").read_bytes() == CONTENT


def test_two_processes_fetch_it_once(server: Server, tmp_path: Path) -> None:
    server.pause = 0.1  # so that both want it while it comes
    processes = [subprocess.Popen(command(wanted(server, tmp_path)), env=environment()) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert (tmp_path / "weights" / "weights.pth").read_bytes() == CONTENT
    assert ranges(server) == [None]


def test_who_waits_says_so(server: Server, tmp_path: Path) -> None:
    told: list[str] = []
    file = wanted(server, tmp_path)
    file.target.parent.mkdir()
    server.pause = 0.05
    first = threading.Thread(target=download, args=(file,))
    first.start()
    while not server.asked:
        time.sleep(0.01)
    download(file, on_progress=lambda what, done, total: told.append(what))
    first.join()
    assert told == ["waiting for another process that fetches tiny"] * 2


@pytest.mark.parametrize("resumed", [False, True])
def test_wrong_bytes_are_not_kept(server: Server, tmp_path: Path, resumed: bool) -> None:
    server.content = b"<html>log in first</html>" * 1000
    file = wanted(server, tmp_path)
    file.target.parent.mkdir()
    if resumed:
        file.part.write_bytes(CONTENT[:1000])
    with pytest.raises(ValueError, match=rf"sent is not tiny \(.*sha256 [0-9a-f]{{16}}\.\.\. instead of {DIGEST[:16]}.*nothing was kept"):
        download(file)
    assert left(tmp_path) == []


def test_a_part_of_another_file_is_thrown_away(server: Server, tmp_path: Path) -> None:
    file = wanted(server, tmp_path)
    file.target.parent.mkdir()
    for part in (b"x" * 1000, b"x" * 2 * len(CONTENT)):
        file.target.unlink(missing_ok=True)
        file.part.write_bytes(part)
        download(file)
        assert file.target.read_bytes() == CONTENT
    assert ranges(server) == ["bytes=1000-", None, f"bytes={2 * len(CONTENT)}-", None]


def test_a_damaged_file_is_fetched_again(server: Server, tmp_path: Path) -> None:
    file = wanted(server, tmp_path)
    file.target.parent.mkdir()
    file.target.write_bytes(b"damaged")
    download(file)
    assert file.target.read_bytes() == CONTENT


def test_redirected(server: Server, tmp_path: Path) -> None:
    server.breaks_after = [300_000]
    download(wanted(server, tmp_path, address=server.address.replace("weights.pth", "moved.pth")))
    assert (tmp_path / "weights" / "weights.pth").read_bytes() == CONTENT
    assert server.asked == [
        ("/moved.pth", None),
        ("/weights.pth", None),
        ("/moved.pth", "bytes=300000-"),
        ("/weights.pth", "bytes=300000-"),
    ]


def test_refusals_are_told(server: Server, tmp_path: Path) -> None:
    server.statuses = [404]
    with pytest.raises(
        ValueError, match=r"tiny cannot be fetched: http://.*/weights\.pth answers 404 \(Not Found\): the file is not to be"
    ):
        download(wanted(server, tmp_path))
    assert len(server.asked) == 1, "asked again for what is not there"
    server.statuses = [407]
    with pytest.raises(ValueError, match=r"answers 407 .*the proxy wants a name and a password"):
        download(wanted(server, tmp_path))
    server.statuses = [503, 503]
    download(wanted(server, tmp_path))
    server.statuses = [503] * 3
    with pytest.raises(ValueError, match=r"answers 503 \(Service Unavailable\)"):
        download(wanted(server, tmp_path / "other"))


def test_a_signed_address_and_a_proxy_are_told_without_their_secrets(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "hunter2secret"
    signed = replace(wanted(server, tmp_path), address=f"{server.address}?X-Amz-Signature={secret}&token={secret}")
    server.statuses = [404]
    server.content = b"other"
    for proxy in (None, None, f"http://user:{secret}@127.0.0.1:1", f"http://user:{secret}:{secret}"):
        if proxy is not None:
            monkeypatch.setattr(downloads, "PAUSES", ())
            monkeypatch.setenv("http_proxy", proxy)
        with pytest.raises(ValueError, match="tiny") as fault:
            download(signed)
        assert secret not in "".join(traceback.format_exception(fault.value))
        assert "127.0.0.1" in str(fault.value)


def test_a_link_planted_for_what_came_so_far_is_not_followed(server: Server, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    file = wanted(server, tmp_path / "cache")
    file.part.parent.mkdir(parents=True)
    file.part.symlink_to(victim)
    download(file)
    assert file.target.read_bytes() == CONTENT
    assert not file.target.is_symlink()
    assert victim.read_text() == "kept"


def test_no_connection(server: Server, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}/weights.pth"
    with pytest.raises(ValueError, match=r"cannot be reached \(.*refused.*\); perhaps there is no connection.*HTTPS_PROXY.*and put at"):
        download(wanted(server, tmp_path, address=address))
    assert left(tmp_path) == []


def test_the_proxy_of_the_environment_is_asked(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.server_port}")
    download(wanted(server, tmp_path, address="http://weights.example/weights.pth"))
    assert server.asked == [("http://weights.example/weights.pth", None)]
    assert (tmp_path / "weights" / "weights.pth").read_bytes() == CONTENT


def test_full_disk(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(2000, 1000, 1000))
    message = r"No space left.*tiny cannot be kept here, nothing of it.*free some space.*or set LIKEWISE_CACHE"
    with pytest.raises(OSError, match=message) as caught:
        download(wanted(server, tmp_path))
    assert caught.value.errno == errno.ENOSPC
    monkeypatch.undo()
    real = os.fsync

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left.*MiB of it came so far"):
        download(wanted(server, tmp_path))
    monkeypatch.setattr(os, "fsync", real)
    download(wanted(server, tmp_path))
    assert (tmp_path / "weights" / "weights.pth").read_bytes() == CONTENT


def test_a_folder_that_cannot_be_made(server: Server, tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("a file")
    with pytest.raises(OSError, match=r"tiny cannot be kept here.*set LIKEWISE_CACHE to another folder"):
        download(wanted(server, tmp_path))


def command(file: Download) -> list[str]:
    arguments = ", ".join(map(repr, (file.name, file.address, str(file.target), file.sha256)))
    lines = (
        "from pathlib import Path",
        "from likewise.downloads import Download, download",
        f"name, address, target, digest = {arguments}",
        "download(Download(name, address, Path(target), digest))",
    )
    return [sys.executable, "-c", "\n".join(lines)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(likewise.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
