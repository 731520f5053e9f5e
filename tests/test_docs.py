"""The README and the documents say what is true: their Python runs, and their commands are the ones CI runs."""

from __future__ import annotations

import re
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from likewise.cli import app
from likewise.losses import LOSSES
from likewise.mining import MINERS
from likewise.models import BACKBONES
from likewise.samplers import SAMPLERS

from .optional import needs_node_modules
from .serving.running import Running

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]


def code_blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if code_blocks(d, "python")], ids=lambda d: d.name)
def test_python_blocks_run(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, in one namespace, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path))
    for name in ("photo.jpg", "another.png"):
        Image.new("RGB", (40, 40), "green").save(tmp_path / name)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with ExitStack() as kept:
        for registry in (LOSSES, MINERS, SAMPLERS, BACKBONES):  # what a reader adds is not there for other tests
            kept.enter_context(patch.dict(registry))
        for block in code_blocks(document, "python"):
            exec(compile(block, str(document), "exec"), namespace)


def test_tests_that_documents_name_exist() -> None:
    defined = set(re.findall(r"^def (test_\w+)", "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py")), flags=re.MULTILINE))
    named = {name for document in DOCUMENTS for name in re.findall(r"`(test_\w+)`", document.read_text())}
    assert len(named) > 30
    assert named <= defined, named - defined


# What makes the README's long commands short. An option given twice has its last value.
SHORT = ["--set", "steps=2", "--set", "batch=16"]
SHORTER = {
    "adapt": ["--minutes", "0"],
    "train": SHORT,
    "compare": [*SHORT, "--methods", "raw_vthm,proxy_nca", "--seeds", "1", "--jobs", "1"],
}
SMALL = "glyphs:classes=24,images=8"


def commands_of(document: Path) -> list[list[str]]:
    """The words after `likewise` of every command in the document."""
    lines = [line.split("#")[0] for block in code_blocks(document, "sh") for line in block.splitlines()]
    parts = [part.split() for line in lines for part in line.split("&&")]
    return [words for program, *words in parts if program.endswith("likewise")]


@pytest.mark.parametrize("name", ["README.md", "docs/from-folder-to-service.md"])
def test_commands_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, as they are printed, but for fewer steps, methods and characters; a server is asked, and stopped."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    for number in range(12):
        (tmp_path / "my_images" / f"class {number}").mkdir(parents=True)
        for item in range(6):
            pixels = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
            Image.fromarray(pixels).resize((70, 60)).save(tmp_path / "my_images" / f"class {number}" / f"{item}.png")
    (tmp_path / "new_photos").mkdir()
    for image in ("photo.jpg", "new_photos/1.jpg"):
        Image.new("RGB", (40, 40), "green").save(tmp_path / image)
    commands = commands_of(ROOT / name)
    assert len(commands) > 9
    for command, *words in commands:
        if command == "serve":
            ask_and_stop(words)
            continue
        if "--browser" in words:
            (tmp_path / "node_modules").symlink_to(needs_node_modules("onnxruntime-web"))
        more = [] if "--status" in words else SHORTER.get(command, [])
        found = CliRunner().invoke(app, [command, *(SMALL if word == "glyphs" else word for word in words or ["glyphs"]), *more])
        assert found.exit_code == 0, (command, words, found.output)


def ask_and_stop(words: list[str]) -> None:
    server = Running(*words)
    try:
        found = server.ask("POST", "/api/search", files={"image": Path("photo.jpg").read_bytes()})
        assert found.status_code == 200, found.text
        assert len(found.json()["neighbours"]) > 0
    finally:
        assert server.end(signal.SIGINT)[0] == 0


def test_ci_runs_the_commands_of_the_readme() -> None:
    """One line each. The main job takes minutes: CI gives it less to do, by words at its end."""
    main_job, test, *_ = code_blocks(ROOT / "README.md", "sh")
    script = (ROOT / ".ci" / "run").read_text().splitlines()
    assert main_job.count("\n") == test.count("\n") == 1
    assert main_job.strip().endswith("likewise compare")
    assert any(line.startswith(main_job.strip()) for line in script)
    assert test.strip() in script


def test_every_loss_and_miner_is_in_the_readme() -> None:
    import likewise

    text = (ROOT / "README.md").read_text()
    assert f"any of {len(likewise.LOSSES)} losses, any of {len(likewise.MINERS)} miners" in text
    for name in [*likewise.LOSSES, *likewise.MINERS]:
        assert f"`{name}`" in text


def test_every_method_is_in_the_readme() -> None:
    from likewise.methods import METHODS

    text = (ROOT / "README.md").read_text()
    assert f"all {len(METHODS)} " in text
    for name in METHODS:
        assert f"`{name}`" in text
