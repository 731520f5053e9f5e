"""The weight figure draws the curves of `weight_curve`, in the paper's colours."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex
from torch import Tensor

from likewise.losses import LOSSES
from likewise.pair_weighting import weight_curve
from likewise.pairs import Pairs, masked_mean
from likewise.reports.weight_curves import COLOURS, FIGURE_1, NEGATIVES, POSITIVES, weight_curves_figure


def test_every_panel_shows_its_loss() -> None:
    figure = weight_curves_figure()
    panels = [axis for axis in figure.axes if axis.axison]
    assert [panel.get_title() for panel in panels] == [name.replace("_", " ") for name in FIGURE_1]
    for name, panel in zip(FIGURE_1, panels, strict=True):
        for side, line in zip(("positive", "negative"), panel.lines, strict=False):
            curve = weight_curve(
                name, positives=POSITIVES, negatives=NEGATIVES, vary=side, similarities=np.asarray(line.get_xdata()).tolist()
            )
            assert np.array_equal(line.get_ydata(), curve.weights.numpy())
            assert to_hex(line.get_color()) == COLOURS[side]
            assert line.get_linestyle() == {"positive": "-", "negative": ":"}[side]
            low, high = panel.get_ylim()
            assert low < curve.weights.min()
            assert curve.weights.max() < high
    assert figure.get_supxlabel() == "cosine similarity"
    assert figure.get_supylabel() == "weight"


def test_mining_and_context_reach_the_curves() -> None:
    figure = weight_curves_figure(["raw"], mining="vthm", positives=(0.3,), negatives=(0.2, 0.0))
    line = figure.axes[0].lines[1]
    weights = np.asarray(line.get_ydata())
    assert np.array_equal(weights > 0, np.asarray(line.get_xdata()) > 0.3 - 0.1)
    assert "mining: vthm" in figure.axes[1].get_legend().get_title().get_text()


def test_loss_objects_are_drawn_beside_names() -> None:
    class Flat:
        def per_anchor(self, pairs: Pairs) -> Tensor:
            return masked_mean(pairs.negatives.similarity, pairs.negatives.mask) - masked_mean(
                pairs.positives.similarity, pairs.positives.mask
            )

    figure = weight_curves_figure([Flat(), "raw", LOSSES["raw"](alpha=5.0)])
    flat, by_name, by_object = figure.axes[:3]
    assert [panel.get_title() for panel in (flat, by_name, by_object)] == ["Flat", "raw", "RelativeAbsolute"]
    assert np.allclose(flat.lines[0].get_ydata(), 1 / 3)  # of the varied positive and two others
    assert np.allclose(flat.lines[1].get_ydata(), 1 / 4)
    assert not np.allclose(by_name.lines[0].get_ydata(), by_object.lines[0].get_ydata())


def test_the_figure_is_written(tmp_path: Path) -> None:
    path = tmp_path / "curves.png"
    weight_curves_figure(["raw", "contrastive"], path=path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_no_names() -> None:
    with pytest.raises(ValueError, match="at least one loss"):
        weight_curves_figure([])
