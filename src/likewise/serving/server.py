"""The server: a socket, uvicorn, and an end in good order."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import FrameType
from typing import Any

import uvicorn

from likewise.serving.admission.gatekeeper import Application

ENDING = 10  # seconds for requests that are being answered when the server is stopped
IDLE = 15  # seconds after which a connection without a request is closed
MOST_CONNECTIONS = 1000
WAITING = 512  # connections that the system holds until they are taken


class Stopped(BaseException):
    """Ctrl-C or SIGTERM, after uvicorn has ended in good order and passes them on."""


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; a ValueError where the address cannot be had."""
    try:
        # asyncio sends small packets at once (TCP_NODELAY) only where the socket's protocol says TCP; else an answer waits 40 ms
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)[0]
        listener = socket.socket(family, kind, protocol)
        try:
            if os.name == "posix":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(WAITING)
        except OSError:
            listener.close()
            raise
        return listener
    except (OSError, OverflowError) as fault:
        reason = getattr(fault, "strerror", None) or fault
        raise ValueError(f"{host} port {port} cannot be listened on ({reason}): give another --port, or --port 0 for any") from fault


def address_of(listener: socket.socket, host: str) -> str:
    """As a browser takes it."""
    name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    return f"http://{f'[{name}]' if ':' in name else name}:{listener.getsockname()[1]}"


def serve_forever(
    application: Application, listener: socket.socket, *, seconds: float, behind_proxy: bool, on_started: Callable[[], None]
) -> None:
    """Until Ctrl-C or SIGTERM. Requests that are being answered are finished, others are not begun.

    seconds: how long a client may take to say what it asks for.
    """
    config = uvicorn.Config(
        application,
        log_level="warning",
        access_log=False,  # addresses may hold the token
        server_header=False,
        proxy_headers=behind_proxy,
        timeout_keep_alive=min(IDLE, max(1, int(seconds))),
        timeout_graceful_shutdown=ENDING,
        limit_concurrency=MOST_CONNECTIONS,
        http="h11",  # whose connections are looked into below
        ws="none",
        lifespan="on",
    )
    server = _Server(config, seconds, on_started)
    before = {number: signal.signal(number, _stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with suppress(Stopped):
            server.run(sockets=[listener])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        listener.close()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, seconds: float, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self.seconds, self.on_started = seconds, on_started
        self._since: dict[Any, float] = {}  # when a connection was first seen to wait for a request

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.on_started()

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:  # once a second
            self._close_silent()
        return await super().on_tick(counter)

    def _close_silent(self) -> None:
        """Connections whose client has not got through its request's head: uvicorn would wait for ever."""
        now = time.monotonic()
        connections: Iterable[Any] = self.server_state.connections
        silent = [one for one in connections if one.cycle is None or one.cycle.response_complete]
        self._since = {one: self._since.get(one, now) for one in silent}
        for one, since in self._since.items():
            if now - since > self.seconds:
                one.transport.close()


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped
