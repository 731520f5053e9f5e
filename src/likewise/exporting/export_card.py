"""What an export says of itself: export.json, the metadata of its graph, and its card, README.md."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.torch import save

from likewise.environment import installed_version
from likewise.exporting.int8 import Int8Trial
from likewise.exporting.onnx_model import TOLERANCE, input_name, output_name
from likewise.models.embedder import Embedder, Preprocessing
from likewise.models.weights.pretrained import WEIGHTS, PretrainedWeights
from likewise.training.runs.run_folder import RunFolder
from likewise.wording import percent

FORMAT = 1
NOT_CALIBRATED = "This model is not calibrated: `likewise calibrate MODEL DATA`, then export it again, says from which similarity on."


def description_of(embedder: Embedder, name: str, folder: Path | None, difference: float) -> dict[str, Any]:
    """What export.json holds, but for what is known only of finished files. folder: the run's, where there is one."""
    spec, calibration = embedder.network.spec, embedder.calibration
    return {
        "format": FORMAT,
        "likewise": installed_version("likewise"),
        "model": name,
        "input": {"name": input_name(embedder), "is": input_in_words(embedder)},
        "output": {"name": output_name(embedder), "is": output_in_words(embedder)},
        "dimensions": embedder.network.width,
        "preprocessing": None if embedder.preprocessing is None else asdict(embedder.preprocessing),
        "network": asdict(spec),
        "weights_sha256": weights_digest(embedder),
        "card": origin_of(embedder, folder),
        "calibration": None if calibration is None else calibration.as_table(),
        "words": [] if calibration is None else list(calibration.words),
        "largest_difference": difference,
    }


def weights_digest(embedder: Embedder) -> str:
    """SHA-256 of the file that saving the embedder writes its weights to."""
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in embedder.network.state_dict().items()}
    return hashlib.sha256(save(state)).hexdigest()


def origin_of(embedder: Embedder, folder: Path | None) -> dict[str, Any]:
    """Where the model comes from: weights and their licence, method, conditions, data, scores; as far as it is known."""
    card = embedder.card
    config: Mapping[str, Any] = card.get("config", card)  # a run's card has all in its configuration, a comparison's beside it
    stored = None if folder is None else RunFolder(folder).scores()
    scores = card.get("scores", {} if stored is None else stored.get("scores", {}))
    weights = _weights_of(card, config)
    origin = {
        "weights": None
        if weights is None
        else {"name": weights.name, "licence": weights.licence, "source": str(weights.source), "sha256": weights.sha256},
        "method": _chosen(config.get("method"), ("name", "title", "paper", "summary")),
        "protocol": _chosen(config.get("protocol"), ("name", "about")),
        "data": (config.get("data") or {}).get("name"),
        "seed": config.get("seed"),
        "scores": scores or None,
    }
    return {key: value for key, value in origin.items() if value is not None}


def _weights_of(card: Mapping[str, Any], config: Mapping[str, Any]) -> PretrainedWeights | None:
    """Public weights that the model is or began with, by name or by digest."""
    names = [card.get("weights"), config.get("weights"), (config.get("protocol") or {}).get("weights")]
    return next((known for given in names for known in WEIGHTS.values() if given and given in (known.name, known.sha256)), None)


def _chosen(table: Mapping[str, Any] | None, names: tuple[str, ...]) -> dict[str, Any] | None:
    return None if table is None else {name: table[name] for name in names if name in table}


def metadata_of(description: Mapping[str, Any]) -> dict[str, str]:
    """The same as a graph has it: strings by name."""
    calibration = description["calibration"] or {}
    thresholds = {f"{which}_threshold": (calibration.get(which) or {}).get("value") for which in ("same", "known")}
    told = {
        "likewise": description["likewise"],
        "model": description["model"],
        "input": description["input"]["is"],
        "output": description["output"]["is"],
        "dimensions": description["dimensions"],
        "weights_sha256": description["weights_sha256"],
        "licence": description["card"].get("weights", {}).get("licence"),
        "card": json.dumps(description["card"]),
        **thresholds,
        "calibration": "\n".join(description["words"]) or None,
    }
    return {name: str(value) for name, value in told.items() if value is not None}


def input_in_words(embedder: Embedder) -> str:
    if embedder.preprocessing is None:
        return f"a float32 vector ({embedder.network.spec.in_features},)"
    return "an upright RGB image, uint8 (height, width, 3), of any size"


