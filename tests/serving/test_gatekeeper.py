"""The gate alone: hosts, tokens, origins, rates, how many at once, and the headers of every answer."""

import asyncio
import time
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import urljoin

import pytest

from likewise.serving.admission.access import Access, host_name, is_local, new_token
from likewise.serving.admission.client_limits import ClientLimits, ClientRates
from likewise.serving.admission.gatekeeper import Gatekeeper, Receive, Scope, Send
from likewise.serving.admission.refusals import Refusal
from likewise.serving.admission.work_queue import WorkQueue

from .asking import Asker

TOKEN = "a-token-of-many-letters"


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": scope["path"].encode()})


def client(token: str | None = None, host: str = "localhost:8000", limits: ClientLimits | None = None) -> Asker:
    return Asker(Gatekeeper(echo, Access(token, port=8000), limits or ClientLimits()), f"http://{host}")


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:9", "[::1]:8000", "LOCALHOST."])
def test_names_of_this_machine_are_answered(host: str) -> None:
    assert client().get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example", "", "[::1", "192.168.0.7"]
)
def test_other_names_are_refused_as_a_page_may_have_them_point_here(host: str) -> None:
    answer = client().get("/api/health", headers={"host": host})
    assert answer.status_code == 403
    assert "localhost only" in answer.json()["error"]


def test_with_a_token_any_name_will_do() -> None:
    assert client(TOKEN, "search.example").get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({}, "a token is needed"),
        ({"authorization": "Bearer wrong"}, "the token is wrong"),
        ({"authorization": f"Bearer {TOKEN}x"}, "the token is wrong"),
        ({"authorization": "Bearer"}, "the token is wrong"),
        ({"authorization": f"Basic {TOKEN}"}, "a token is needed"),
        ({"cookie": f"likewise-8000={TOKEN}"}, "a token is needed"),
        ({"cookie": "likewise-8000=\xff\xfe; ;;="}, "a token is needed"),
        ({"authorization": "Bearer \xff\xfe"}, "the token is wrong"),
    ],
)
def test_a_wrong_token_is_refused_in_words(headers: dict[str, str], words: str) -> None:
    raw = {name: value.encode("latin-1") for name, value in headers.items()}
    answer = client(TOKEN, "search.example").get("/api/search", headers=raw)
    assert answer.status_code == 401
    assert words in answer.json()["error"]
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_person_is_refused_on_a_page() -> None:
    answer = client(TOKEN).get("/", headers={"accept": "text/html"})
    assert answer.status_code == 401
    assert answer.headers["content-type"].startswith("text/html")
    assert "open the link" in answer.text


def test_the_link_becomes_a_cookie_and_leaves_the_address() -> None:
    visitor = client(TOKEN, "search.example:8000")
    entry = visitor.get(f"/?id=3&token={TOKEN}&where=a%3Db")
    assert entry.status_code == 303
    assert entry.headers["location"] == "./?id=3&where=a%3Db"
    cookie = entry.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert TOKEN not in cookie
    assert entry.headers["cache-control"] == "no-store"
    assert visitor.get("/").status_code == 200  # with the cookie
    assert visitor.get("/docs", params={"token": "another-wrong-token"}).status_code == 401
    assert visitor.post(f"/api/marks?token={TOKEN}", headers={"cookie": ""}).status_code == 401  # what changes something needs the header


def test_the_link_leads_nowhere_else() -> None:
    for path in ("//evil.example", "/a/https:evil.example", "/%2F%2Fevil.example"):
        answer = client(TOKEN).get(f"{path}?token={TOKEN}")
        assert answer.headers["location"].startswith("./")
        assert urljoin("http://localhost:8000/x", answer.headers["location"]).startswith("http://localhost:8000/")


@pytest.mark.parametrize("token", ["short", "twelve letters and spaces", "ümlauts-are-not-in-headers", ""])
def test_weak_tokens_are_refused(token: str) -> None:
    with pytest.raises(ValueError, match="expected at least 12"):
        Access(token)


def test_new_tokens_are_taken_and_differ() -> None:
    tokens = {new_token() for _ in range(20)}
    assert len(tokens) == 20
    assert all(Access(token).token == token for token in tokens)


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("POST", {}, 200),  # curl
        ("POST", {"origin": "http://localhost:8000", "sec-fetch-site": "same-origin"}, 200),
        ("POST", {"origin": "http://localhost:3000", "sec-fetch-site": "same-site"}, 403),
        ("POST", {"origin": "http://localhost:3000"}, 403),
        ("POST", {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}, 403),
        ("POST", {"origin": "null"}, 403),
        ("POST", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 403),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 200),
        ("GET", {"sec-fetch-site": "none", "sec-fetch-mode": "navigate"}, 200),
    ],
)
def test_pages_of_other_sites_may_not_ask(method: str, headers: dict[str, str], status: int) -> None:
    assert client().request(method, "/api/search", headers=headers).status_code == status


