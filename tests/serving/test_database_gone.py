"""An index in a real PostgreSQL that goes away while it is served: told in words, and found again when it is back."""

from typing import Any

from ..search.conftest import server as postgresql  # noqa: F401, a fixture
from ..search.test_postgresql_store import crash, start_again
from .conftest import Serve
from .made_index import A_CLASS, CLASSES, make_index


def test_a_database_gone_and_back(serve: Serve, postgresql: Any, tmp_path: Any) -> None:  # noqa: F811
    asker = serve(make_index(tmp_path, store="postgresql", address=postgresql.get_uri()).folder)
    before = asker.post("/api/search?id=1&k=3&where=year>=2001").json()["neighbours"]
    assert len(before) == 3
    crash(postgresql)
    for method, path in (("POST", "/api/search?id=1&k=3"), ("GET", "/api/health"), ("GET", "/api/items/1"), ("GET", "/api/columns")):
        answer = asker.request(method, path)
        assert answer.status_code == 503, answer.text
        assert "try again when it is back" in answer.json()["error"]
        assert int(answer.headers["retry-after"]) >= 1
    start_again(postgresql)
    assert asker.post("/api/search?id=1&k=3&where=year>=2001").json()["neighbours"] == before
    assert asker.get("/api/health").json()["num_items"] == len(CLASSES) * A_CLASS
