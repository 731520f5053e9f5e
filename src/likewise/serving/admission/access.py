"""Access: who may ask at all. By default only this machine; from others whoever has the token."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from likewise.serving.admission.refusals import Refusal

LEAST_LETTERS = 12  # of a token
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Access:
    """The token that clients must show, or None: then only those who call the server by a name of this machine.

    Without that, a page of any site could have its own name point here ("DNS rebinding") and read the index through a visitor's browser.
    """

    token: str | None = field(default=None, repr=False)
    port: int = 0  # part of the cookie's name, as browsers share cookies between ports

    def __post_init__(self) -> None:
        if self.token is not None and not re.fullmatch(rf"[A-Za-z0-9._~-]{{{LEAST_LETTERS},}}", self.token):
            raise ValueError(
                f"the token has {len(self.token)} characters, perhaps odd ones: "
                f"expected at least {LEAST_LETTERS} of A-Z a-z 0-9 . _ ~ -, such as {new_token()}"
            )

    @property
    def cookie_name(self) -> str:
        return f"likewise-{self.port}"

    def cookie(self) -> str:
        """What the cookie holds: enough to be let in, not the token itself."""
        return hashlib.sha256(f"cookie of {self.token}".encode()).hexdigest()

    def check_host(self, host: str) -> None:
        """A Refusal for a Host header that is no name of this machine, where there is no token."""
        if self.token is None and host_name(host) not in LOCAL_NAMES:
            raise Refusal(403, f"this server answers on localhost only, not as {host or 'a host without a name'}: start it with a token")

    def check_token(self, headers: Mapping[str, str]) -> None:
        """A Refusal where neither the Authorization header nor the cookie shows the token."""
        if self.token is None:
            return
        kind, _, shown = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            self.check_shown(shown.strip())
        elif not _is_equal(_cookie_of(headers.get("cookie", ""), self.cookie_name), self.cookie()):
            way = "open the link with ?token= that the server printed, or send the header 'Authorization: Bearer TOKEN'"
            raise Refusal(401, f"a token is needed: {way}")

    def check_shown(self, token: str) -> None:
        """A Refusal where there is a token and this is another."""
        if self.token is not None and not _is_equal(token, self.token):
            raise Refusal(401, "the token is wrong: use the one that the server was started with, or that it printed then")


def check_origin(method: str, headers: Mapping[str, str]) -> None:
    """A Refusal for what a page of another site makes a browser ask ("CSRF"); opening an address is allowed."""
    is_reading = method in ("GET", "HEAD")
    site = headers.get("sec-fetch-site")
    if site in ("cross-site", "same-site") and not (is_reading and headers.get("sec-fetch-mode") == "navigate"):
        raise Refusal(403, "asked for by a page of another site: open this server's own page")
    origin = headers.get("origin")
    if origin is not None and not is_reading and urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
        raise Refusal(403, f"asked for by a page of {origin}: open this server's own page")


def host_name(host: str) -> str:
    """Of a Host header, without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def is_local(host: str) -> bool:
    """Whether a server bound to this address can be reached from this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def new_token() -> str:
    return secrets.token_urlsafe(24)


def _is_equal(shown: str, expected: str) -> bool:
    """In a time that does not tell how much of it was right."""
    return hmac.compare_digest(shown.encode("utf-8", "surrogateescape"), expected.encode())


def _cookie_of(header: str, name: str) -> str:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""
