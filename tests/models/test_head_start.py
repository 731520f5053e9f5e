"""Heads that start from the whitening of what they are fed; networks that end in one; networks of features on their backbone."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import likewise
from likewise.data.augmentation import Augmentation
from likewise.models import LEVELS, Embedder, Network, NetworkSpec, Preprocessing, head_start, make_backbone, make_network, whiten
from likewise.models.frozen import on_backbone
from likewise.models.head_start import MOST_KEPT, Starts, started_from_features

IMAGES = torch.randn(40, 3, 32, 32, generator=torch.Generator().manual_seed(3))
VECTORS = torch.randn(50, 9, generator=torch.Generator().manual_seed(4)).exp()
PREPROCESSING = Preprocessing(32, Augmentation(28, "centre", mean=(0.5, 0.4, 0.3), std=(0.5, 0.6, 0.7)))


def started(spec: NetworkSpec, items: Tensor, *, power: float = 0.5, seed: int = 0) -> Network:
    return started_from_features(make_network(spec, seed=seed).eval(), lambda: items.split(16), power=power, seed=seed).eval()


@pytest.mark.parametrize("dim", [4, 9, 100])
def test_a_linear_head_embeds_as_the_whitening_does(dim: int) -> None:
    network = started(NetworkSpec("identity", in_features=9, dim=dim, unit_features=True), VECTORS)
    assert network.spec.dim == network.width == min(dim, 9)
    others = torch.randn(20, 9, generator=torch.Generator().manual_seed(5))
    for items in (VECTORS, others):
        expected = whiten(VECTORS, kind="pca", dim=min(dim, 9))(items)
        torch.testing.assert_close(network(items), expected, rtol=0, atol=1e-5)
    lengths = network.members[0](VECTORS)[0].square().sum(1).mean()  # type: ignore[operator]
    torch.testing.assert_close(lengths, torch.tensor(1.0), rtol=1e-4, atol=0)


def test_a_linear_head_embeds_as_the_centred_features_do() -> None:
    network = started(NetworkSpec("identity", in_features=9, dim=9, unit_features=True), VECTORS, power=0.0)
    units = nn.functional.normalize(VECTORS)
    centred = nn.functional.normalize(units - units.mean(0))
    torch.testing.assert_close(network(VECTORS) @ network(VECTORS).T, centred @ centred.T, rtol=0, atol=1e-5)


def test_a_layer_norm_head_embeds_as_the_whitening_of_what_it_is_fed() -> None:
    network = started(NetworkSpec("identity", head="layer_norm", in_features=9, dim=5, unit_features=True), VECTORS)
    normed = nn.functional.layer_norm(VECTORS, (9,))
    torch.testing.assert_close(network(VECTORS), whiten(normed, kind="pca", dim=5)(normed), rtol=0, atol=1e-5)
    assert network.spec.dim == 5


def test_no_more_dimensions_than_the_items_vary_in() -> None:
    few = VECTORS[:4]
    network = started(NetworkSpec("identity", in_features=9, dim=8, unit_features=True), few)
    assert network.spec.dim == 3
    torch.testing.assert_close(network(few), whiten(few)(few), rtol=0, atol=1e-5)


def test_what_few_items_do_not_vary_in_is_kept_where_nothing_is_whitened() -> None:
    """Four items span three directions; the others of the head are orthogonal to them, so that all items keep their angles."""
    few = VECTORS[:4]
    network = started(NetworkSpec("identity", in_features=9, dim=9, unit_features=True), few, power=0.0)
    assert network.spec.dim == 9
    centred = nn.functional.normalize(nn.functional.normalize(VECTORS) - nn.functional.normalize(few).mean(0))
    torch.testing.assert_close(network(VECTORS) @ network(VECTORS).T, centred @ centred.T, rtol=0, atol=1e-5)
    assert torch.equal(network(VECTORS), started(network.spec, few, power=0.0, seed=1)(VECTORS))


def test_every_level_of_every_member_has_its_own() -> None:
    spec = NetworkSpec("convnet", pooling="gem", dim=6, levels=LEVELS, num_members=2, unit_features=True)
    plain, network = make_network(spec, seed=1).eval(), started(spec, IMAGES, seed=1)
    others = {name: value for name, value in plain.state_dict().items() if not name.endswith(("2.weight", "2.bias")) or "backbone" in name}
    for name, value in others.items():
        assert torch.equal(network.state_dict()[name], value), name
    for member in network.members:
        for level in LEVELS:
            (maps,) = member.backbone(IMAGES, (level,))  # type: ignore[operator]
            pooled = member.heads[level][0](maps).detach()  # type: ignore[index]
            found = nn.functional.normalize(member(IMAGES, (level,))[0])
            torch.testing.assert_close(found, whiten(pooled, kind="pca", dim=6)(pooled), rtol=0, atol=1e-4)


def test_what_trainings_share_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the same items, whatever the seed; other items, powers and dimensions have their own, and all are as if nothing were shared."""
    computed = []

    def counted(*args: Any, **named: Any) -> Any:
        computed.append(named)
        return whiten(*args, **named)

    monkeypatch.setattr(head_start, "whiten", counted)
    starts = Starts()

    def shared(items: Tensor, power: float, dim: int, seed: int) -> Network:
        plain = make_network(NetworkSpec("identity", in_features=9, dim=dim, unit_features=True), seed=seed)
        return started_from_features(plain, lambda: items.split(16), power=power, seed=seed, starts=starts)

    asked = [(VECTORS, 0.0, 9), (VECTORS, 0.5, 9), (VECTORS, 0.0, 4), (VECTORS[:30], 0.0, 9)]
    networks = [shared(*given, seed=seed) for given in asked for seed in range(3)]
    assert len(computed) == len(asked)
    alone = [started(network.spec, items, power=power, seed=1) for network, (items, power, _) in zip(networks[::3], asked, strict=True)]
    for number, network in enumerate(networks):
        expected = alone[number // 3].state_dict()
        assert all(torch.equal(value, expected[name]) for name, value in network.state_dict().items())
    for rows in range(20, 20 + MOST_KEPT):  # then the first is forgotten
        shared(VECTORS[:rows], 0.0, 9, seed=0)
    before = len(computed)
    shared(*asked[0], seed=0)
    assert len(computed) == before + 1


def test_heads_that_cannot_start() -> None:
    with pytest.raises(ValueError, match=r"head 'mlp' has random layers before its projection.*--set head\.kind=linear"):
        started(NetworkSpec("identity", head="mlp", in_features=9, unit_features=True), VECTORS)
    with pytest.raises(ValueError, match="set unit_features=True"):
        started(NetworkSpec("identity", in_features=9), VECTORS)
    none = NetworkSpec("identity", head="none", in_features=9, unit_features=True)
    torch.testing.assert_close(started(none, VECTORS)(VECTORS), nn.functional.normalize(VECTORS))


def test_unit_features_do_not_see_lengths() -> None:
    network = make_network(NetworkSpec("identity", in_features=9, dim=4, unit_features=True), seed=0)
    torch.testing.assert_close(network.members[0](VECTORS)[0], network.members[0](7 * VECTORS)[0])  # type: ignore[operator]
    plain = make_network(NetworkSpec("identity", in_features=9, dim=4), seed=0)
    torch.testing.assert_close(plain.members[0](nn.functional.normalize(VECTORS)), network.members[0](VECTORS))  # type: ignore[operator]


ENDING = [{}, {"levels": LEVELS}, {"num_members": 3, "head": "mlp"}, {"head": "none"}]


@pytest.mark.parametrize("settings", ENDING)
@pytest.mark.parametrize("kind", ["within", "pca"])
def test_an_embedder_ends_in_a_whitening_and_is_saved_with_it(settings: dict[str, Any], kind: Any, tmp_path: Path) -> None:
    network = make_network(NetworkSpec("convnet", **{"dim": 12, **settings}), seed=0)
    embedder = Embedder(network, PREPROCESSING, {"method": "raw"})
    before = embedder.embed(IMAGES)
    whitening = likewise.whiten(before, np.arange(40) // 4, kind=kind, dim=7)
    whitened = embedder.with_whitening(whitening)
    found = whitened.embed(IMAGES)
    assert found.shape == (40, 7) == (40, whitened.network.width)
    np.testing.assert_allclose(found, whitening(before), atol=1e-5)
    np.testing.assert_array_equal(embedder.embed(IMAGES), before)
    assert embedder.network.spec.whitened == 0
    whitened.save(tmp_path / "model")
    loaded = Embedder.load(tmp_path / "model")
    assert loaded.network.spec == whitened.network.spec
    assert loaded.card == {"method": "raw"}
    np.testing.assert_array_equal(loaded.embed(IMAGES), found)
    assert loaded.embed([]).shape == (0, 7)


def test_what_cannot_end_in_a_whitening() -> None:
    whitening = whiten(VECTORS)
    network = make_network(NetworkSpec("identity", head="none", in_features=9, levels=LEVELS), seed=0)
    with pytest.raises(ValueError, match="a whitening of 9 dimensions after a network that gives 27"):
        network.with_whitening(whitening)
    whole = network.with_whitening(whiten(network(VECTORS)))
    with pytest.raises(ValueError, match="ends in a whitening already"):
        whole.with_whitening(whitening)
    with pytest.raises(ValueError, match=r"levels=\('high',\) of a whitened network: its whitening is of low, mid, high joined"):
        Embedder(whole, None).embed(VECTORS, levels=("high",))
    with pytest.raises(ValueError, match="of a whitened network"):
        whole(VECTORS, ("high",))
    torch.testing.assert_close(whole(VECTORS, LEVELS), whole(VECTORS))
    bits = make_network(NetworkSpec("identity", head="none", in_features=9, binary=True), seed=0)
    with pytest.raises(ValueError, match="a whitening after a binary network"):
        bits.with_whitening(whitening)


def test_bundles_without_the_newer_fields_still_load(tmp_path: Path) -> None:
    embedder = Embedder(make_network(NetworkSpec("identity", in_features=9, dim=4), seed=0), None)
    embedder.save(tmp_path / "model")
    path = tmp_path / "model" / "embedder.json"
    content = json.loads(path.read_text())
    for field in ("unit_features", "whitened"):
        del content["spec"][field]
    path.write_text(json.dumps(content))
    loaded = Embedder.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.embed(VECTORS), embedder.embed(VECTORS))
    assert loaded.network.spec == NetworkSpec("identity", in_features=9, dim=4)


@pytest.mark.parametrize("pooling", ["avg", "max", "gem"])
@pytest.mark.parametrize("head", ["linear", "layer_norm", "none"])
def test_a_network_of_features_goes_onto_their_backbone(pooling: str, head: str, tmp_path: Path) -> None:
    torch.manual_seed(3)
    save_file(make_backbone("convnet_small").state_dict(), tmp_path / "w.safetensors")
    plain = make_network(NetworkSpec("convnet_small", pooling=pooling, head="none"), seed=0, weights=tmp_path / "w.safetensors").eval()
    with torch.no_grad():
        features = plain.members[0](IMAGES)[0]  # type: ignore[operator]
    trained = started(NetworkSpec("identity", head=head, in_features=128, dim=6, unit_features=True), features)
    for of_vectors in (trained, trained.with_whitening(whiten(trained(features).detach(), np.arange(40) // 4))):
        network = on_backbone(of_vectors, "convnet_small", pooling, tmp_path / "w.safetensors")
        torch.testing.assert_close(network(IMAGES), of_vectors(features), rtol=0, atol=1e-5)
        expected = replace(of_vectors.spec, backbone="convnet_small", pooling=pooling, in_features=None)
        assert asdict(network.spec) == asdict(expected)
        Embedder(network, PREPROCESSING)


def test_networks_that_do_not_go_onto_a_backbone() -> None:
    with pytest.raises(ValueError, match="'convnet_small' has 128 features and the network takes 9"):
        on_backbone(make_network(NetworkSpec("identity", in_features=9), seed=0), "convnet_small", "avg", None)
    with pytest.raises(ValueError, match="backbone 'mlp': expected one of vectors as they are"):
        on_backbone(make_network(NetworkSpec("mlp", in_features=9), seed=0), "convnet_small", "avg", None)
    with pytest.raises(ValueError, match="only a network of level 'high'"):
        on_backbone(make_network(NetworkSpec("identity", in_features=9, levels=LEVELS), seed=0), "convnet_small", "avg", None)