def output_in_words(embedder: Embedder) -> str:
    width = embedder.network.width
    if embedder.network.spec.binary:
        return f"{width} bits packed into uint8 ({-(-width // 8)},), to be compared by the number of bits that differ"
    return f"a float32 unit vector ({width},): the dot product of two is their cosine similarity"


def preparation_in_words(preprocessing: Preprocessing) -> str:
    augmentation, side = preprocessing.augmentation, preprocessing.file_side
    cut = augmentation.size if augmentation.cut is None else augmentation.cut
    steps = [] if side is None else [f"the shorter side resized to {side} pixels (antialiased)"]
    if augmentation.crop == "centre":
        steps.append(f"the middle {cut} x {cut} cut out" + ("" if cut == augmentation.size else f", resized to {augmentation.size}"))
    elif augmentation.size is not None:
        steps.append(f"squeezed to {augmentation.size} x {augmentation.size}")
    return ", ".join([*steps, f"less the mean {augmentation.mean}, by the deviation {augmentation.std}"])


def card_text(description: Mapping[str, Any], embedder: Embedder, *, int8: Int8Trial | None, page: Path | None, of_run: str | None) -> str:
    """README.md. of_run: the card of the run's folder, which is taken over."""
    lines = [f"# {description['model']}", ""]
    inside = "" if embedder.preprocessing is None else f" Inside: {preparation_in_words(embedder.preprocessing)}; the network"
    inside += ", a whitening" if inside and embedder.network.whitening is not None else ""
    lines += [
        f"`model.onnx` takes {description['input']['is']} (`{description['input']['name']}`), and gives {description['output']['is']} "
        f"(`{description['output']['name']}`).{inside}{'; and all is brought to length 1.' if inside else ''}",
        "",
        f"Written by likewise {description['likewise']}. Its numbers are those of `likewise.Embedder.embed` for the same pixels: on drawn "
        f"items the largest difference was {description['largest_difference']:.1e} (at most {TOLERANCE:.0e} is let through).",
        "",
    ]
    if embedder.preprocessing is not None:
        lines += [
            "Pixels in, vector out: how a file becomes pixels is up to you. Turn it upright as its EXIF data say, put what is transparent "
            "on white. Likewise itself shrinks JPEG files that are at least twice too large while it decodes them, which gives slightly "
            "other pixels: the same photograph of several megapixels, decoded in full, has a similarity of about 0.97 to 1 to itself.",
            "",
        ]
    lines += ["## Where it comes from", "", *_origin_lines(description), "", "## What a similarity means", ""]
    lines += [*(f"- {words}" for words in description["words"])] or [NOT_CALIBRATED]
    if int8 is not None:
        lines += ["", "## int8", "", *(f"- {words}" for words in int8.words)]
    lines += [
        "",
        "## Use",
        "",
        "`python example.py A.jpg B.jpg`, `node example.mjs A.jpg B.jpg`; `export.json` has all of this for programs.",
    ]
    if page is not None:
        lines += [
            "",
            f"`{page.as_posix()}` searches an index in any browser of 2023 or later, without a network or a server: open it. It holds "
            "onnxruntime-web (MIT licence) and small pictures of what it searches.",
        ]
    if of_run is not None:
        lines += [
            "",
            "## The card of the run",
            "",
            *(f"##{line}" if line.startswith("#") else line for line in of_run.strip().splitlines()),
        ]
    return "\n".join([*lines, ""])


def _origin_lines(description: Mapping[str, Any]) -> list[str]:
    card, network = description["card"], description["network"]
    lines = [
        f"- network: {network['backbone']}, pooling {network['pooling']}, head {network['head']}, {description['dimensions']} dimensions"
    ]
    if "weights" in card:
        weights = card["weights"]
        lines.append(f"- weights: {weights['name']} ({weights['source']}), licence {weights['licence']}, sha256 `{weights['sha256'][:16]}`")
    else:
        lines.append("- weights: none that are public by a name that likewise knows; their licence is for whoever trained them to say")
    if "method" in card:
        data = f" on {card['data']}" if "data" in card else ""
        protocol = f", protocol {card['protocol']['name']} ({card['protocol']['about']})" if "protocol" in card else ""
        lines.append(f"- trained: {card['method']['title']} ({card['method']['paper']}){data}{protocol}, seed {card.get('seed', 0)}")
    elif "weights" in card:
        lines.append("- trained: nothing besides; features as they are")
    if "scores" in card:
        scores = ", ".join(f"{name} {percent(value, digits=1)} %" for name, value in card["scores"].items())
        lines.append(f"- scores on test classes, of the embedder: {scores}")
    return [*lines, f"- sha256 of the network's weights: `{description['weights_sha256']}`"]
