"""What was found, in writing: the formula gives the weights that the loss has, and the file gives the method back."""

import math
import re
from pathlib import Path

import pytest
import torch

from likewise.discovery.formula import formula_of, method_file
from likewise.discovery.weight_search import FILE_OF_FAMILY
from likewise.losses.weight_family import WeightFamily
from likewise.methods import load_method
from likewise.pair_weighting import weight_curve

SIDES = {"positive": (0.8, 0.5), "negative": (0.4, 0.1, -0.3)}


def evaluated(line: str, s: float, others: list[float]) -> float:
    """The written formula, read as a calculator would."""
    text = line.partition(" = ")[2]
    x_text = None
    if ",  x = " in text:
        text, _, x_text = text.partition(",  x = ")
    names = {"exp": math.exp, "log": math.log, "max": max}

    def number(expression: str, **values: float) -> float:
        expression = re.sub(r"\[(.*?) > 0\]", r"(1.0 * ((\1) > 0))", expression).replace("[", "(").replace("]", ")").replace("^", "**")
        expression = re.sub(r"([\d.e+-]+) \(", r"\1 * (", expression)
        return float(eval(expression, {"__builtins__": {}}, names | values))

    if x_text is None:
        return number(text, s=s)
    own, _, rest = text.partition(" / (1 + sum of ")
    grown, _, power = rest.partition(" over the row's ")
    share = float(power.partition(")^")[2] or 1)
    total = sum(number(grown, x=number(x_text, s=other)) for other in [s, *others])
    return number(own, s=s) / (1 + total) ** share


@pytest.mark.parametrize("shape", ["exponential", "sigmoid", "squared", "hinge"])
@pytest.mark.parametrize("relative", [0.0, 0.5, 1.0])
def test_the_formula_is_the_weight(shape: str, relative: float) -> None:
    """As `weight_curve` derives it from the loss itself."""
    loss = WeightFamily(
        pull=shape,  # type: ignore[arg-type]
        push=shape,  # type: ignore[arg-type]
        pull_sharpness=3.0,
        push_sharpness=7.0,
        pull_threshold=0.75,
        push_threshold=0.25,
        pull_relative=relative,
        push_relative=relative,
    )
    for side, line in zip(("positive", "negative"), formula_of(loss), strict=True):
        grid = torch.tensor([-0.61, 0.13, 0.4, 0.83], dtype=torch.float64)
        curve = weight_curve(loss, positives=SIDES["positive"], negatives=SIDES["negative"], vary=side, similarities=grid)  # type: ignore[arg-type]
        for s, weight in zip(grid.tolist(), curve.weights.tolist(), strict=True):
            assert evaluated(line, s, list(SIDES[side])) == pytest.approx(weight, rel=1e-9, abs=1e-12), line


def test_raw_is_one_of_the_family() -> None:
    grid = torch.linspace(-0.9, 0.9, 11, dtype=torch.float64)
    for side in ("positive", "negative"):
        curves = [
            weight_curve(name, positives=SIDES["positive"], negatives=SIDES["negative"], vary=side, similarities=grid)  # type: ignore[arg-type]
            for name in ("raw", "weight_family")
        ]
        torch.testing.assert_close(curves[0].weights, curves[1].weights, rtol=1e-12, atol=1e-15)


def test_a_steep_weight_stays_finite() -> None:
    """An exponential that is not shared with its row goes beyond what float32 holds, and is continued as a line."""
    loss = WeightFamily(push_sharpness=400.0, push_relative=0.0, push_threshold=0.0)
    curve = weight_curve(loss, positives=(0.5,), negatives=(0.4,), vary="negative", similarities=torch.tensor([0.99]))
    assert curve.weights.isfinite().all()
    assert curve.weights > 1e20


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"pull": "cubic"}, "pull='cubic': expected one of exponential, sigmoid, squared, hinge"),
        ({"push_relative": 1.5}, "push_relative=1.5: expected a share from 0 to 1"),
        ({"pull_sharpness": 0.0}, "pull_sharpness=0.0 must be above 0"),
    ],
)
def test_what_is_no_member_of_the_family(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        WeightFamily(**settings)  # type: ignore[arg-type]


def test_the_file_is_the_method(tmp_path: Path) -> None:
    method = load_method(FILE_OF_FAMILY)
    (tmp_path / "found.toml").write_text(method_file(method, about='two "lines"\nof words'))
    again = load_method(tmp_path / "found.toml")
    assert (again.name, again.title, again.loss, again.mining, again.sampler, again.rates) == (
        "found",
        method.title,
        method.loss,
        method.mining,
        method.sampler,
        method.rates,
    )
