"""The loop: what it draws, in what order it sees the data, and whom it tells."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from likewise.models.network import NetworkSpec, make_network
from likewise.models.whitening import whiten
from likewise.training.devices import Devices
from likewise.training.feeds import make_feed
from likewise.training.fit import fit
from likewise.training.loop import Listener, Row, Training, network_spec, untrained_spec
from likewise.training.scoring import embed_feed

from .tiny import HELD_OUT, PROTOCOL, assert_equal_weights, method, pictures, training, vectors

QUICKEST = replace(PROTOCOL, backbone="identity", batch=8)  # for many steps


def seeds_of_steps(seed: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What each step's draws begin with."""
    found = training(method("margin"), seed=seed)
    own, seen = found.objectives.forward, []

    def watched(*given: Any) -> Any:
        seen.append(torch.initial_seed())
        return own(*given)

    monkeypatch.setattr(found.objectives, "forward", watched)
    found.run()
    return seen


def test_miners_draw_anew_in_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (seeds_of_steps(seed, monkeypatch) for seed in (0, 1))
    assert len({*first, *second}) == 2 * PROTOCOL.steps
    assert seeds_of_steps(0, monkeypatch) == first


def test_the_callers_random_state_stays_as_it_is() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    training(method("margin")).run()
    assert torch.equal(torch.rand(3), expected)


def test_every_item_is_seen_in_an_epoch() -> None:
    found = training(method("proxy_nca"), replace(PROTOCOL, steps=12))
    seen = []
    stream = found._stream()
    for _ in range(len(found.sampler)):
        _, labels, positions = next(stream)
        assert torch.equal(labels, torch.from_numpy(found.feed.codes())[positions])
        seen += positions.tolist()
    assert sorted(seen) == list(range(len(found.feed)))


class Heard(Listener):
    def __init__(self) -> None:
        self.steps: list[int] = []
        self.rows: list[Row] = []
        self.saved: list[int] = []

    def step(self, step: int) -> None:
        self.steps.append(step)

    def row(self, row: Row) -> None:
        self.rows.append(row)

    def wants_checkpoint(self, step: int) -> bool:
        return step % 2 == 0

    def save(self, state: dict[str, Any]) -> None:
        self.saved.append(state["step"])


def test_a_listener_hears_every_step_and_row() -> None:
    heard = Heard()
    found = training(method("raw"), replace(QUICKEST, steps=150))
    assert found.run(heard)
    assert heard.steps == list(range(1, 151))
    assert [row["step"] for row in heard.rows] == list(range(3, 151, 3))  # about fifty
    assert heard.saved == list(range(2, 150, 2))  # none at the end: the scores follow
    assert heard.rows == found.rows


def test_the_logged_loss_is_the_mean_since_the_row_before() -> None:
    """Three rows of one step each against one row of three steps."""
    every_step = training(method("raw"), replace(QUICKEST, steps=100, schedule="constant"))
    every_third = training(method("raw"), replace(QUICKEST, steps=150, schedule="constant"))
    rows = [[], []]  # type: ignore[var-annotated]
    for place, found in enumerate((every_step, every_third)):
        found.run()
        rows[place] = [row["loss"] for row in found.rows]
    assert [row["step"] for row in every_step.rows[:3]] == [2, 4, 6]
    assert (rows[0][0] + rows[0][1] + rows[0][2]) / 3 == pytest.approx((rows[1][0] + rows[1][1]) / 2, rel=1e-5)


def test_fit_is_a_training_in_memory() -> None:
    heard = Heard()
    feed, validation = (make_feed(pictures(seed=seed), HELD_OUT) for seed in (0, 1))
    found = fit(method("raw"), HELD_OUT, feed, seed=0, validation=validation, device="cpu", listener=heard)
    assert heard.steps == [1, 2, 3, 4, 5, 6]
    whole = training(method("raw"), HELD_OUT, held_out=pictures(seed=1))
    whole.run()
    assert_equal_weights(found.network.state_dict(), whole.network.state_dict())
    assert (found.best_step, found.validation) == (whole.best_step, whole.best)
    assert found.peak_bytes > 2**20
    last = fit(method("raw"), HELD_OUT, feed, seed=0, device="cpu")
    assert (last.best_step, last.validation) == (6, None)


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_precisions_of_a_cpu(precision: str) -> None:
    found = training(method("raw"), replace(PROTOCOL, precision=precision))  # type: ignore[arg-type]
    kinds: set[torch.dtype] = set()
    found.network.members[0].backbone.high[0].register_forward_hook(lambda module, given, output: kinds.add(output.dtype))  # type: ignore[index,union-attr]
    assert found.run()
    assert kinds == {torch.bfloat16 if precision == "bf16" else torch.float32}
    assert all(parameter.dtype == torch.float32 for parameter in found.network.parameters())


