"""The commands `likewise serve`: an index behind a page, until Ctrl-C; and `likewise index feedback`: what people said of its answers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from likewise.environment import checked_device, num_cores, num_threads
from likewise.files import check_output
from likewise.search.feedback import Feedback, classes_of, write_classes, write_pairs
from likewise.search.index import Index
from likewise.terminal.screen import Screen
from likewise.wording import count_of

NEEDED = ("fastapi", "uvicorn", "python_multipart")  # as Python imports them


def run_serve(
    folder: Path, *, host: str, port: int, token: str | None, marks: bool, limits: Mapping[str, Any], behind_proxy: bool, device: str
) -> None:
    """Prints where it serves once it does."""
    if not all(map(find_spec, NEEDED)):
        raise ValueError('`likewise serve` needs FastAPI and uvicorn, which are not all installed: pip install "likewise[serve]"')
    from likewise.serving.admission.access import Access, is_local, new_token
    from likewise.serving.admission.client_limits import ClientLimits
    from likewise.serving.search_app import make_app
    from likewise.serving.search_service import SearchService
    from likewise.serving.server import address_of, bind, serve_forever

    console = Screen(soft_wrap=True, highlight=False, markup=False)
    given = token or None
    made = new_token() if given is None and not is_local(host) else None
    allowed = ClientLimits(**limits)
    Access(given)  # a weak token is refused before anything is loaded
    listener = bind(host, port)
    with listener:
        service = SearchService(Index.load(folder, checked_device(device)), allowed, takes_marks=marks)
        service.warm_up()
        address = address_of(listener, host)

        def started() -> None:
            console.print(f"{folder}: {count_of(len(service.index), 'image', 'images')} at {address}{f'/?token={made}' if made else ''}")
            if not is_local(host):
                console.print("What is sent is not encrypted: outside a network you trust, put a proxy with TLS before it.", style="dim")
            console.print("Ctrl-C stops it.", style="dim")

        access = Access(given or made, port=listener.getsockname()[1])
        with num_threads(max(1, num_cores() // allowed.threads)):  # more threads than cores only wait for each other
            app = make_app(service, access)
            serve_forever(app, listener, seconds=allowed.seconds, behind_proxy=behind_proxy, on_started=started)
    console.print("stopped")


def run_feedback(folder: Path, *, out: Path | None, classes: bool) -> None:
    """Prints how many, or writes them."""
    if out is not None:
        check_output(out)
        if out.suffix.lower() != ".csv":
            raise ValueError(f"--out is '{out}': expected a file name that ends in .csv")
    index = Index.load(folder, "cpu")
    pairs = Feedback(folder).pairs()
    right = sum(pair.is_same for pair in pairs)
    console = Screen(soft_wrap=True, highlight=False, markup=False)
    console.print(f"{count_of(len(pairs), 'pair', 'pairs')}: {right:,} right, {len(pairs) - right:,} wrong")
    if classes:
        paths = sorted({image.path for pair in pairs for image in (pair.query, pair.item)})
        ids = index.store.find(paths)
        labels = {item.path: item.label for item in index.store.items(list(ids.values()))}
        labelled, contradictions = classes_of(pairs, labels)
        console.print(f"{count_of(len(labelled), 'image', 'images')} of {count_of(len(set(labelled.values())), 'class', 'classes')}")
        for words in contradictions:
            console.print(f"left out: {words}")
    if out is not None:
        if classes:
            write_classes(labelled, out)
        else:
            write_pairs(pairs, out)
        console.print(f"written to {out}")
    index.close()
