"""The one scorer: means of what per_query finds, clustering beside them, what is unmatched, and what is left out."""

import numpy as np
import pytest
import torch

from likewise.evaluation import evaluate, mean_intervals, pack_bits, per_query, score
from likewise.evaluation.certainty.uncertainty import few_in_words
from likewise.evaluation.clustering import clustering_scores
from likewise.evaluation.embedding_file import EmbeddingFile
from likewise.evaluation.scores import summarise


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


def test_everything_the_scorer_gives_is_that_of_its_parts():
    embeddings, labels = clusters()
    labels = torch.cat([labels[:-1], torch.tensor([99])])
    embeddings = embeddings + torch.randn(embeddings.shape, generator=torch.Generator().manual_seed(1))
    scores = score(embeddings, labels, metrics=("R@K", "mAP", "AMI"), intervals="class", seed=3)
    queries = per_query(embeddings, labels, metrics=("R@K", "mAP"))
    expected = {name: values[queries.matched].mean().item() for name, values in queries.scores.items()}
    assert scores.means == {**expected, **clustering_scores(embeddings, labels, metrics=("AMI",), seed=3)}
    assert scores.intervals == mean_intervals([queries])
    assert (scores.num_unmatched, scores.left_out) == (1, ())
    unmatched = "1 query has nothing of its class to find and is left out of the means"
    assert scores.notes == (unmatched, few_in_words(6))
    assert score(embeddings, labels, metrics=("R@K",)).notes == (unmatched,)


def test_evaluate_and_summarise_are_the_scorer():
    embeddings, labels = clusters()
    halves = {"gallery": embeddings[1::2], "gallery_labels": labels[1::2]}
    scores = score(embeddings[::2], labels[::2], **halves, intervals="query")
    assert evaluate(embeddings[::2], labels[::2], **halves) == {**scores.means, "unmatched": 0}
    file = EmbeddingFile(embeddings[::2].numpy(), labels[::2].numpy(), embeddings[1::2].numpy(), labels[1::2].numpy())
    summary = summarise(file, intervals="query")
    assert (summary.scores.means, summary.scores.intervals) == (scores.means, scores.intervals)


@pytest.mark.filterwarnings("default")
def test_a_k_larger_than_the_gallery_is_left_out_with_a_warning():
    embeddings, labels = clusters(num_classes=2, each=2)
    with pytest.warns(UserWarning, match="^R@4 and R@8 are left out: the gallery has only 3 items besides the query$"):
        scores = evaluate(embeddings, labels)
    assert list(scores) == ["R@1", "R@2", "RP", "MAP@R", "mAP", "unmatched", "NMI", "AMI"]
    assert scores["R@2"] == evaluate(embeddings, labels, ks=(2,))["R@2"]
    with pytest.warns(UserWarning, match="^R@5 is left out: the gallery has only 4 items$"):
        assert set(evaluate(embeddings, labels, gallery=embeddings, gallery_labels=labels, ks=(4, 5), metrics=("R@K",))) == {
            "R@4",
            "unmatched",
        }
    with pytest.warns(UserWarning, match="R@9 is left out"):
        assert set(evaluate(embeddings, labels, ks=(9,), metrics=("R@K", "NMI"))) == {"unmatched", "NMI"}
    with pytest.raises(ValueError, match="nothing can be scored: R@9 is left out: the gallery has only 3 items"):
        evaluate(embeddings, labels, ks=(9,), metrics=("R@K",))


def test_clustering_is_left_out_where_every_item_is_alone():
    embeddings, _ = clusters(num_classes=3, each=2)
    halves = {"gallery": embeddings[1::2], "gallery_labels": [0, 1, 2], "ks": (1,)}
    with pytest.warns(UserWarning, match="NMI and AMI are left out: each of the 3 items to cluster is the only one of its class"):
        assert set(evaluate(embeddings[::2], [0, 1, 2], **halves)) == {"R@1", "RP", "MAP@R", "mAP", "unmatched"}
    with pytest.raises(ValueError, match="nothing can be scored: NMI is left out"):
        evaluate(embeddings, torch.arange(6), metrics=("NMI",))


def test_what_cannot_be_scored_is_a_note_where_that_is_asked_for():
    embeddings, _ = clusters(num_classes=2, each=2)
    scores = score(embeddings, torch.arange(4), unscoreable="note", intervals="class")
    assert (scores.means, scores.intervals, scores.num_unmatched) == ({}, {}, 4)
    assert scores.notes == (
        "none of the 4 queries shares its label with any other item: retrieval has no score; check the labels",
        "NMI and AMI are left out: each of the 4 items to cluster is the only one of its class",
    )
    assert score(embeddings, [0, 0, 1, 1], ks=(4,), metrics=("R@K",), unscoreable="note").means == {}


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
