"""What was found, as people read it: the weights of each side as a formula, and the method as a file."""

from __future__ import annotations

from typing import Any

from likewise.configuration import Named, as_table
from likewise.losses.weight_family import Shape, WeightFamily
from likewise.methods import Method

# A weight and what its row's sum is made of, by shape; X stands for the scaled distance to the threshold.
WRITTEN: dict[Shape, tuple[str, str]] = {
    "exponential": ("exp(X)", "exp(X)"),
    "sigmoid": ("1 / (1 + exp(-X))", "log(1 + exp(X))"),
    "squared": ("max(0, X)", "max(0, X)^2 / 2"),
    "hinge": ("[X > 0]", "max(0, X)"),
}


def formula_of(loss: WeightFamily) -> tuple[str, str]:
    """The weights of positives and of negatives, each in a line."""
    pull = _side(loss.pull, f"{loss.pull_sharpness:.3g} ({loss.pull_threshold:.3g} - s)", loss.pull_relative, "positives")
    push = _side(loss.push, f"{loss.push_sharpness:.3g} (s - {loss.push_threshold:.3g})", loss.push_relative, "negatives")
    return f"w+(s) = {pull}", f"w-(s) = {push}"


def _side(shape: Shape, x: str, relative: float, others: str) -> str:
    weight, grown = WRITTEN[shape]
    own = weight.replace("X", x)
    if round(relative, 2) == 0:
        return own
    power = "" if round(relative, 2) == 1 else f"^{relative:.2g}"
    return f"{own if ' / ' not in own else f'[{own}]'} / (1 + sum of {grown.replace('X', 'x')} over the row's {others}){power},  x = {x}"


def method_file(method: Method, *, about: str) -> str:
    """The method as a file that `--methods` and `likewise train` take."""
    lines = [f"# {line}" for line in about.splitlines()]
    lines += [f"{name} = {_value(getattr(method, name))}" for name in ("title", "paper", "summary")]
    for name in ("loss", "mining", "sampler"):
        named = getattr(method, name)
        if isinstance(named, Named):
            lines += ["", f"[{name}]", *(f"{key} = {_value(value)}" for key, value in as_table(named).items())]
    lines += ["", "[rates]", *(f"{key} = {_value(value)}" for key, value in as_table(method.rates).items())]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    """As TOML has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)