class StepClock:
    """A clock that a training's steps move, an eighth of a second each."""

    def __init__(self) -> None:
        self.training: Training | None = None
        self.offset = 100.0

    def perf_counter(self) -> float:
        return self.offset + (0.0 if self.training is None else self.training.step / 8)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StepClock:
    made = StepClock()
    monkeypatch.setattr("likewise.training.loop.time", made)
    return made


TIMED = replace(QUICKEST, equal="time", seconds=2.5, steps=6, schedule="cosine")


def test_equal_time_takes_the_steps_that_fit_and_the_schedule_follows_the_clock(clock: StepClock) -> None:
    found = clock.training = training(method("contrastive"), TIMED)
    rates: list[float] = []
    update = found._update

    def watched() -> None:
        rates.append(found.optimizer.param_groups[0]["lr"] / found.optimizer.param_groups[0]["base"])
        update()

    found._update = watched  # type: ignore[method-assign]
    assert found.run()
    assert found.step == 20
    assert found.seconds == 2.5
    assert rates == pytest.approx([0.5 * (1 + math.cos(math.pi * step / 20)) for step in range(20)])
    assert found.rows[-1]["step"] == 20
    assert found.rows[-1]["seconds"] == 2.5


def test_equal_time_ends_with_a_look_at_the_held_out_classes(clock: StepClock) -> None:
    found = clock.training = training(method("contrastive"), replace(TIMED, validate_every=1000), held_out=vectors(seed=1))
    found.run()
    assert [row["step"] for row in found.rows if "MAP@R" in row] == [20]


def test_a_timed_training_that_goes_on_has_the_time_that_was_left(clock: StepClock) -> None:
    class Stopping(Listener):
        state: dict[str, Any]

        def wants_to_stop(self) -> bool:
            assert clock.training is not None
            return clock.training.step == 7

        def save(self, state: dict[str, Any]) -> None:
            self.state = state

    listener = Stopping()
    first = clock.training = training(method("contrastive"), TIMED)
    assert not first.run(listener)
    assert first.seconds == 7 / 8
    clock.training, clock.offset = None, 900.0  # another process, later
    second = training(method("contrastive"), TIMED)
    second.load_state_dict(listener.state)
    clock.training = second
    assert second.run()
    assert second.step == 20
    assert second.seconds == 2.5


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seconds": 0.0}, "equal time of unknown length.*give --set seconds=20"),
        ({"equal": "steps"}, "seconds=2.5 where steps are equal: give equal='time' as well"),
    ],
)
def test_times_that_mean_nothing(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        training(method("contrastive"), replace(TIMED, **changes))


def test_ranks_cannot_end_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Devices, "num_ranks", 2)
    with pytest.raises(ValueError, match="equal='time' on several ranks"):
        training(method("contrastive"), TIMED)


@pytest.mark.parametrize("backbone", ["identity", "convnet_small"])
@pytest.mark.parametrize(("start", "power"), [("features", 0.0), ("whitening", 0.5)])
def test_a_head_starts_as_the_whitening_of_the_training_items_alone(backbone: str, start: Any, power: float) -> None:
    """Before the first step, whatever is held out; images as they are scored."""
    protocol = replace(HELD_OUT, backbone=backbone, head_start=start, dim=6)
    made = (vectors if backbone == "identity" else pictures)(seed=0)
    others = (vectors if backbone == "identity" else pictures)(classes=4, seed=1)
    found = training(method("raw"), protocol, dataset=made, held_out=others)
    features = make_network(NetworkSpec(backbone, pooling="max", head="none", in_features=found.feed.in_features), seed=0)
    assert_equal_weights(features.members[0].backbone.state_dict(), found.network.members[0].backbone.state_dict())  # type: ignore[operator,union-attr]
    trained_on, held_out = (embed_feed(features, make_feed(data, protocol), protocol, device="cpu") for data in (made, others))
    whitening = whiten(trained_on, kind="pca", power=power, dim=6)
    for feed, expected in ((found.feed, trained_on), (found.validation, held_out)):
        assert feed is not None
        torch.testing.assert_close(embed_feed(found.network, feed, protocol, device="cpu"), whitening(expected), rtol=0, atol=1e-5)


def test_proxies_have_the_dimensions_that_are_left() -> None:
    """Twelve dimensions of vectors under a protocol of more."""
    found = training(method("proxy_nca"), replace(QUICKEST, head_start="whitening", dim=100))
    assert found.network.width == 12
    found.run()


def test_what_there_is_before_any_training() -> None:
    protocol, chosen = replace(PROTOCOL, head_start="whitening"), method("raw")
    vectors_alone = untrained_spec(chosen, replace(protocol, backbone="mlp"), 7, pretrained=False)
    assert vectors_alone == NetworkSpec("identity", head="none", in_features=7)
    assert untrained_spec(chosen, protocol, pretrained=True) == NetworkSpec("convnet_small", pooling="max", head="none")
    assert untrained_spec(chosen, protocol, pretrained=False) == network_spec(chosen, PROTOCOL)
