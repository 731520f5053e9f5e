"""Answers: what the JSON interface takes and gives, as /openapi.json describes it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Value = str | int | float | bool | None
Mark = Literal["right", "wrong"]


class ErrorAnswer(BaseModel):
    error: str = Field(description="Why, and what to do.")


class ItemAnswer(BaseModel):
    """An image of the index."""

    id: int
    name: str = Field(description="The name of its file.")
    label: str | None = Field(description="Its class, where it is known.")
    metadata: dict[str, Value] = Field(description="Further columns.")
    image: str = Field(description="Its address here; ?size=thumb or full.")


class NeighbourAnswer(ItemAnswer):
    """An image found by a search."""

    similarity: float = Field(description="Cosine similarity to the query.")
    probability: float | None = Field(description="That both show the same, at even odds beforehand; null if the model was not calibrated.")
    words: str | None = Field(description="What the similarity means; null if the model was not calibrated.")
    mark: Mark | None = Field(description="What was said of it for this query.")


class QueryAnswer(BaseModel):
    """What was searched with."""

    picture: str | None = Field(description="The handle of an uploaded picture, to search, explain and mark with again.")
    item: ItemAnswer | None = Field(description="The image of the index.")
    image: str = Field(description="Its address here; ?size=thumb or full.")


class VerdictAnswer(BaseModel):
    """Whether what the query shows is in the index at all."""

    is_known: bool | None = Field(description="null if that cannot be told.")
    words: str


class SearchAnswer(BaseModel):
    query: QueryAnswer
    verdict: VerdictAnswer
    neighbours: list[NeighbourAnswer] = Field(description="The most similar first; an image of the index is not its own neighbour.")
    seconds: float = Field(description="Taken to embed and to search.")


class ColumnAnswer(BaseModel):
    name: str
    num_items: int = Field(description="Images that have a value there.")
    values: list[str] = Field(description="Some of them, the most frequent first.")


class ColumnsAnswer(BaseModel):
    columns: list[ColumnAnswer] = Field(description="label first, where there are labels.")


class ItemsAnswer(BaseModel):
    items: list[ItemAnswer]


class BoxAnswer(BaseModel):
    """A rectangle of a picture, in shares of its sides."""

    left: float
    top: float
    right: float
    bottom: float


class RegionsAnswer(BaseModel):
    """A region of the query and one of the image that was found, which match."""

    a: BoxAnswer
    b: BoxAnswer
    contribution: float = Field(description="What they add to the similarity,")
    share: float | None = Field(description="and what share of it that is.")


class SeenAnswer(BaseModel):
    """A picture as the model sees it."""

    picture: str = Field(description="The part of it that the model sees, as a data: address.")
    grid: list[int] = Field(description="Rows and columns of places.")
    heat: list[list[float]] = Field(description="What each place adds to the similarity.")
    rest: float = Field(description="What is of no place adds.")


class ExplainAnswer(BaseModel):
    similarity: float = Field(description="The sum of heat and rest, of either picture.")
    meaning: str | None
    a: SeenAnswer = Field(description="The query.")
    b: SeenAnswer = Field(description="The image that was found.")
    pairs: list[RegionsAnswer] = Field(description="The regions that match most, first the best.")
    notes: list[str]


class IndexAnswer(BaseModel):
    """What is served, and within which limits."""

    name: str
    num_items: int
    store: str
    is_calibrated: bool
    explains: bool
    takes_marks: bool
    upload_bytes: int
    pixels: int
    most_results: int
    version: str


class HealthAnswer(BaseModel):
    status: Literal["ok"]
    num_items: int


class MarkRequest(BaseModel):
    """Right: query and item show the same. null takes a mark back."""

    model_config = ConfigDict(extra="forbid")

    query_id: int | None = Field(default=None, description="The image of the index that was searched with,")
    picture: str | None = Field(default=None, description="or the handle of the picture that was.")
    id: int = Field(description="The image that was found.")
    mark: Mark | None


class MarkAnswer(BaseModel):
    id: int
    mark: Mark | None
    num_marks: int = Field(description="Marks that the index has now.")


class PairAnswer(BaseModel):
    """A marked pair."""

    query_id: int | None = Field(description="null for an uploaded picture, and for an image that is no longer in the index.")
    id: int | None
    query_name: str
    name: str
    mark: Mark
    similarity: float
    marked_at: str


class MarksAnswer(BaseModel):
    pairs: list[PairAnswer]
