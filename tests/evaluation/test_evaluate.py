"""`evaluate`: means of what per_query finds, clustering scores beside them, and what is unmatched."""

import numpy as np
import pytest
import torch

from likewise.evaluation import evaluate, pack_bits, per_query


def clusters(num_classes=6, each=8):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(num_classes).repeat_interleave(each)
    centres = torch.nn.functional.normalize(torch.randn(num_classes, 16, generator=generator), dim=1)
    return centres[labels] + 0.15 * torch.randn(len(labels), 16, generator=generator), labels


def test_all_names_in_order_and_range():
    scores = evaluate(*clusters())
    assert set(scores) == {"R@1", "R@2", "R@4", "R@8", "RP", "MAP@R", "mAP", "NMI", "AMI", "unmatched"}
    assert all(0 <= value <= 1 for value in scores.values())
    assert scores["R@1"] <= scores["R@2"] <= scores["R@8"]
    assert scores["MAP@R"] <= scores["RP"]
    assert scores["unmatched"] == 0


def test_only_what_is_asked():
    embeddings, labels = clusters()
    assert set(evaluate(embeddings, labels, metrics=("R@K", "MAP@R"), ks=(1, 3))) == {"R@1", "R@3", "MAP@R", "unmatched"}
    assert set(evaluate(embeddings, labels, metrics=("NMI",))) == {"NMI"}


def test_unmatched_queries_are_counted_and_left_out():
    embeddings, labels = clusters()
    labels = labels.clone()
    labels[:3] = torch.tensor([100, 101, 102])
    found = per_query(embeddings, labels)
    scores = evaluate(embeddings, labels, metrics=("R@K", "mAP"))
    assert scores["unmatched"] == 3
    assert scores["mAP"] == pytest.approx(found.scores["mAP"][3:].mean().item(), rel=1e-12)


def test_gallery_form_with_string_labels():
    embeddings, labels = clusters()
    names = np.array([f"c{label}" for label in labels.tolist()])
    scores = evaluate(
        embeddings[::2].numpy(), names[::2], gallery=embeddings[1::2].numpy(), gallery_labels=names[1::2], metrics=("R@K", "NMI")
    )
    expected = evaluate(embeddings[::2], labels[::2], gallery=embeddings[1::2], gallery_labels=labels[1::2], metrics=("R@K", "NMI"))
    assert scores == expected


def test_one_class_only_is_perfect():
    embeddings, labels = clusters()
    scores = evaluate(embeddings, torch.zeros_like(labels))
    assert all(value == 1 for name, value in scores.items() if name != "unmatched")


def test_packed_bits():
    embeddings, labels = clusters()
    scores = evaluate(pack_bits(embeddings), labels, metric="hamming")
    assert set(scores) == set(evaluate(embeddings, labels))
    assert scores["R@1"] > 0.8


def test_bad_input_is_named():
    embeddings, labels = clusters()
    with pytest.raises(ValueError, match="none of the 48 queries shares its label with any other item"):
        evaluate(embeddings, torch.arange(48))
    with pytest.raises(ValueError, match="metrics are"):
        evaluate(embeddings, labels, metrics=("recall",))
    with pytest.raises(ValueError, match="metrics are"):
        evaluate(embeddings, labels, metrics=())
    broken = embeddings.clone()
    broken[7] = torch.nan
    with pytest.raises(ValueError, match="row 7 of embeddings"):
        evaluate(broken, labels)
