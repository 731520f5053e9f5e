"""The README and the documents say what is true: their Python runs, and their commands are the ones CI runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def code_blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if code_blocks(d, "python")], ids=lambda d: d.name)
def test_python_blocks_run(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, in one namespace, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in code_blocks(document, "python"):
        exec(compile(block, str(document), "exec"), namespace)


def test_ci_runs_the_commands_of_the_readme() -> None:
    commands = code_blocks(ROOT / "README.md", "sh")
    script = (ROOT / ".ci" / "run").read_text()
    for command in commands[:2]:  # set up, test
        assert command in script


def test_every_loss_and_miner_is_in_the_readme() -> None:
    import likewise

    text = (ROOT / "README.md").read_text()
    for name in [*likewise.LOSSES, *likewise.MINERS]:
        assert f"`{name}`" in text
