"""The files of onnxruntime-web, which runs graphs in a browser: from a folder, from node_modules, or through npm into the cache."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from likewise.data.packing.cache import cache_folder
from likewise.files import write_whole

PACKAGE, VERSION = "onnxruntime-web", "1.30.0"  # the one that npm is asked for; a folder may hold another
SCRIPT, GLUE, WASM = "ort.wasm.min.js", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"
NPM_SECONDS = 300


@dataclass(frozen=True)
class WebRuntime:
    """What a page needs of it: plain wasm on the processor, without WebGPU."""

    script: bytes
    glue: bytes
    wasm: bytes


def find_runtime(folder: str | Path | None = None) -> WebRuntime:
    """From the folder, where one is given; else from node_modules here or above, or the cache; else through npm."""
    if folder is not None:
        home = _home_in(Path(folder))
        if home is None:
            raise ValueError(f"{folder} holds no {PACKAGE}: expected its {SCRIPT}, {GLUE} and {WASM}, or node_modules that has the package")
        return _read(home)
    kept = cache_folder() / f"{PACKAGE}-{VERSION}"
    here = Path.cwd()
    for place in (*(parent / "node_modules" for parent in (here, *here.parents)), kept):
        home = _home_in(place)
        if home is not None:
            return _read(home)
    _fetch(kept)
    return _read(kept)


def _home_in(folder: Path) -> Path | None:
    """The folder with the three files: this one, the package's `dist`, or the package's in node_modules."""
    places = (folder, folder / "dist", folder / PACKAGE / "dist", folder / "node_modules" / PACKAGE / "dist")
    return next((place for place in places if all((place / name).is_file() for name in (SCRIPT, GLUE, WASM))), None)


def _read(home: Path) -> WebRuntime:
    return WebRuntime(*((home / name).read_bytes() for name in (SCRIPT, GLUE, WASM)))


def _fetch(kept: Path) -> None:
    """By npm, from wherever it takes packages, into the cache."""
    what_to_do = f"`npm install {PACKAGE}` here, or give a folder that holds it with --runtime"
    npm = shutil.which("npm")
    if npm is None:
        raise ValueError(f"a page that searches needs {PACKAGE}, which is not here, and there is no npm to get it: {what_to_do}")
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", f"{PACKAGE}@{VERSION}", "--silent", "--pack-destination", folder]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=NPM_SECONDS)
            (archive,) = Path(folder).glob("*.tgz")
            with tarfile.open(archive) as package:
                for name in (SCRIPT, GLUE, WASM):
                    member = package.extractfile(f"package/dist/{name}")
                    assert member is not None
                    write_whole(kept / name, member.read())
        except (subprocess.SubprocessError, OSError, ValueError, KeyError, tarfile.TarError) as fault:
            told = (getattr(fault, "stderr", None) or str(fault)).strip().splitlines()
            raise ValueError(f"npm could not get {PACKAGE} ({told[0] if told else type(fault).__name__}): {what_to_do}") from fault
