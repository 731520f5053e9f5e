"""The bound on false accepts of unseen classes, its expectation by enumeration and its promise by simulation; all else by plain loops."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binomtest

import likewise
from likewise.evaluation.calibration import STEP, Asked, Calibration, class_pairs
from likewise.evaluation.calibration.class_bounds import is_bounded, least_units, least_where, log_evidence, pairings
from likewise.evaluation.calibration.class_pairs import ClassPairs
from likewise.evaluation.calibration.match_probability import MatchProbability, SimilarityHistogram


def made(num_classes, items=4, dim=12, noise=0.6, hubs=0.0, seed=0, sizes=None):
    """Vectors around a direction of each class; hubs have the direction that a bit of everything else points to."""
    rng = np.random.default_rng(seed)
    sizes = np.full(num_classes, items) if sizes is None else sizes
    labels = np.repeat(np.arange(num_classes), sizes)
    centres = rng.normal(size=(num_classes, dim)) / np.sqrt(dim)
    centres[:, 0] += 1.0
    centres[rng.random(num_classes) < hubs] = 2 * np.eye(dim)[0]
    return (centres[labels] + noise * rng.normal(size=(len(labels), dim)) / np.sqrt(dim)).astype(np.float32), labels


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


# The bound.


@pytest.mark.parametrize("limit", [0.05, 0.3])
@pytest.mark.parametrize("above", [1.0, 1.2])
def test_evidence_of_independent_units_is_expected_to_be_one(limit, above):
    """By enumeration, of units in which it happens wholly, by half or not: at the limit exactly 1, above it less."""
    values, chances = np.array([0.0, 0.5, 1.0]), np.array([1 - 1.5 * above * limit, above * limit, above * limit / 2])
    expected = 0.0
    for drawn in itertools.product(range(3), repeat=5):
        chance = np.prod(chances[list(drawn)])
        expected += chance * np.exp(log_evidence(values[list(drawn)], np.arange(5)[None], limit))
    assert expected == pytest.approx(1) if above == 1 else expected < 0.99


def test_evidence_of_pairs_is_expected_to_be_at_most_one_though_they_share_classes():
    """Four classes of three kinds, all draws enumerated; the rates of pairs depend on both kinds, one of which is a hub."""
    kinds = np.array([0.6, 0.3, 0.1])
    rates = np.array([[0.0, 0.1, 1.0], [0.1, 0.5, 1.0], [1.0, 1.0, 1.0]])
    limit = float(kinds @ rates @ kinds)
    pairs = list(itertools.combinations(range(4), 2))
    groups = np.array([[pairs.index((0, 1)), pairs.index((2, 3))], [pairs.index((0, 2)), pairs.index((1, 3))]])
    expected = 0.0
    for drawn in itertools.product(range(3), repeat=4):
        of_pairs = np.array([rates[drawn[a], drawn[b]] for a, b in pairs])
        expected += np.prod(kinds[list(drawn)]) * np.exp(log_evidence(of_pairs, groups, limit))
    assert expected == pytest.approx(1)


@pytest.mark.parametrize("limit", [0.01, 0.05, 0.2])
def test_how_many_it_takes(limit):
    """As many as `least_units` says promise if nothing happens, one fewer does not."""
    takes = least_units(limit, 0.95)
    assert is_bounded(np.zeros(takes), np.arange(takes)[None], limit, 0.95)
    assert not is_bounded(np.zeros(takes - 1), np.arange(takes - 1)[None], limit, 0.95)
    assert takes == {0.01: 306, 0.05: 60, 0.2: 14}[limit]


def test_pairings_use_every_class_once():
    for num in (6, 7):
        drawn = pairings(num, 5, np.random.default_rng(0))
        assert drawn.shape == (5, 3, 2)
        assert all(len(set(way.ravel().tolist())) == 6 for way in drawn)
    assert least_where(lambda value: value >= 0.25, -10, 10, 0.1) == pytest.approx(0.3)
    assert least_where(lambda value: value >= 2, -10, 10, 0.1) is None


@pytest.mark.parametrize("population", ["alike", "different", "rare hubs"])
def test_a_promise_is_broken_at_most_as_often_as_it_says(population):
    """200 draws of 40 classes, the least rate that these can promise; similarities made so that the truth is known.

    Rare hubs are the worst case: where none of them is drawn nothing warns, and that is nearly one draw of twenty.
    """
    num_classes, rate, repetitions = 40, 0.148, 200
    share = 0.51 * rate if population == "rare hubs" else 0.0
    by_class = 0.1 if population == "different" else 0.0
    rng = np.random.default_rng(1)
    broken = {"promised": 0, "likely": 0, "observed": 0}
    for _ in range(repetitions):
        codes = np.repeat(np.arange(num_classes), rng.integers(1, 5, num_classes) + (np.arange(num_classes) == 0))
        is_hub, level = (rng.random(num_classes) < share)[codes], by_class * rng.normal(size=num_classes)[codes]
        similarity = 0.1 * rng.normal(size=(len(codes), len(codes))) + level[:, None] + level + 0.6 * (is_hub[:, None] | is_hub)
        pairs = ClassPairs.of(lambda some, others, s=similarity: s[np.ix_(some, others)].astype(np.float32), codes, rng)
        asked = Asked.of_pairs(pairs, 0.95)
        promise = asked.promise(rate)
        assert promise is not None
        plain = least_where(lambda threshold, a=asked: a.false_accepts(threshold).mean() <= rate, -1000, 1000, STEP)
        for way, threshold in (("promised", promise.value), ("likely", asked.likely(rate).value), ("observed", plain)):
            hub_pairs, deviation = 1 - (1 - share) ** 2, np.sqrt(0.01 + 2 * by_class**2)
            true = (1 - hub_pairs) * ndtr(-threshold / deviation) + hub_pairs * ndtr((0.6 - threshold) / deviation)
            broken[way] += true > rate
    assert binomtest(broken["promised"], repetitions, 0.05, alternative="greater").pvalue > 1e-3, broken
    assert binomtest(broken["likely"], repetitions, 0.08, alternative="greater").pvalue > 1e-3, broken
    assert broken["observed"] > 0.2 * repetitions, broken
    if population == "rare hubs":
        assert broken["promised"] > 0, "no worst case"


# What is counted.


def test_rates_are_those_of_a_loop():
    sizes = np.random.default_rng(3).integers(1, 6, 9)
    vectors, labels = made(9, sizes=sizes, seed=3)
    similarity = unit(vectors) @ unit(vectors).T
    pairs = ClassPairs.of(lambda some, others: similarity[np.ix_(some, others)], labels, np.random.default_rng(0))
    assert pairs.groups.shape == (64, 4)
    assert len(pairs.between_classes) == 36  # all pairs of nine classes turn up in 64 pairings
    for threshold in (0.3, 0.6):
        rates = pairs.between.rates(threshold)
        for (a, b), rate in zip(pairs.between_classes, rates, strict=True):
            assert rate == pytest.approx(
                np.mean([similarity[i, j] >= threshold for i in np.flatnonzero(labels == a) for j in np.flatnonzero(labels == b)])
            )
        of_class = [np.mean([rate for both, rate in zip(pairs.between_classes, rates, strict=True) if code in both]) for code in range(9)]
        np.testing.assert_allclose(pairs.of_class(threshold), of_class)
        for code, rate in zip(pairs.within_class, pairs.within.rates(threshold), strict=True):
            inside = [similarity[i, j] >= threshold for i, j in itertools.combinations(np.flatnonzero(labels == code), 2)]
            assert rate == pytest.approx(np.mean(inside))
    steps = np.arange(-500, 1000, 7)
    np.testing.assert_allclose(pairs.between.mean_rates(steps, STEP), [pairs.between.rates(step * STEP).mean() for step in steps])
    for way in pairs.groups:
        assert len(set(pairs.between_classes[way].ravel().tolist())) == 8


def test_large_classes_are_drawn_from():
    labels = np.repeat([0, 1, 2], [100, 3, 40])
    pairs = ClassPairs.of(lambda some, others: np.zeros((len(some), len(others)), dtype=np.float32), labels, np.random.default_rng(0))
    assert sorted(pairs.between.counts.tolist()) == [3 * 32, 3 * 32, 32 * 32]
    assert pairs.within.counts.tolist() == [32 * 31 // 2, 3, 32 * 31 // 2]


# The whole.


@pytest.fixture(scope="module")
def calibrated():
    return likewise.calibrate(*made(120, seed=4), false_accepts=0.08)


def test_a_promise_holds_for_other_classes_of_the_same_kind(calibrated):
    assert calibrated.same.is_promised
    vectors, labels = made(300, seed=5)
    similarity = unit(vectors) @ unit(vectors).T
    others = labels[:, None] != labels
    at = similarity >= calibrated.same.value
    assert 0.01 < at[others].mean() < 0.08
    assert calibrated.same.observed < 0.08
    same = ~others & ~np.eye(len(labels), dtype=bool)
    assert calibrated.same.kept.low < at[same].mean() < calibrated.same.kept.high
    at_once = {promise.rate: promise for promise in calibrated.promises}
    assert sorted(at_once) == [0.05, 0.1, 0.2], "120 classes are 60 pairs, which just promise 5 % where nothing happens"
    assert at_once[0.2].value < at_once[0.1].value < calibrated.same.value < at_once[0.05].value
    assert at_once[0.05].observed < 0.005
    assert at_once[0.2].kept.estimate > calibrated.same.kept.estimate


def test_known_or_unknown(calibrated):
    """60 classes as a gallery, 60 unknown."""
    known = calibrated.known
    assert calibrated.num_unknown_classes == 60
    assert calibrated.num_known_items == 240
    vectors, labels = made(300, seed=6)
    vectors = unit(vectors)
    is_known = labels < 60
    nearest = (vectors[~is_known] @ vectors[is_known].T).max(axis=1)
    assert known.is_promised
    assert (nearest >= known.value).mean() < 0.08
    inside = vectors[is_known] @ vectors[is_known].T
    np.fill_diagonal(inside, -1)
    assert (inside.max(axis=1) >= known.value).mean() == pytest.approx(known.kept.estimate, abs=0.1)
    gallery = {"gallery": vectors[is_known], "gallery_labels": labels[is_known] + 1000}
    with_gallery = likewise.calibrate(*made(120, seed=4), false_accepts=0.03, **gallery)
    assert with_gallery.num_unknown_classes == 120
    assert with_gallery.known is not None
    assert with_gallery.known.is_promised


def test_probabilities_come_true_on_other_classes(calibrated):
    vectors, labels = made(200, seed=7)
    similarity = unit(vectors) @ unit(vectors).T
    first, second = np.triu_indices(len(labels), 1)
    values, same = similarity[first, second], labels[first] == labels[second]
    prior = same.mean()
    predicted = calibrated.probability(values, prior=prior)
    assert (np.diff(calibrated.probability(np.linspace(-1, 1, 500))) >= 0).all()
    for low, high in ((0, 0.01), (0.01, 0.05), (0.05, 0.2)):
        chosen = (predicted >= low) & (predicted < high)
        assert chosen.sum() > 200
        assert same[chosen].mean() == pytest.approx(predicted[chosen].mean(), rel=0.5, abs=0.004)
    assert same[predicted == predicted.max()].mean() > predicted.max(), "where only pairs of one class were seen it stays cautious"
    for shown in calibrated.reliability:
        assert shown.observed == pytest.approx(shown.predicted, abs=0.12)
    assert sum(shown.weight for shown in calibrated.reliability) == pytest.approx(1)
    with pytest.raises(ValueError, match="prior is 1"):
        calibrated.probability(0.5, prior=1)


def test_the_ratio_is_that_of_the_densities():
    """Where both densities are normal, log r is known."""
    at = SimilarityHistogram(np.zeros(100)).middle
    within, between = (SimilarityHistogram(np.exp(-(((at - mean) / 0.2) ** 2) / 2)) for mean in (0.4, 0.0))
    fitted = MatchProbability.fit(
        SimilarityHistogram(within.weight / within.weight.sum()), SimilarityHistogram(between.weight / between.weight.sum()), 1000
    )
    for value in (-0.2, 0.1, 0.3, 0.6):
        true = 1 / (1 + np.exp(-(value * 0.4 - 0.08) / 0.04))
        assert fitted(value) == pytest.approx(true, abs=0.02)
    assert fitted(-1.0) == pytest.approx(1 / 1001, rel=0.01), "no more certain than the classes are many"


def test_the_curve_runs_from_all_to_nothing(calibrated):
    points = [(point.false_accepts, point.kept) for point in calibrated.roc]
    assert points[0] == pytest.approx((1, 1))
    assert points[-1] == pytest.approx((0, 0), abs=1e-12)
    assert points == sorted(points, reverse=True)
    near = min(calibrated.roc, key=lambda point: abs(point.threshold - calibrated.same.value))
    assert near.false_accepts == pytest.approx(calibrated.same.observed, abs=0.01)


def test_too_few_classes_are_told(calibrated):
    words = " ".join(calibrated.words)
    assert words.startswith(f"from a similarity of {calibrated.same.value:.3f} on, two items pass for one class: ")
    assert "of pairs of different classes at most 8 %, for classes never seen and with 95 % confidence" in words
    few = likewise.calibrate(*made(30, seed=8))
    assert not few.same.is_promised
    assert few.same.observed < 0.01
    assert [promise.rate for promise in few.promises] == [0.2]
    assert "what 30 classes can promise: at most 20 % from" in few.words[1]
    assert "probably at most 1 % elsewhere (a promise takes 612 classes and there are 30)" in few.words[0]
    assert "(a promise takes 306 classes and there are 15)" in few.words[2]
    assert any("5 classes are few" in sentence for sentence in likewise.calibrate(*made(5, seed=8)).words)
    two = likewise.calibrate(*made(2, seed=8))
    assert not two.same.is_promised
    assert two.reliability == ()
    only_one_alike = likewise.calibrate(made(3, items=2)[0], [0, 0, 1, 2, 3, 4], seed=1)
    assert only_one_alike.num_classes == 5
    copies = likewise.calibrate(np.ones((120, 3)), np.arange(120) // 2, false_accepts=0.2)
    assert not copies.same.is_promised
    assert "as good as equal" in copies.words[0]


def test_saved_and_read(calibrated):
    assert Calibration.from_json(calibrated.to_json()) == calibrated
    assert likewise.Calibration is Calibration
    table = json.loads(calibrated.to_json())
    for text, words in {
        "{": "not JSON",
        json.dumps(table | {"version": 99}): "not of version 1",
        json.dumps(table | {"same": "high"}): "same",
        json.dumps(table | {"colour": 1}): "colour",
    }.items():
        with pytest.raises(ValueError, match=words):
            Calibration.from_json(text)
    assert replace(calibrated, known=None).words[0] == calibrated.words[0]


def test_the_same_for_the_same_seed(calibrated):
    assert likewise.calibrate(*made(120, seed=4), false_accepts=0.08) == calibrated
    other = likewise.calibrate(*made(120, seed=4), false_accepts=0.08, seed=1)
    assert other.same.value == pytest.approx(calibrated.same.value, abs=0.01)


def test_what_a_user_hands_in():
    vectors, labels = made(12)
    for arguments, words in (
        ({"false_accepts": 1.0}, "false_accepts is 1.0"),
        ({"confidence": 95}, "confidence is 95"),
        ({"gallery": vectors}, "both or neither"),
        ({"gallery": vectors, "gallery_labels": labels}, "expected others"),
        ({"labels": labels[:5]}, "5 labels for 48 embeddings"),
        ({"labels": np.zeros(48, dtype=int)}, "1 class to calibrate with"),
        ({"labels": np.arange(48)}, "only one of its class"),
    ):
        with pytest.raises(ValueError, match=words):
            likewise.calibrate(**{"embeddings": vectors, "labels": labels} | arguments)


def test_counting_in_parts_changes_nothing(monkeypatch):
    rng = np.random.default_rng(4)
    labels = np.repeat(np.arange(12), [1, 2, 3, 5, 40, 2, 9, 1, 6, 33, 2, 2])
    vectors = rng.normal(size=(12, 6))[labels] + rng.normal(size=(len(labels), 6))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    pairs = ClassPairs.of(lambda some, others: vectors[some] @ vectors[others].T, labels, np.random.default_rng(0))
    steps = np.arange(-900, 1000, 100)
    chosen = rng.random(len(pairs.between.start)) < 0.5
    for unit, (start, count) in enumerate(zip(pairs.within.start, pairs.within.counts, strict=True)):
        of_class = np.flatnonzero(labels == pairs.within_class[unit])
        assert count == min(len(of_class), 32) * (min(len(of_class), 32) - 1) // 2
        if len(of_class) <= 32:
            expected = (vectors[of_class] @ vectors[of_class].T)[np.triu_indices(len(of_class), 1)]
            np.testing.assert_allclose(pairs.within.values[start : start + count], expected, rtol=1e-5, atol=1e-6)
    rates = [pairs.between.rates(step * 0.001).mean() for step in steps]
    found = []
    for part in (class_pairs.PART, 50, 1):
        monkeypatch.setattr(class_pairs, "PART", part)
        found.append((pairs.between.mean_rates(steps, 0.001), pairs.between.histogram(chosen).weight))
        np.testing.assert_allclose(found[-1][0], rates, rtol=1e-9)
        np.testing.assert_allclose(found[-1][1], found[0][1], rtol=1e-9)
