"""Likeness: what a similarity means, in words and as a probability, where the model is calibrated (see docs/calibration.md)."""

from __future__ import annotations

from likewise.evaluation.calibration import Calibration

VERY_LIKELY, PROBABLY, PERHAPS, UNLIKELY = "very likely the same", "probably the same", "perhaps", "unlikely"
UNKNOWN = "unknown: nothing here is nearer than other kinds of things are"
NOT_CALIBRATED = "the model is not calibrated: `likewise calibrate` finds out what its similarities mean"


def probability_of(similarity: float, calibration: Calibration) -> float:
    """That two items of this similarity are of one class, if before anything is known of them one pair of two is."""
    return float(calibration.probability(similarity))


def in_words(similarity: float, calibration: Calibration) -> str:
    """Whether a query and an image that was found are of one class. Rates are those that the calibration was asked for.

    very likely the same  passes `same` and `known`: so near to the nearest of a whole gallery, items of other classes come at that rate
    probably the same     passes `same`, which a pair of different classes does at that rate; of many images some will
    perhaps               at least as usual for two of one class as for two of different ones
    unlikely              less usual
    """
    if similarity >= calibration.same.value:
        return VERY_LIKELY if calibration.known is not None and similarity >= calibration.known.value else PROBABLY
    return PERHAPS if probability_of(similarity, calibration) >= 0.5 else UNLIKELY


def is_known(nearest: float, calibration: Calibration) -> bool | None:
    """Whether a query passes for one whose class is there, by the similarity of the nearest image; None where that was not calibrated."""
    return None if calibration.known is None else nearest >= calibration.known.value
