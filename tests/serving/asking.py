"""Asking an ASGI application as a client would, without a network."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from likewise.serving.admission.gatekeeper import Application

from ..optional import needs_package

if TYPE_CHECKING:
    import httpx


class Asker:
    """One client, with its cookies."""

    def __init__(self, application: Application, address: str = "http://localhost:8000", **headers: str) -> None:
        needs_package("httpx")
        import httpx

        self.transport = httpx.ASGITransport(application, raise_app_exceptions=False)  # type: ignore[arg-type]
        self.address, self.headers, self.cookies = address, headers, httpx.Cookies()

    async def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        import httpx

        async with httpx.AsyncClient(transport=self.transport, base_url=self.address, headers=self.headers, cookies=self.cookies) as client:
            answer = await client.request(method, path, **options)
            self.cookies = client.cookies
            return answer

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return asyncio.run(self.send(method, path, **options))

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)
