"""Weights of timm and of the Hugging Face hub, through their own packages where these are installed: timm:NAME, hf:OWNER/REPO[/FILE]."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from safetensors.torch import save

from likewise.addresses import without_secrets
from likewise.data.packing.cache import cache_folder
from likewise.files import write_whole
from likewise.models.backbones.timm_backbone import import_timm, known_timm_model
from likewise.progress import ProgressCallback

DEFAULT_FILE = "model.safetensors"


@dataclass(frozen=True)
class TimmModel:
    """timm:NAME or timm:NAME.TAG. Its pretrained weights are kept as one file with timm's names, without the classifier."""

    name: str

    @property
    def backbone(self) -> str | None:
        return f"timm:{self.name}"

    @property
    def target(self) -> Path:
        """Where it lies once it is fetched."""
        return cache_folder() / "weights" / f"timm-{re.sub(r'[^A-Za-z0-9_.-]', '_', self.name)}.safetensors"

    @property
    def path(self) -> Path | None:
        return self.target if self.target.is_file() else None

    def fetch(self, on_progress: ProgressCallback | None = None) -> None:
        timm = import_timm(self.name)
        known_timm_model(timm, self.name)
        _tell(on_progress, f"timm fetches {self.name}", 0)
        try:
            model = timm.create_model(self.name, pretrained=True, num_classes=0)
        except Exception as fault:  # of timm, of what it downloads with, of the network: they have no common type
            raise ValueError(f"timm cannot fetch timm:{self.name} ({_first_line(fault)}): see timm.list_pretrained()") from fault
        write_whole(self.target, save({name: tensor.detach().clone().contiguous() for name, tensor in model.state_dict().items()}))
        _tell(on_progress, f"timm fetches {self.name}", 1)


@dataclass(frozen=True)
class HubFile:
    """hf:OWNER/REPO[/FILE]. The file stays in the hub's own cache; whose weights it holds, whoever loads it must know."""

    repository: str
    file: str

    @property
    def backbone(self) -> str | None:
        return None

    @property
    def path(self) -> Path | None:
        found = _hub(self.repository).try_to_load_from_cache(repo_id=self.repository, filename=self.file)
        return Path(found) if isinstance(found, str) else None  # it may also be a mark that the hub has no such file

    def fetch(self, on_progress: ProgressCallback | None = None) -> None:
        _tell(on_progress, f"huggingface_hub fetches {self.repository}/{self.file}", 0)
        try:
            _hub(self.repository).hf_hub_download(repo_id=self.repository, filename=self.file)
        except Exception as fault:  # its own and those of what it downloads with: they have no common type
            what = f"hf:{self.repository}/{self.file} cannot be fetched ({_first_line(fault)})"
            raise ValueError(f"{what}: look whether the hub has this repository and file, and whether it can be reached") from fault
        _tell(on_progress, f"huggingface_hub fetches {self.repository}/{self.file}", 1)


def hub_model(given: str) -> TimmModel | HubFile | None:
    """What a name with timm: or hf: before it means; None for other names."""
    if given.startswith("timm:"):
        return TimmModel(given.removeprefix("timm:"))
    if not given.startswith("hf:"):
        return None
    owner, _, rest = given.removeprefix("hf:").partition("/")
    name, _, file = rest.partition("/")
    if not owner or not name:
        raise ValueError(f"weights {given!r}: expected hf:OWNER/REPOSITORY or hf:OWNER/REPOSITORY/FILE, such as hf:timm/resnet50.a1_in1k")
    return HubFile(f"{owner}/{name}", file or DEFAULT_FILE)


def _hub(repository: str) -> Any:
    try:
        return import_module("huggingface_hub")
    except ImportError as fault:
        what = f"'hf:{repository}' needs huggingface_hub, which cannot be imported ({fault})"
        raise ValueError(f"{what}: pip install huggingface_hub") from fault


def _tell(on_progress: ProgressCallback | None, what: str, done: int) -> None:
    if on_progress is not None:
        on_progress(what, done, done)


def _first_line(fault: Exception) -> str:
    return next((line.strip() for line in without_secrets(str(fault)).splitlines() if line.strip()), type(fault).__name__)
