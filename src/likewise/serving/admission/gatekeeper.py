"""Gatekeeper: what every request passes before the application sees it, and the headers that every answer bears."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from likewise.serving.admission.access import Access, check_origin
from likewise.serving.admission.client_limits import ClientLimits, ClientRates
from likewise.serving.admission.refusals import Headers, Refusal, wants_page

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS: Headers = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]
COSTLY = ("/api/search", "/api/explain", "/api/marks")


class Gatekeeper:
    """An ASGI application around another. Any site's page, any program on the network may knock: host, rate, token and origin are looked at
    in this order, before a byte of the body is read.
    """

    def __init__(self, application: Application, access: Access, limits: ClientLimits) -> None:
        self.application, self.access, self.limits = application, access, limits
        self.rates = ClientRates(limits)
        self.num_at_once = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.application(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # nothing else is spoken here
        answer = _with_headers(send)
        self.num_at_once += 1
        try:
            self.admit(scope)
            if link := self.entry(scope):
                await _respond(answer, 303, link, b"")
            else:
                await self.application(scope, receive, answer)
        except Refusal as refusal:
            headers, body = refusal.body(as_page=wants_page(scope["path"], scope["headers"]))
            await _respond(answer, refusal.status, headers, body)
        finally:
            self.num_at_once -= 1

    def admit(self, scope: Scope) -> None:
        """A Refusal, or nothing."""
        if self.num_at_once > self.limits.at_once:
            raise Refusal(503, f"{self.limits.at_once} requests are being answered: try again in a moment", retry_after=1)
        headers = _headers_of(scope)
        self.access.check_host(headers.get("host", ""))
        client = scope.get("client")
        self.rates.take(client[0] if client else "", is_costly=scope["path"].startswith(COSTLY))
        shown = _shown_token(scope)
        if shown is None:
            self.access.check_token(headers)
        else:
            self.access.check_shown(shown)
        check_origin(scope["method"], headers)

    def entry(self, scope: Scope) -> Headers:
        """Where the address has the right ?token=: a cookie instead, and the same address without it, so that it is in no history."""
        if self.access.token is None or _shown_token(scope) is None:
            return []
        rest = [(name, value) for name, value in _query(scope) if name != "token"]
        place = quote(scope["path"].rpartition("/")[2])  # relative: a proxy may have put the service under another path
        cookie = f"{self.access.cookie_name}={self.access.cookie()}; Path=/; HttpOnly; SameSite=Lax; Max-Age=2592000"
        secure = "; Secure" if scope.get("scheme") == "https" else ""
        return [
            (b"location", f"./{place}{'?' if rest else ''}{urlencode(rest)}".encode()),
            (b"set-cookie", f"{cookie}{secure}".encode()),
            (b"cache-control", b"no-store"),
        ]


def _shown_token(scope: Scope) -> str | None:
    """What the address has behind ?token=."""
    return next((value for name, value in _query(scope) if name == "token"), None) if scope["method"] == "GET" else None


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)


def _headers_of(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _with_headers(send: Send) -> Send:
    async def answer(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            given = {name for name, _ in message["headers"]}
            message["headers"] = [*message["headers"], *(pair for pair in SECURITY_HEADERS if pair[0] not in given)]
        await send(message)

    return answer


async def _respond(send: Send, status: int, headers: Headers, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})