def test_every_answer_bears_the_headers() -> None:
    for answer in (
        client().get("/"),
        client().get("/", headers={"host": "evil.example"}),
        client(TOKEN).get("/"),
        client(TOKEN).get(f"/?token={TOKEN}"),
    ):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "frame-ancestors 'none'" in policy
        assert "server" not in answer.headers


def test_only_so_many_at_once() -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        started.set()
        await go_on.wait()
        await echo(scope, receive, send)

    async def both() -> list[Any]:
        asker = Asker(Gatekeeper(slow, Access(), ClientLimits(at_once=1)))
        first = asyncio.create_task(asker.send("GET", "/"))
        await started.wait()
        second = await asker.send("GET", "/")
        go_on.set()
        return [await first, second, await asker.send("GET", "/")]

    first, second, third = asyncio.run(both())
    assert (first.status_code, second.status_code, third.status_code) == (200, 503, 200)
    assert second.headers["retry-after"] == "1"
    assert "try again" in second.json()["error"]


def test_rates_are_a_client_s_own() -> None:
    now = 0.0
    rates = ClientRates(ClientLimits(rate=60, burst=3), clock=lambda: now)
    for _ in range(3):
        rates.take("a", is_costly=True)
    with pytest.raises(Refusal, match="wait 1 s") as refusal:
        rates.take("a", is_costly=True)
    assert refusal.value.status == 429
    assert refusal.value.retry_after == pytest.approx(1.0)
    rates.take("b", is_costly=True)
    now = 1.0
    rates.take("a", is_costly=True)
    with pytest.raises(Refusal):
        rates.take("a", is_costly=True)
    now = 1000.0
    for _ in range(60):
        rates.take("a", is_costly=False)
    with pytest.raises(Refusal):
        rates.take("a", is_costly=False)


def test_no_rate_is_no_limit() -> None:
    rates = ClientRates(ClientLimits(rate=0))
    for _ in range(10_000):
        rates.take("a", is_costly=True)


def test_too_many_requests_are_told_when_to_come_again() -> None:
    visitor = client(limits=ClientLimits(rate=60, burst=2))
    assert [visitor.post("/api/search").status_code for _ in range(3)] == [200, 200, 429]
    assert int(visitor.post("/api/search").headers["retry-after"]) >= 1


@pytest.mark.parametrize("setting", [{"upload_bytes": 0}, {"threads": 0}, {"rate": -1}, {"seconds": 0}])
def test_limits_that_are_none_are_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        ClientLimits(**setting)


def test_the_queue_has_an_end_and_places_are_free_again() -> None:
    async def ask() -> list[object]:
        queue = WorkQueue(threads=1, queue=1, seconds=5)
        try:
            tasks = [asyncio.create_task(queue.run(time.sleep, 0.05)) for _ in range(4)]
            outcomes: list[object] = list(await asyncio.gather(*tasks, return_exceptions=True))
            await asyncio.sleep(0.02)
            return [*outcomes, queue.num_taken, await queue.run(lambda: "done")]
        finally:
            queue.close()

    first, second, third, fourth, taken, later = asyncio.run(ask())
    assert (first, second, taken, later) == (None, None, 0, "done")
    for refused in (third, fourth):
        assert isinstance(refused, Refusal)
        assert refused.status == 503
        assert refused.retry_after is not None


def test_nobody_waits_longer_than_the_limit_and_the_thread_is_not_lost() -> None:
    async def ask() -> tuple[Refusal, int, int]:
        queue = WorkQueue(threads=1, queue=4, seconds=0.05)
        try:
            with pytest.raises(Refusal, match=r"not done within 0\.05 s") as refusal:
                await queue.run(time.sleep, 0.2)
            meanwhile = queue.num_taken
            await asyncio.sleep(0.3)
            return refusal.value, meanwhile, queue.num_taken
        finally:
            queue.close()

    refusal, meanwhile, after = asyncio.run(ask())
    assert refusal.status == 503
    assert (meanwhile, after) == (1, 0)


def test_faults_of_the_work_come_through() -> None:
    async def ask() -> None:
        queue = WorkQueue(threads=1, queue=1, seconds=5)
        try:
            await queue.run(int, "x")
        finally:
            queue.close()

    with pytest.raises(ValueError, match="invalid literal"):
        asyncio.run(ask())


def test_a_token_is_shown_by_nothing_that_is_printed() -> None:
    assert TOKEN not in repr(Access(TOKEN, port=1)) + str(Access(TOKEN))


def test_what_is_local() -> None:
    assert all(map(is_local, ("127.0.0.1", "localhost", "::1", "[::1]", "127.9.9.9")))
    assert not any(map(is_local, ("0.0.0.0", "::", "192.168.1.2", "example.org", "")))
    assert host_name("EXAMPLE.org:80") == "example.org"


def test_what_is_no_request_is_left_alone() -> None:
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "websocket.connect"}

    asyncio.run(Gatekeeper(echo, Access(), ClientLimits())({"type": "websocket", "path": "/", "headers": []}, receive, send))
    assert sent == []
