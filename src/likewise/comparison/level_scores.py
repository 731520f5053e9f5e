"""Scores of the levels of one training: each combination of them beside all together, as a score piece holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from likewise.evaluation.retrieval import PerQuery
from likewise.evaluation.scores import Scores
from likewise.models.backbones import Level

Levels = tuple[Level, ...]


def level_name(method: str, levels: Levels) -> str:
    """How a combination of a method's levels is called in results: "ranked_list_multilevel [low+mid]"."""
    return f"{method} [{'+'.join(levels)}]"


def joined_queries(whole: Scores, of_levels: Mapping[Levels, Scores]) -> PerQuery:
    """The queries of all levels together and of the combinations in one table; `queries_of` gives each again."""
    queries = _queries(whole)
    scores = {level_name(name, levels): by for levels, found in of_levels.items() for name, by in _queries(found).scores.items()}
    return replace(queries, scores=queries.scores | scores)


def queries_of(joined: PerQuery, levels: Levels = ()) -> PerQuery:
    """The queries scored with these levels, or, where none are given, with all together."""
    ending = level_name("", levels) if levels else ""
    names = [name for name in joined.scores if name.endswith(ending) and (levels or not name.endswith("]"))]
    return replace(joined, scores={name.removesuffix(ending): joined.scores[name] for name in names})


def unlike_scores(facts: Mapping[str, Any], joined: PerQuery) -> str:
    """What of the scores of a score piece is not the mean of its queries, in words; empty if all are."""
    whole = queries_of(joined).unlike(facts["scores"])
    of_levels = (queries_of(joined, tuple(entry["levels"])).unlike(entry["scores"]) for entry in facts.get("levels", []))
    return whole or next(filter(None, of_levels), "")


def _queries(scores: Scores) -> PerQuery:
    assert scores.per_query is not None  # the deciding score is of retrieval
    return scores.per_query
