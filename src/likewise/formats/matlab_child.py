"""The process that parses a MATLAB file: from standard input, to plain values as JSON on standard output."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

from likewise.formats.regular_file import in_brief
from likewise.limits import current_limits


def main() -> None:
    """{"variables": ...} or {"fault": ...}."""
    _limit_itself()
    try:
        answer = json.dumps({"variables": parsed(sys.stdin.buffer.read())}, allow_nan=True)
        if len(answer) > current_limits().text_bytes:
            raise ValueError("it unpacks to too much")
    except MemoryError:
        answer = json.dumps({"fault": "it needs more memory than the limit of LIKEWISE_MAX_PARSER_BYTES"})
    except RecursionError:
        answer = json.dumps({"fault": "nested too deep"})
    except Exception as fault:  # whatever scipy meets in a damaged file
        answer = json.dumps({"fault": in_brief(fault)})
    sys.stdout.write(answer)


def parsed(data: bytes) -> dict[str, Any]:
    """The variables of the file, as JSON can hold them."""
    from scipy.io import loadmat

    loaded = loadmat(io.BytesIO(data), squeeze_me=True)
    return {name: _plain(value) for name, value in loaded.items() if not name.startswith("__")}


def _plain(value: Any) -> Any:
    import numpy as np

    if isinstance(value, np.ndarray):
        if value.dtype.names is None:
            return _plain_values(value.tolist())
        if value.ndim:
            return [_plain(entry) for entry in value]
        value = value[()]
    if isinstance(value, np.void) and value.dtype.names is not None:
        return {name: _plain(value[name]) for name in value.dtype.names}
    if isinstance(value, np.generic):
        return _plain_values(value.item())
    return _plain_values(value)


def _plain_values(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if type(value).__module__ == "numpy":
        return _plain(value)
    raise ValueError(f"it holds a {type(value).__name__}")


def _limit_itself() -> None:
    limits = current_limits()
    if sys.platform != "win32":
        import resource

        for kind, most in ((resource.RLIMIT_AS, limits.parser_bytes), (resource.RLIMIT_CPU, limits.parser_seconds)):
            hard = resource.getrlimit(kind)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(kind, (most, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
