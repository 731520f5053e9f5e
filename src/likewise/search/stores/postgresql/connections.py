"""Connections to PostgreSQL: reused, made anew when the database was gone and is back, its faults in words without passwords."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from likewise.addresses import without_secrets
from likewise.comparison.running.database import DatabaseFault
from likewise.search.vector_store import Vectors

if TYPE_CHECKING:
    from psycopg import Connection

ADDRESS_VARIABLE = "LIKEWISE_POSTGRESQL"
EXAMPLE = "postgresql://user@host/database"
# An acknowledged commit is on the disk; who has waited for a lock sees what was written before it; compiling a query takes longer than most
# searches; plans depend on the values that are asked for.
SESSION = (
    b"SET synchronous_commit = on; SET default_transaction_isolation = 'read committed'; SET jit = off; "
    b"SET plan_cache_mode = force_custom_plan"
)
LASTING = {"connect_timeout": "10", "keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3"}

Result = TypeVar("Result")


def checked_address(address: str) -> dict[str, Any]:
    """An address as its parts, as libpq names them; that of `likewise compare --store` is one too."""
    psycopg = import_psycopg()
    try:
        parts = psycopg.conninfo.conninfo_to_dict(address.replace("postgresql+psycopg://", "postgresql://", 1))
    except psycopg.ProgrammingError:  # which quotes what it could not take apart
        shown = without_secrets(address)
        raise ValueError(f"the address {shown!r} is none of a PostgreSQL database: expected one such as {EXAMPLE}") from None
    return dict(parts)


def writable_parts(parts: dict[str, Any]) -> dict[str, Any]:
    """What may be written down of an address."""
    return {name: value for name, value in parts.items() if "password" not in name}


def shown_address(parts: dict[str, Any]) -> str:
    """The same, as one line."""
    return str(import_psycopg().conninfo.make_conninfo(**writable_parts(parts)))


def address_of_environment() -> dict[str, Any] | None:
    address = os.environ.get(ADDRESS_VARIABLE)
    return checked_address(address) if address else None


def import_psycopg() -> Any:
    try:
        import psycopg
    except ModuleNotFoundError as fault:
        raise ValueError('an index in PostgreSQL needs psycopg: pip install "likewise[postgresql]"') from fault
    return psycopg


class QueryVector:
    """A vector as a parameter, in pgvector's binary form."""

    def __init__(self, values: Vectors) -> None:
        self.values = values


class Connections:
    """For any number of threads: each piece of work has a connection of its own while it lasts."""

    def __init__(self, parts: dict[str, Any]) -> None:
        self._parts = {**LASTING, **parts}
        self._idle: list[Connection[Any]] = []
        self.session: dict[str, str] = {}  # settings that connections start with, where the server knows them

    @property
    def words(self) -> str:
        """Where the database is."""
        host = self._parts.get("host") or self._parts.get("hostaddr") or "this machine"
        return f"the database {self._parts.get('dbname', 'of PostgreSQL')} on {host}"

    def run(self, work: Callable[[Connection[Any]], Result]) -> Result:
        """What `work` gives, all of it in one transaction if it opens one. Begun once more where the connection turns out to be dead.

        So `work` may be done twice if the connection dies while its commit is acknowledged: it must be such that this does no harm.
        """
        psycopg = import_psycopg()
        for is_last in (False, True):
            connection = None
            try:
                connection = self._idle.pop() if self._idle and not is_last else self._connect()
                result = work(connection)
            except psycopg.Error as fault:
                if connection is not None and not connection.closed:
                    self._idle.append(connection)  # it is the work that failed
                    raise self._explained(fault) from fault
                self.close()  # what happened to one has happened to all
                if is_last or connection is None:
                    raise self._explained(fault) from fault
            except BaseException:
                if connection is not None:  # Ctrl-C in the middle of an answer: whoever reads on would get the rest of it
                    connection.close()
                raise
            else:
                self._idle.append(connection)
                return result
        raise AssertionError

    def set_session(self, settings: dict[str, str]) -> None:
        """For connections from now on."""
        if settings != self.session:
            self.session = settings
            self.close()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def __del__(self) -> None:
        self.close()

    def _connect(self) -> Connection[Any]:
        psycopg = import_psycopg()
        connection: Connection[Any] = psycopg.connect(**self._parts, autocommit=True)
        connection.execute(SESSION)
        for name, value in self.session.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        info = psycopg.types.TypeInfo.fetch(connection, "vector")
        if info is not None:  # not before the extension is there
            _register_vectors(connection, info)
        return connection

    def _explained(self, fault: Exception) -> Exception:
        psycopg = import_psycopg()
        said = without_secrets(str(fault).strip().splitlines()[0]) if str(fault).strip() else type(fault).__name__
        if isinstance(fault, psycopg.OperationalError | psycopg.InterfaceError):
            return DatabaseFault(
                f"{self.words} does not answer as it should: {said}. What was acknowledged is kept there: try again when it is back"
            )
        return DatabaseFault(f"{self.words} refuses: {said}")


def _register_vectors(connection: Connection[Any], info: Any) -> None:
    from psycopg.adapt import Dumper
    from psycopg.pq import Format

    class VectorDumper(Dumper):
        format = Format.BINARY
        oid = info.oid

        def dump(self, obj: QueryVector) -> bytes:
            return binary_vector(obj.values, np.dtype(">f4"))

    info.register(connection)
    connection.adapters.register_dumper(QueryVector, VectorDumper)


def binary_vector(values: Vectors, kind: np.dtype[Any]) -> bytes:
    """As pgvector sends and receives it: dimensions, zero, values, the highest byte first."""
    return len(values).to_bytes(2, "big") + b"\0\0" + values.astype(kind).tobytes()
