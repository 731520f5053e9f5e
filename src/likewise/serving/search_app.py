"""The application: which address asks the service what, and what is told when that goes wrong."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

import likewise
from likewise.comparison.running.database import DatabaseFault
from likewise.serving.admission.access import Access
from likewise.serving.admission.gatekeeper import Gatekeeper
from likewise.serving.admission.refusals import Refusal, wants_page
from likewise.serving.admission.uploads import uploaded
from likewise.serving.admission.work_queue import WorkQueue
from likewise.serving.answers import (
    ColumnsAnswer,
    ErrorAnswer,
    ExplainAnswer,
    HealthAnswer,
    IndexAnswer,
    ItemAnswer,
    ItemsAnswer,
    MarkAnswer,
    MarkRequest,
    MarksAnswer,
    SearchAnswer,
)
from likewise.serving.api_page import api_page
from likewise.serving.browsing import Browsing
from likewise.serving.search_service import SearchService

ASSETS = ("search.html", "search.css", "search.js", "search_why.js", "search_input.js")
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
SEARCH_BODY = {
    "requestBody": {
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {"image": {"type": "string", "format": "binary", "description": "The picture; not with id or picture."}},
                }
            }
        }
    }
}
NOT_TEXT = "the body is not JSON, as its bytes are no text in UTF-8: see /docs for what it may be"
log = logging.getLogger("likewise.serving")

Id = Annotated[int, Path(description="Of an image of the index.", ge=0)]
Size = Annotated[Literal["thumb", "full"], Query(description="At most 320 or 1,600 pixels a side.")]
Where = Annotated[
    list[str] | None, Query(description="Conditions that must all hold, such as label=gull, year>=2010 or place~harbour.", max_length=20)
]


def make_app(service: SearchService, access: Access | None = None) -> Gatekeeper:
    """The service as an ASGI application, with its gatekeeper before it. What it holds open is closed with it."""
    access, limits = access or Access(), service.limits
    work = WorkQueue(threads=limits.threads, queue=limits.queue, seconds=limits.seconds)
    pictures = WorkQueue(threads=2, queue=8 * limits.queue, seconds=limits.seconds)  # a page asks for many of them at once

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        work.close()
        pictures.close()
        service.close()

    app = FastAPI(
        title="Likewise",
        description="Search by picture.",
        version=likewise.__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        responses={"default": {"model": ErrorAnswer}},
    )
    _add_pages(app, access)
    _add_search(app, service, work)
    _add_browsing(app, Browsing(service), work)
    _add_images(app, service, pictures)
    _add_marks(app, service, work)
    _add_faults(app)
    return Gatekeeper(app, access, limits)


def _add_pages(app: FastAPI, access: Access) -> None:
    for name in ASSETS:
        asset = _asset((files("likewise.serving") / name).read_bytes(), KINDS[name.rpartition(".")[2]])
        app.get("/" if name == "search.html" else f"/{name}", include_in_schema=False)(asset)

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> HTMLResponse:
        address = str(request.base_url).rstrip("/")
        return HTMLResponse(api_page(app.openapi(), address, needs_token=access.token is not None), headers={"cache-control": "no-cache"})


def _asset(content: bytes, kind: str) -> Callable[[], Awaitable[Response]]:
    async def asset() -> Response:
        return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

    return asset


def _add_search(app: FastAPI, service: SearchService, work: WorkQueue) -> None:
    limits = service.limits

    @app.post("/api/search", openapi_extra=SEARCH_BODY)
    async def search(
        request: Request,
        id: Annotated[int | None, Query(description="An image of the index to search with.", ge=0)] = None,
        picture: Annotated[str | None, Query(description="Or the handle of a picture that was uploaded before.", max_length=64)] = None,
        k: Annotated[int, Query(description="How many images.", ge=1, le=limits.most_results)] = 24,
        where: Where = None,
    ) -> SearchAnswer:
        """The images most like a picture, an image of the index, or a picture that was searched with before."""
        async with uploaded(request, limits) as image:
            if (image is not None) + (id is not None) + (picture is not None) != 1:
                raise Refusal(422, "what to search with: expected one of a picture (the file 'image' of a form), id and picture")
            return await work.run(service.search, image, id=id, picture=picture, k=k, where=where or ())

    @app.get("/api/explain")
    async def explain(
        id: Annotated[int, Query(description="The image that was found.", ge=0)],
        query_id: Annotated[int | None, Query(description="The image of the index that was searched with,", ge=0)] = None,
        picture: Annotated[str | None, Query(description="or the handle of the picture that was.", max_length=64)] = None,
    ) -> ExplainAnswer:
        """Where two images match: what each place adds to their similarity, and which regions match most."""
        if (query_id is None) == (picture is None):
            raise Refusal(422, "what the image is compared with: expected one of query_id and picture")
        return await work.run(service.explain, id, query_id=query_id, picture=picture)


def _add_browsing(app: FastAPI, browsing: Browsing, work: WorkQueue) -> None:
    @app.get("/api/columns")
    async def columns() -> ColumnsAnswer:
        """What `where` may ask for."""
        return await work.run(browsing.columns)

    @app.get("/api/index")
    async def index() -> IndexAnswer:
        """What is served, and within which limits."""
        return await work.run(browsing.about)

    @app.get("/api/health")
    async def health() -> HealthAnswer:
        """Whether the index answers."""
        return HealthAnswer(status="ok", num_items=await work.run(browsing.num_items))

    @app.get("/api/items")
    async def items(limit: Annotated[int, Query(description="How many at most.", ge=1, le=100)] = 12, where: Where = None) -> ItemsAnswer:
        """Some images of the index, from all over it."""
        return await work.run(browsing.some_items, limit, where or ())


def _add_images(app: FastAPI, service: SearchService, pictures: WorkQueue) -> None:
    @app.get("/api/items/{id}")
    async def item(id: Id) -> ItemAnswer:
        """What the index knows of an image."""
        return await pictures.run(service.item, id)

    @app.get("/api/images/{id}", response_class=Response, responses={200: {"content": {"image/jpeg": {}}}})
    async def image(request: Request, id: Id, size: Size = "full") -> Response:
        """An image of the index, upright, as a JPEG."""
        return await _jpeg(request, pictures, service.item_image, id, size)

    @app.get("/api/pictures/{handle}", response_class=Response, responses={200: {"content": {"image/jpeg": {}}}})
    async def picture(request: Request, handle: Annotated[str, Path(max_length=64)], size: Size = "full") -> Response:
        """A picture that was uploaded not long ago, upright, as a JPEG."""
        return await _jpeg(request, pictures, service.picture_image, handle, size)


async def _jpeg(request: Request, pictures: WorkQueue, work: Callable[..., tuple[str, bytes]], *args: Any) -> Response:
    tag, jpeg = await pictures.run(work, *args)
    headers = {"etag": f'"{tag}"', "cache-control": "private, max-age=60"}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response(jpeg, media_type="image/jpeg", headers=headers)


def _add_marks(app: FastAPI, service: SearchService, work: WorkQueue) -> None:
    @app.post("/api/marks")
    async def mark(request: MarkRequest) -> MarkAnswer:
        """Say that a result is right or wrong. The pair is kept with the index, and with it a picture that was uploaded."""
        return await work.run(service.mark, request)

    @app.get("/api/marks")
    async def marks() -> MarksAnswer:
        """All marked pairs, the oldest first."""
        return await work.run(service.marks)


def _add_faults(app: FastAPI) -> None:
    def answer(request: Request, refusal: Refusal) -> Response:
        headers, body = refusal.body(as_page=wants_page(request.url.path, request.scope["headers"]))
        return Response(body, refusal.status, {name.decode(): value.decode() for name, value in headers})

    @app.exception_handler(Refusal)
    async def refused(request: Request, fault: Refusal) -> Response:
        return answer(request, fault)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, fault: RequestValidationError) -> Response:
        return answer(request, Refusal(422, "; ".join(map(_in_words, fault.errors()))))

    @app.exception_handler(HTTPException)
    async def other(request: Request, fault: HTTPException) -> Response:
        path = request.url.path
        words = {404: f"there is nothing at {path}: /docs lists what there is", 405: f"{request.method} is not for {path}: see /docs"}
        detail = NOT_TEXT if isinstance(fault.__cause__, UnicodeDecodeError) else str(fault.detail)
        return answer(request, Refusal(fault.status_code, words.get(fault.status_code, detail)))

    @app.exception_handler(OSError)
    async def gone(request: Request, fault: OSError) -> Response:
        log.warning("%s %s: %s", request.method, request.url.path, fault)
        words = f"the index cannot be read at the moment ({fault.strerror or type(fault).__name__}): try again later"
        return answer(request, Refusal(503, str(fault) if isinstance(fault, DatabaseFault) else words, retry_after=5))

    @app.exception_handler(Exception)
    async def broken(request: Request, fault: Exception) -> Response:
        log.error("%s %s went wrong", request.method, request.url.path, exc_info=fault)
        return answer(request, Refusal(500, "something went wrong in the server: its terminal says what"))


def _in_words(error: Any) -> str:
    place: Sequence[Any] = error["loc"]
    if error["type"] == "json_invalid":
        return f"the body is not JSON ({error['ctx']['error']}): see /docs for what it may be"
    if place == ("body",):
        return "the body is not what is expected: a JSON object, sent as application/json; see /docs"
    name = ".".join(map(str, place[1:])) or str(place[0])
    given = error.get("input")
    shown = f" is {given!r}" if isinstance(given, str | int | float) and len(str(given)) < 80 else ""
    message = str(error["msg"])
    return f"{name}{shown}: {message[:1].lower()}{message[1:]}"
