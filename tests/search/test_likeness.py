"""What a similarity means, in words: at the thresholds of the calibration, and nowhere else."""

from dataclasses import replace

import numpy as np
import pytest

from likewise.evaluation.calibration import Calibration, calibrate
from likewise.search.likeness import PERHAPS, PROBABLY, UNLIKELY, VERY_LIKELY, in_words, is_known, probability_of


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 6)
    made = calibrate(rng.normal(size=(40, 16))[labels] + 0.9 * rng.normal(size=(240, 16)), labels, false_accepts=0.05)
    assert made.known is not None
    assert made.known.value > made.same.value
    return made


def test_words_change_at_the_thresholds(calibration: Calibration) -> None:
    assert calibration.known is not None
    known, same = calibration.known.value, calibration.same.value
    assert [in_words(value, calibration) for value in (1.0, known, known - 1e-6, same, same - 1e-6)] == [
        VERY_LIKELY,
        VERY_LIKELY,
        PROBABLY,
        PROBABLY,
        PERHAPS,
    ]
    assert in_words(-0.5, calibration) == UNLIKELY
    said = [in_words(value, calibration) for value in np.linspace(1, -1, 400)]
    assert list(dict.fromkeys(said)) == [VERY_LIKELY, PROBABLY, PERHAPS, UNLIKELY]  # each in one piece
    turn = next(value for value in np.linspace(1, -1, 400) if in_words(value, calibration) == UNLIKELY)
    assert probability_of(turn, calibration) < 0.5 <= probability_of(turn + 2 / 399, calibration)


def test_known_by_the_nearest(calibration: Calibration) -> None:
    assert calibration.known is not None
    assert is_known(calibration.known.value, calibration)
    assert is_known(calibration.known.value - 1e-6, calibration) is False
    untried = replace(calibration, known=None)
    assert is_known(1.0, untried) is None
    assert in_words(1.0, untried) == PROBABLY
