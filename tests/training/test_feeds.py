"""Feeds of a frozen backbone: vectors, computed once, with what the loop, the folds and the report need of them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from likewise.comparison.running.workshop import write_thumbnails
from likewise.data.dataset import Dataset, Files, Pixels
from likewise.data.packing.packed import PackedImages
from likewise.data.splits import from_ranges
from likewise.evaluation.scores import evaluate
from likewise.methods import load_method
from likewise.models import Embedder
from likewise.models.backbones import make_backbone
from likewise.models.frozen.frozen_features import frozen_features
from likewise.training.devices import Devices
from likewise.training.feeds import Feed, make_feed
from likewise.training.fit import fit
from likewise.training.loop import Training
from likewise.training.scoring import embed_feed
from likewise.training.train import train

from .tiny import PROTOCOL, held, method, pictures, vectors

CPU = torch.device("cpu")
FROZEN = replace(
    PROTOCOL, side="auto", backbone="convnet_small", weights="optional", pooling="avg", test_augmentation="whole28", frozen=True
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    save_file(make_backbone("convnet_small").state_dict(), tmp_path / "convnet.safetensors")
    return tmp_path / "convnet.safetensors"


@pytest.fixture
def in_files(tmp_path: Path) -> Dataset:
    """Pictures, the third of which cannot be decoded."""
    data = pictures(classes=6, images=4)
    assert isinstance(data.items, Pixels)
    paths = tuple(tmp_path / "images" / f"{number:02}.png" for number in range(len(data)))
    paths[0].parent.mkdir()
    for path, pixels in zip(paths, data.items.array, strict=True):
        Image.fromarray(pixels).save(path)
    paths[2].write_bytes(b"nothing")
    return replace(data, items=Files(paths))


def inputs_of(feed: Feed, *, seed: int, first_step: int, num_steps: int) -> list[torch.Tensor]:
    sampler = load_method("contrastive").make_sampler(feed.codes(), 8, few_classes="more_images", seed=0)
    batches = feed.batches(sampler, FROZEN, device=CPU, seed=seed, first_step=first_step)
    return [inputs for inputs, _, _ in (next(batches) for _ in range(num_steps))]


def test_a_frozen_feed_is_the_features_of_what_can_be_decoded(in_files: Dataset, weights: Path) -> None:
    feed = make_feed(in_files, FROZEN, weights=weights)
    expected = frozen_features(in_files, backbone="convnet_small", weights=weights, augmentation="whole28")
    assert isinstance(feed.source, torch.Tensor)
    assert torch.equal(feed.source, expected.vectors)
    assert feed.in_features == expected.vectors.shape[1]
    assert feed.indices.tolist() == [0, 1, *range(3, 24)]
    assert feed.labels.tolist() == in_files.labels[feed.indices].tolist()
    assert [problem.path.name for problem in feed.skipped] == ["02.png"]
    part = feed.subset(np.array([5, 0]))
    assert torch.equal(part.source, feed.source[[5, 0]])  # type: ignore[arg-type]
    assert part.thumbnails is not None
    assert feed.thumbnails is not None
    assert torch.equal(part.thumbnails.image(0), feed.thumbnails.image(5))


def test_the_report_gets_its_thumbnails(in_files: Dataset, weights: Path, tmp_path: Path) -> None:
    frozen = make_feed(in_files, FROZEN, weights=weights)
    packed = make_feed(in_files, replace(FROZEN, frozen=False))
    assert isinstance(packed.pictures, PackedImages)
    shown = [np.load(path) for path in (write_thumbnails(feed, tmp_path / "shown.npy") for feed in (frozen, packed)) if path is not None]
    assert shown[0].shape == shown[1].shape == (23, 112, 112, 3)
    assert abs(shown[0].astype(float) - shown[1]).mean() < 6  # of 255: JPEG's loss
    assert write_thumbnails(make_feed(vectors(), PROTOCOL), tmp_path / "none.npy") is None


def test_views_are_drawn_by_seed_step_and_item(weights: Path) -> None:
    several = replace(FROZEN, views=3)
    feed = make_feed(pictures(), several, weights=weights)
    assert feed.views is not None
    inputs = inputs_of(feed, seed=4, first_step=0, num_steps=3)
    for again, expected in zip(inputs_of(feed, seed=4, first_step=0, num_steps=3), inputs, strict=True):
        assert torch.equal(again, expected)
    assert not torch.equal(inputs_of(feed, seed=5, first_step=0, num_steps=1)[0], inputs[0])
    assert not torch.equal(inputs_of(feed, seed=4, first_step=1, num_steps=1)[0], inputs[0])
    rows = feed.views.flatten(0, 1)
    drawn = torch.stack([(rows == row).all(1).nonzero()[0, 0] % 3 for batch in inputs for row in batch])
    assert sorted(set(drawn.tolist())) == [0, 1, 2]


def test_scores_see_the_test_view_and_a_test_feed_has_no_other(weights: Path) -> None:
    several = replace(FROZEN, views=3)
    feed, test = make_feed(pictures(), several, weights=weights), make_feed(pictures(), several, weights=weights, trains=False)
    assert test.views is None
    network = Training(method("contrastive"), several, feed, seed=0, devices=Devices(several, device="cpu")).network
    assert torch.equal(embed_feed(network, feed, several, device="cpu"), embed_feed(network, test, several, device="cpu"))


def test_a_head_is_trained_on_frozen_features(weights: Path) -> None:
    feed = make_feed(pictures(), replace(FROZEN, views=2), weights=weights)
    trained = fit(method("contrastive"), replace(FROZEN, steps=40, learning_rate=0.01), feed, seed=0, weights=weights, device="cpu")
    assert trained.network.spec.backbone == "identity"
    assert trained.network.spec.in_features == feed.in_features
    assert trained.rows[-1]["loss"] < trained.rows[0]["loss"]


def test_the_run_of_a_frozen_backbone_embeds_images(in_files: Dataset, weights: Path, tmp_path: Path) -> None:
    protocol = replace(FROZEN, ks=(1,))
    result = train(method("contrastive"), in_files, protocol=protocol, out=tmp_path / "run", weights=weights, device="cpu")
    embedder = Embedder.load(tmp_path / "run")
    assert embedder.network.spec.backbone == "convnet_small"
    assert isinstance(in_files.items, Files)
    tested = np.setdiff1d(np.arange(len(in_files)), [2, *from_ranges(held(tmp_path / "run", "split.json")["train"])])
    embeddings = embedder.embed([in_files.items.paths[number] for number in tested])
    by_hand = evaluate(embeddings, in_files.labels[tested], ks=(1,), metrics=("MAP@R",))
    assert result.scores["MAP@R"] == pytest.approx(by_hand["MAP@R"], abs=1e-6)


def test_heads_below_the_last_level_are_refused(weights: Path) -> None:
    feed = make_feed(pictures(), FROZEN, weights=weights)
    with pytest.raises(ValueError, match=r"ranked_list_multilevel has heads at the levels low, mid, high: a frozen backbone"):
        fit(method("ranked_list_multilevel"), FROZEN, feed, seed=0, weights=weights, device="cpu")


def test_what_is_wrong_is_said(weights: Path) -> None:
    with pytest.raises(ValueError, match=r"protocol tiny leaves the backbone convnet_small as it is .* --weights"):
        make_feed(pictures(), FROZEN)
    with pytest.raises(ValueError, match=r"views=2 of a backbone that is trained"):
        replace(PROTOCOL, views=2)
    with pytest.raises(ValueError, match=r"views=0"):
        replace(FROZEN, views=0)
    assert make_feed(vectors(), FROZEN).in_features == 12
