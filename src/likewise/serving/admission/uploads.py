"""Uploads: the form of a request, taken in only as far as the limits go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, BinaryIO

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from likewise.serving.admission.client_limits import ClientLimits
from likewise.serving.admission.refusals import Refusal

LINGER = 1.0  # seconds for which a body that is refused is still read and dropped, so that the client gets to read why
OVERHEAD = 10_000  # bytes of a form around its file


@asynccontextmanager
async def uploaded(request: Request, limits: ClientLimits) -> AsyncIterator[BinaryIO | None]:
    """The file `image` of a form, on the disk where it is large; None where the request has no body. A Refusal for anything else."""
    length = request.headers.get("content-length", "")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not kind and length in ("", "0"):
        yield None
        return
    if kind != "multipart/form-data":
        given = f"content type {kind}" if kind else "a body without a content type"
        raise Refusal(415, f"{given}: expected a form (multipart/form-data) with the picture in the field 'image'")
    if length.isdigit() and int(length) > limits.upload_bytes + OVERHEAD:
        if "expect" not in request.headers:  # a client that asks first has not sent anything yet
            await _drop(request)
        raise _too_large(limits)
    form = await _form(request, limits)
    try:
        image = form.get("image")
        if not isinstance(image, UploadFile):
            fields = ", ".join(map(repr, form)) or "nothing"
            raise Refusal(422, f"the form has no file 'image', it has {fields}: send the picture as 'image'")
        yield image.file
    finally:
        await form.close()


async def _form(request: Request, limits: ClientLimits) -> FormData:
    """Parsed as it comes in, whatever length was announced."""
    taken, until = 0, time.monotonic() + limits.seconds
    refusals: list[Refusal] = []

    async def receive() -> MutableMapping[str, Any]:
        nonlocal taken
        try:
            message = await asyncio.wait_for(request.receive(), until - time.monotonic())
        except TimeoutError:
            refusals.append(Refusal(408, f"the picture did not come in within {limits.seconds:g} s: send a smaller one"))
            raise MultiPartException("") from None  # the parser closes its files on this one
        taken += len(message.get("body", b""))
        if taken > limits.upload_bytes + OVERHEAD:
            await _drop(request)
            refusals.append(_too_large(limits))
        elif message["type"] == "http.disconnect":
            refusals.append(Refusal(400, "the connection ended in the middle of the picture: send it again"))
        if refusals:
            raise MultiPartException("")
        return message

    try:
        return await Request(request.scope, receive).form(max_files=1, max_fields=20, max_part_size=OVERHEAD)
    except HTTPException as fault:
        raise (refusals[0] if refusals else Refusal(400, f"the form cannot be read: {fault.detail}")) from fault


async def _drop(request: Request) -> None:
    """What still comes in, for a while."""
    until = time.monotonic() + LINGER
    try:
        while (left := until - time.monotonic()) > 0:
            message = await asyncio.wait_for(request.receive(), left)
            if message["type"] == "http.disconnect" or not message.get("more_body", False):
                return
    except TimeoutError:
        return


def _too_large(limits: ClientLimits) -> Refusal:
    return Refusal(413, f"the picture is larger than {limits.upload_bytes / 1e6:g} MB: send a smaller one")
