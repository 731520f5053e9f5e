"""A real server in a process of its own: what it prints, 200 clients at once, slow and large bodies, tokens, its end; and its commands."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from likewise.cli import app
from likewise.search.feedback import Feedback, MarkedImage
from likewise.terminal.commands import serve_command

from .made_index import MadeIndex, as_bytes, made_image
from .running import Running

if TYPE_CHECKING:
    import httpx

CLIENTS = 200

Start = Callable[..., Running]


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    running: list[Running] = []

    def started(*options: str, **environment: str) -> Running:
        running.append(Running(*options, **environment))
        return running[-1]

    yield started
    for server in running:
        if server.process.poll() is None:
            server.process.kill()
            server.process.communicate()


@pytest.fixture(scope="module")
def server(start: Start, made: MadeIndex) -> Running:
    """With a small queue."""
    return start(str(made.folder), "--threads", "1", "--queue", "8", "--rate", "0", "--seconds", "20", "--upload", "1")


def raw(port: int, *parts: bytes, pause: float = 0.0) -> bytes:
    """What is answered to these bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        for part in parts:
            connection.sendall(part)
            time.sleep(pause)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
            if b"error" in answer:
                break
        return answer


def test_it_serves_the_page_and_answers(server: Running) -> None:
    assert "24 images at http://127.0.0.1:" in server.printed
    page = server.get("/", headers={"accept": "text/html"})
    assert page.status_code == 200
    assert "search.js" in page.text
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "server" not in page.headers
    assert server.get("/api/health").json() == {"status": "ok", "num_items": 24}
    assert server.get("/api/health", headers={"host": "evil.example"}).status_code == 403


def test_200_clients_at_once_each_get_an_answer(server: Running) -> None:
    """Neighbours, or the advice to come back; nobody is left hanging, and afterwards all is as before."""
    import httpx

    picture = as_bytes(made_image(1, 70, (640, 480)))

    async def ask(client: httpx.AsyncClient) -> httpx.Response:
        return await client.post(f"{server.address}/api/search?k=3", files={"image": ("a.png", picture)})

    async def everybody() -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=CLIENTS)
        async with httpx.AsyncClient(timeout=60, limits=limits) as client:
            return list(await asyncio.gather(*(ask(client) for _ in range(CLIENTS))))

    answers = asyncio.run(everybody())
    assert {answer.status_code for answer in answers} <= {200, 503}
    served = [answer for answer in answers if answer.status_code == 200]
    refused = [answer for answer in answers if answer.status_code == 503]
    assert served
    assert refused  # or the queue had no end
    assert all(len(answer.json()["neighbours"]) == 3 for answer in served)
    assert all(int(answer.headers["retry-after"]) >= 1 and "try again in" in answer.json()["error"] for answer in refused)
    assert asyncio.run(one(server)).status_code == 200


async def one(server: Running) -> httpx.Response:
    import httpx

    async with httpx.AsyncClient(timeout=60) as client:
        return await client.post(f"{server.address}/api/search?id=1")


def test_a_body_too_large_is_refused_before_it_is_read(server: Running) -> None:
    head = b"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"
    announced = raw(server.port, head + b"Content-Length: 10000000000\r\n\r\n--x\r\n")
    assert announced.startswith(b"HTTP/1.1 413")
    assert b"larger than 1 MB" in announced
    asked_first = raw(server.port, head + b"Content-Length: 10000000000\r\nExpect: 100-continue\r\n\r\n")
    assert asked_first.startswith(b"HTTP/1.1 413")
    start = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
    chunk = b"10000\r\n" + bytes(0x10000) + b"\r\n"
    body = b"%x\r\n%s\r\n" % (len(start), start) + chunk * 40 + b"0\r\n\r\n"
    unannounced = raw(server.port, head + b"Transfer-Encoding: chunked\r\n\r\n" + body)
    assert unannounced.startswith(b"HTTP/1.1 413")


def test_a_client_that_goes_away_in_the_middle_does_no_harm(server: Running) -> None:
    head = (
        b"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 5000\r\n\r\n--x"
    )
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
            connection.sendall(head)
    assert server.get("/api/health").status_code == 200


def test_what_is_no_http_does_no_harm(server: Running) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 400")
    assert server.get("/api/health").status_code == 200


def test_another_host_needs_a_token(start: Start, made: MadeIndex) -> None:
    """Made and printed where none is given. A slow upload is told that it is too slow. Ctrl-C ends it in good order."""
    server = start(str(made.folder), "--host", "0.0.0.0", "--seconds", "1")
    assert len(server.token) >= 20
    assert "not encrypted" in server.printed
    refused = server.get("/api/health")
    assert (refused.status_code, "a token is needed" in refused.json()["error"]) == (401, True)
    assert "the token is wrong" in server.get("/api/health", headers={"authorization": "Bearer no"}).json()["error"]
    assert server.get("/api/health", headers={"authorization": f"Bearer {server.token}"}).status_code == 200
    entry = server.get(f"/?token={server.token}")
    assert entry.status_code == 303
    assert server.get("/", headers={"cookie": entry.headers["set-cookie"].partition(";")[0]}).status_code == 200
    head = f"POST /api/search HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {server.token}\r\nContent-Length: 500\r\n"
    slow = raw(server.port, f"{head}Content-Type: multipart/form-data; boundary=x\r\n\r\n".encode())
    assert slow.startswith(b"HTTP/1.1 408")
    assert b"did not come in within 1 s" in slow
    assert raw(server.port, b"GET /api/health HTTP/1.1\r\nHost: a\r\nX-Slow: ") == b""  # closed, as the rest did not come
    assert server.end(signal.SIGINT) == (0, "stopped\n")


def test_a_token_of_the_environment_is_not_printed(start: Start, made: MadeIndex) -> None:
    """SIGTERM, too, ends it in good order."""
    server = start(str(made.folder), LIKEWISE_TOKEN="kept-in-the-environment")
    assert "kept-in-the-environment" not in server.printed
    assert server.get("/api/health").status_code == 401
    assert server.get("/api/health", headers={"authorization": "Bearer kept-in-the-environment"}).status_code == 200
    assert server.end(signal.SIGTERM) == (0, "stopped\n")


def test_faults_of_the_command_are_told(made: MadeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(*options: str) -> str:
        result = CliRunner().invoke(app, ["serve", *options])
        assert result.exit_code == 2, result.output
        return result.stderr

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"127.0.0.1 port {port} cannot be listened on" in told(str(made.folder), "--port", port)
    assert "is not there: expected an index" in told(str(tmp_path / "none"), "--port", "0")
    assert "expected at least 12" in told(str(made.folder), "--token", "abc")
    assert "upload_bytes is 0" in told(str(made.folder), "--upload", "0")
    monkeypatch.setattr(serve_command, "find_spec", lambda name: None)
    assert 'pip install "likewise[serve]"' in told(str(made.folder))


def test_feedback_is_exported(changed: MadeIndex) -> None:
    feedback = Feedback(changed.folder)
    kept = feedback.keep_picture(as_bytes(made_image(0, 9)))
    for number, is_same in ((0, True), (7, False), (8, None)):
        feedback.mark(kept, MarkedImage(str(changed.paths[number]), "digest"), is_same, 0.5)
    runner = CliRunner()
    shown = runner.invoke(app, ["index", "feedback", str(changed.folder)])
    assert (shown.exit_code, shown.stdout) == (0, "2 pairs: 1 right, 1 wrong\n")
    out = changed.folder.parent / "pairs.csv"
    assert runner.invoke(app, ["index", "feedback", str(changed.folder), "-o", str(out)]).exit_code == 0
    assert out.read_text().splitlines()[1].split(",")[:3] == [kept.path, str(changed.paths[0]), "1"]
    classes = runner.invoke(app, ["index", "feedback", str(changed.folder), "--classes", "-o", str(out)])
    assert "3 images of 2 classes" in classes.stdout
    assert out.read_text().splitlines() == ["path,label", f"{kept.path},crimson", f"{changed.paths[0]},crimson", f"{changed.paths[7]},jade"]
    wrong = runner.invoke(app, ["index", "feedback", str(changed.folder), "-o", "pairs.txt"])
    assert (wrong.exit_code, "ends in .csv" in wrong.stderr) == (2, True)
