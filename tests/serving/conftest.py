"""A small index of made images, and the service of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from likewise.search.index import Index

from ..optional import needs_package
from .asking import Asker
from .made_index import MadeIndex, make_index


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeIndex:
    """To be looked at."""
    return make_index(tmp_path_factory.mktemp("made"))


@pytest.fixture
def changed(tmp_path: Path) -> MadeIndex:
    """A test's own, to be changed."""
    return make_index(tmp_path)


Serve = Callable[..., Asker]


@pytest.fixture
def serve(made: MadeIndex) -> Serve:
    """Asks the service of the made index; settings are those of ClientLimits."""
    needs_package("fastapi")
    needs_package("python_multipart")
    from likewise.serving.admission.access import Access
    from likewise.serving.admission.client_limits import ClientLimits
    from likewise.serving.search_app import make_app
    from likewise.serving.search_service import SearchService

    def start(index: Path | None = None, *, token: str | None = None, takes_marks: bool = True, **limits: Any) -> Asker:
        service = SearchService(Index.load(made.folder if index is None else index, "cpu"), ClientLimits(**limits), takes_marks=takes_marks)
        return Asker(make_app(service, Access(token)))

    return start
