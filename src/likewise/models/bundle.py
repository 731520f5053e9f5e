"""Bundle: a folder with an embedder's weights (model.safetensors), all else about it (embedder.json) and, where it was calibrated, what its
similarities mean (calibration.json). No pickle. Written whole or not at all. Both .json end with a digest of themselves, and embedder.json
holds that of the weights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from likewise.files import file_digest, write_folder, write_whole
from likewise.formats.regular_file import UnreadableFile, is_regular
from likewise.formats.settings_files import not_finite, read_sealed_table
from likewise.sealing import Damaged, sealed_json

FORMAT_VERSION = 1
DESCRIPTION, WEIGHTS, CALIBRATION = "embedder.json", "model.safetensors", "calibration.json"


@dataclass(frozen=True)
class Bundle:
    """What lies in the folder: the weights' file, found to be as it was written, and the rest as JSON has it."""

    weights: Path
    spec: dict[str, Any]
    preprocessing: dict[str, Any] | None
    card: dict[str, Any]
    calibration: dict[str, Any] | None = None


def write_bundle(
    folder: Path,
    state: Mapping[str, Tensor],
    *,
    spec: dict[str, Any],
    preprocessing: dict[str, Any] | None,
    card: dict[str, Any],
    calibration: dict[str, Any] | None = None,
) -> None:
    """Writes the folder, or replaces the bundle that is there; a folder with anything else in it is refused."""
    description = {"format": FORMAT_VERSION, "spec": spec, "preprocessing": preprocessing, "card": card}
    json.dumps(description)  # what JSON cannot hold is found before anything is written
    with write_folder(folder, known_by=DESCRIPTION, what="an embedder") as unfinished:
        write_whole(unfinished / WEIGHTS, save({name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}))
        write_whole(unfinished / DESCRIPTION, sealed_json({**description, "sha256": file_digest(unfinished / WEIGHTS)}))
        if calibration is not None:
            write_calibration(unfinished, calibration)


def write_calibration(folder: Path, calibration: dict[str, Any]) -> Path:
    """Writes the calibration of the bundle in the folder, with the digest of the weights that it is of, and gives the file."""
    home = bundle_home(folder)
    digest = read_sealed_table(home / DESCRIPTION, remedy="save the model again").get("sha256")
    write_whole(home / CALIBRATION, sealed_json({"sha256": digest, "calibration": calibration}, indent=1))
    return home / CALIBRATION


def bundle_home(folder: Path) -> Path:
    """The folder itself, or its subfolder `embedder` (a run's)."""
    home = next((place for place in (folder, folder / "embedder") if is_regular(place / DESCRIPTION)), None)
    if home is None:
        raise ValueError(
            f"{folder} holds no embedder: expected {DESCRIPTION} there or in {folder / 'embedder'}; give a run or a saved model"
        )
    return home


def read_bundle(folder: Path) -> Bundle:
    """The bundle in the folder, or in its subfolder `embedder` (a run's); a ValueError says what is not as it was written."""
    home = bundle_home(folder)
    description = read_sealed_table(home / DESCRIPTION, remedy="save the model again, or copy the whole folder again")
    try:
        version = description["format"]
        if version == FORMAT_VERSION:
            bundle = Bundle(home / WEIGHTS, description["spec"], description["preprocessing"], description["card"])
            digest = description["sha256"]
    except KeyError as fault:
        raise ValueError(f"{home / DESCRIPTION} is damaged ({fault!r}): save the model again") from fault
    if version != FORMAT_VERSION:
        raise ValueError(f"{home} was written in format {version!r}, and this version of likewise reads {FORMAT_VERSION}: update likewise")
    for name in ("spec", "preprocessing"):
        unsound = next(not_finite(description[name], name), None)
        if unsound is not None:
            raise ValueError(f"{home / DESCRIPTION}: {unsound} is NaN or infinite: save the model again")
    if not is_regular(bundle.weights):
        raise ValueError(f"{bundle.weights} is missing: copy the whole folder")
    if file_digest(bundle.weights) != digest:
        raise ValueError(f"{bundle.weights} differs from its checksum: it is damaged, or of another model; copy the whole folder again")
    return replace(bundle, calibration=_read_calibration(home / CALIBRATION, digest))


def _read_calibration(path: Path, digest: str) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        stored = read_sealed_table(path, remedy="calibrate again, or delete it")
        is_of_this, calibration = stored["sha256"] == digest, dict(stored["calibration"])
    except (UnreadableFile, Damaged):
        raise
    except (ValueError, KeyError, TypeError) as fault:
        raise ValueError(f"{path} is damaged ({fault!r}): calibrate again, or delete it") from fault
    if not is_of_this:
        raise ValueError(f"{path} is of another model: calibrate again, or delete it")
    return calibration
