"""Rungs as networks: what is fitted on features or maps embeds images alike, and lies between the pretrained and the tuned network."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from likewise.adaptation import ladder as ladder_module
from likewise.adaptation import mid_maps as mid_maps_module
from likewise.adaptation import time_needed as time_module
from likewise.adaptation.adapt import drawn_folds
from likewise.adaptation.answer import what_pays
from likewise.adaptation.fitting import Fitter, part_of
from likewise.adaptation.fold_scores import FoldScores
from likewise.adaptation.ladder import Climb
from likewise.adaptation.rungs import RUNGS, Setting
from likewise.adaptation.time_needed import TIMED_STEPS, TimeNeeded, time_needed
from likewise.data.splits import all_train
from likewise.models.embedder import Embedder
from likewise.sealing import DIGEST_SIZE, Mended, with_digest

from .small import conditions, images


@pytest.fixture
def fitter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fitter:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    return Fitter(images(), conditions(tmp_path, with_weights=True), device="cpu", maps_folder=tmp_path / "maps")


@pytest.mark.parametrize("name", RUNGS)
def test_the_saved_embedder_gives_what_was_scored(name: str, fitter: Fitter, tmp_path: Path) -> None:
    rung = RUNGS[name]
    feed = fitter.feed(rung)
    network = fitter.fit(rung, rung.settings()[-1], feed, seed=0)
    scored = fitter.embeddings(rung, network, feed)
    fitter.embedder(rung, network, card={}).save(tmp_path / "embedder")
    embedded = Embedder.load(tmp_path / "embedder").embed(fitter.dataset)
    # maps are kept in float16
    np.testing.assert_allclose(embedded, scored.numpy(), atol=5e-3 if name == "last_stage" else 1e-4)


def test_a_share_lies_on_the_way(fitter: Fitter) -> None:
    rung = RUNGS["whole"]
    feed = fitter.feed(rung)
    tuned = dict(fitter.fits(rung, feed, rate=1.0, seed=0))
    pretrained = fitter.at_share(tuned[Setting()], 0.0).state_dict()
    file = fitter.conditions.weights
    assert file is not None
    public = load_file(file)
    assert all(torch.equal(pretrained[f"members.0.backbone.{name}"], value) for name, value in public.items())
    whole, half = tuned[Setting()].state_dict(), tuned[Setting(share=0.5)].state_dict()
    for name, value in half.items():
        expected = (pretrained[name] + whole[name]) / 2 if ".backbone." in name and value.is_floating_point() else whole[name]
        torch.testing.assert_close(value, expected)
    assert any(not torch.equal(whole[name], pretrained[name]) for name in whole if ".backbone." in name)


def test_maps_are_made_once_and_forgotten(fitter: Fitter, tmp_path: Path) -> None:
    rung = RUNGS["last_stage"]
    feed = fitter.feed(rung)
    (file,) = (tmp_path / "maps").iterdir()
    assert isinstance(feed.source, torch.Tensor)
    assert feed.views is not None
    assert feed.in_features is None
    assert file.stat().st_size == 2 * feed.views.numel() + DIGEST_SIZE
    assert feed.source.dtype == torch.float16
    part = part_of(feed, np.array([3, 5]))
    assert torch.equal(part.source, feed.source[[3, 5]])  # type: ignore[index]
    again = Fitter(fitter.dataset, fitter.conditions, device="cpu", maps_folder=tmp_path / "maps")
    file.write_bytes(with_digest(bytes(2 * feed.views.numel())))
    assert not again.feed(rung).source.any()  # type: ignore[union-attr]  # as they lie there
    fitter.forget_maps()
    assert not list((tmp_path / "maps").iterdir())


def test_damaged_maps_are_computed_again(fitter: Fitter, tmp_path: Path) -> None:
    rung = RUNGS["last_stage"]
    expected = fitter.feed(rung).source.clone()  # type: ignore[union-attr]
    (file,) = (tmp_path / "maps").iterdir()
    whole = file.read_bytes()
    for place in (0, len(whole) // 2, len(whole) - 1):
        broken = bytearray(whole)
        broken[place] ^= 1
        file.unlink()
        file.write_bytes(broken)
        again = Fitter(fitter.dataset, fitter.conditions, device="cpu", maps_folder=tmp_path / "maps")
        with pytest.warns(Mended, match="was damaged: the maps are computed again"):
            assert torch.equal(again.feed(rung).source, expected)  # type: ignore[arg-type]
        assert file.read_bytes() == whole


def test_maps_that_are_too_large_are_refused_in_words(fitter: Fitter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mid_maps_module, "MOST_BYTES", 1000)
    with pytest.raises(ValueError, match="would take"):
        fitter.feed(RUNGS["last_stage"])


@pytest.mark.parametrize("name", ["head", "last_stage", "whole"])
def test_time_is_told_from_a_few_steps(name: str, fitter: Fitter) -> None:
    needed = time_needed(fitter, RUNGS[name])
    assert needed.a_fit > 0
    assert (needed.once > 0) == (name == "last_stage")


def test_what_is_loaded_once_is_not_told_of_every_fit(fitter: Fitter, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds, taken = [0.0], iter((100.0, TIMED_STEPS + 0.5))

    def timed(*_: object) -> float:
        seconds[0] += next(taken)
        return 1.0

    monkeypatch.setattr(time_module, "_seconds_a_step", timed)
    monkeypatch.setattr(time_module, "time", SimpleNamespace(perf_counter=lambda: seconds[0]))
    needed = time_needed(fitter, RUNGS["head"])
    assert needed == TimeNeeded(once=0.0, a_fit=0.5 + fitter.conditions.frozen.steps)


def test_every_rung_is_climbed_on_images(fitter: Fitter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def climb(until: float) -> dict[str, str]:
        climb = Climb(
            fitter, drawn_folds(fitter.dataset, all_train(fitter.dataset))[:1], FoldScores(tmp_path / "s"), until=until, on_progress=None
        )
        ladder = climb.ladder()
        sentences.append(what_pays(ladder, device="cpu"))
        return {step.rung: step.outcome for step in ladder.steps}

    sentences: list[str] = []
    monkeypatch.setattr(ladder_module, "time_needed", lambda fitter, rung: TimeNeeded(once=0.0, a_fit=600.0))
    outcomes = climb(time.monotonic())
    assert list(outcomes) == list(RUNGS)
    assert {outcomes[name] for name in ("head", "last_stage", "lora", "whole")} == {"no time"}
    assert "fine-tuning was not tried: it would take about" in sentences[0]
    assert "for the last stage" in sentences[0]
    assert {"no time", "impossible"}.isdisjoint(climb(time.monotonic() + 1e6).values())
