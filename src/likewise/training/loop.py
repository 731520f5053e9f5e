"""The loop: a method, a protocol and a feed as a training under way. All that a checkpoint holds is here, and nothing else decides.

Random choices are functions of (seed, step, rank), so that a training resumed at step n goes on exactly as if it had never stopped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from likewise.methods import Method
from likewise.models import freeze_batch_norm
from likewise.models.head_start import Starts, started_from_features
from likewise.models.lora import merge_adapters
from likewise.models.network import NetworkSpec, make_network
from likewise.protocols import Protocol
from likewise.training.devices import Devices
from likewise.training.feeds import Feed
from likewise.training.gradient_cache import cached_backward
from likewise.training.method_objective import Objectives
from likewise.training.optimisation import choose_parameters, make_optimizer, pull_to_start, set_rates
from likewise.training.scoring import embed_feed, feed_inputs, protocol_scores, vectors_to_score
from likewise.training.watchdogs import collapse_warning, divergence, plateau_warning

LOGGED = 50  # rows of the log of a training, about
ASKED = 10  # steps between two times that ranks ask each other whether to stop
START_POWERS = {"features": 0.0, "whitening": 0.5}  # of the PCA that a head starts as
CHOSEN_BY = "MAP@R"  # on held-out training classes

Row = dict[str, float]


class Listener:
    """What a training tells and asks. This one does not listen: others do what they override."""

    last_checkpoint = ""  # where it is, in words, for messages

    def began(self, step: int, steps: int) -> None:
        """The training begins, or goes on, after so many of its steps."""

    def ended(self) -> None:
        """It has come to its end, was stopped, or failed."""

    def step(self, step: int) -> None:
        """A step was taken: the `step`-th."""

    def row(self, row: Row) -> None:
        """A line of the log."""

    def warning(self, text: str) -> None:
        """Something is going wrong."""

    def message(self, text: str) -> None:
        """Something that whoever waits should know now."""

    def wants_checkpoint(self, step: int) -> bool:
        return False

    def save(self, state: dict[str, Any]) -> None:
        """A checkpoint, where one was wanted."""

    def wants_to_stop(self) -> bool:
        return False


class Training:
    """A training at some step. `run` takes it to its end."""

    def __init__(
        self,
        method: Method,
        protocol: Protocol,
        feed: Feed,
        *,
        seed: int,
        devices: Devices,
        weights: Path | None = None,
        validation: Feed | None = None,
        micro_batch: int | None = None,
        starts: Starts | None = None,
    ) -> None:
        self.method, self.protocol, self.seed, self.devices, self.micro_batch = method, protocol, seed, devices, micro_batch
        self.device = devices.device
        protocol.check_time()
        if protocol.equal == "time" and devices.num_ranks > 1:
            raise ValueError(
                "equal='time' on several ranks: their clocks differ, so that they would not end together; give --set equal=steps"
            )
        self.feed = feed.to(self.device)
        self.validation = None if validation is None else validation.to(self.device)
        codes = feed.codes()
        self.sampler = method.make_sampler(
            codes, protocol.batch, few_classes=protocol.few_classes, seed=seed, rank=devices.rank, num_ranks=devices.num_ranks
        )
        self.weights = weights
        weights = None if protocol.frozen else weights  # which have made the feed
        self.network = make_network(network_spec(method, protocol, feed.in_features), seed=seed, weights=weights).to(self.device)
        if protocol.head_start in START_POWERS:
            self.network = started_from_features(
                self.network,
                lambda: feed_inputs(self.feed, protocol, device=self.device),
                power=START_POWERS[protocol.head_start],
                seed=seed,
                starts=starts,
            )
            devices.share(self.network.parameters())
        self.network = self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # as batches are
        if protocol.frozen_batch_norm:
            freeze_batch_norm(self.network)
        choose_parameters(self.network, protocol, seed=seed)
        self.objectives = Objectives(
            method,
            num_classes=int(codes.max()) + 1,
            dim=self.network.spec.dim,
            steps=protocol.steps,
            seed=seed,
            gather=devices.num_ranks > 1,
        ).to(self.device)
        self.optimizer = devices.setup(make_optimizer(method, protocol, self.network, self.objectives, pretrained=weights is not None))
        # A CUDA graph launches the backbone's some 400 kernels at once, which the CPU cannot do as fast as the GPU runs them. It overwrites
        # the gradients of its last run, so nothing may go backward twice a step.
        auto_on_gpu = protocol.compile == "auto" and self.device.type == "cuda"
        self.graphs = auto_on_gpu and micro_batch is None and len(self.network.members) == 1
        if auto_on_gpu or protocol.compile is True:
            for member in self.network.members:  # the head stays as it is: one compilation then serves many methods
                member.backbone.compile(dynamic=False, mode="reduce-overhead" if self.graphs else None)  # type: ignore[union-attr]
        self.step = 0
        self.epoch, self.step_of_epoch = 0, 0
        self.rows: list[Row] = []
        self.seconds = 0.0  # until the clock was last stopped
        self._began: float | None = None  # when it was started since; None: it stands
        self.best_step = 0
        self.best: dict[str, float] = {}
        self.best_weights: dict[str, Tensor] | None = None
        self._summed = torch.zeros((), device=self.device)  # loss since the last row
        self._num_summed = 0

    def run(self, listener: Listener | None = None) -> bool:
        """To the last step; False if the listener wanted it to stop before. The caller's random state stays as it is."""
        cuda = [self.device] if self.device.type == "cuda" else []
        listener = Listener() if listener is None else listener
        listener.began(self.step, self.protocol.steps)
        try:
            with torch.random.fork_rng(devices=cuda):
                return self._run(listener)
        finally:
            listener.ended()

    def _run(self, listener: Listener) -> bool:
        self.network.train()
        stream = self._stream()
        at_end = self.position >= self.protocol.steps
        self._began = time.perf_counter()
        while not at_end:
            inputs, labels, positions = next(stream)
            self._add_gradients(inputs, labels, positions)
            if self.device.type == "cpu":  # before the weights take it: then the first bad tensor is the cause
                self._watch(inputs, listener.last_checkpoint)
            self._update()
            position = self.position
            at_end = position >= self.protocol.steps
            validates = self.validation is not None and (self.step % self.protocol.validate_every == 0 or at_end)
            stops = not at_end and self.devices.any(listener.wants_to_stop(), asked=self.step % ASKED == 0)
            saves = not at_end and (stops or listener.wants_checkpoint(self.step))
            logs = self._is_row_due(position) or validates or at_end
            if logs or saves:
                self._watch(inputs, listener.last_checkpoint, weights=saves)
                self.seconds, self._began = self.elapsed, None  # validating and saving are not training
            if logs:
                self._log(listener, validates)
            listener.step(self.step)
            if saves:
                listener.save(self.state_dict())
            if stops:
                return False
            if self._began is None:
                self._began = time.perf_counter()
        self._began = None
        if self.best_weights is not None:
            self.network.load_state_dict(self.best_weights)
        merge_adapters(self.network)
        return True

    @property
    def elapsed(self) -> float:
        """Seconds of training up to this moment."""
        return self.seconds + (0.0 if self._began is None else time.perf_counter() - self._began)

    @property
    def position(self) -> float:
        """How far it is along the protocol's steps: so many are taken, or, where time is equal, so large a share of the time is spent."""
        if self.protocol.equal == "steps":
            return self.step
        return self.protocol.steps * min(1.0, self.elapsed / self.protocol.seconds)

    def _is_row_due(self, position: float) -> bool:
        if self.protocol.equal == "steps":
            return self.step % max(1, self.protocol.steps // LOGGED) == 0
        return position >= (len(self.rows) + 1) * self.protocol.steps / LOGGED

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on: tensors, numbers and texts only."""
        return {
            "step": self.step,
            "epoch": self.epoch,
            "network": self.network.state_dict(),
            "objectives": self.objectives.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "sampler": self.sampler.state_dict(epoch=self.epoch, step=self.step_of_epoch),
            "precision": self.devices.state_dict(),
            "rows": self.rows,
            "seconds": self.seconds,
            "best_step": self.best_step,
            "best": self.best,
            "best_weights": self.best_weights,
            "summed": self._summed.detach().cpu(),
            "num_summed": self._num_summed,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.step, self.epoch, self.step_of_epoch = state["step"], state["epoch"], state["sampler"]["step"]
        self.network.load_state_dict(state["network"])
        self.objectives.load_state_dict(state["objectives"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.sampler.load_state_dict(state["sampler"])
        self.devices.load_state_dict(state["precision"])
        self.rows, self.seconds = list(state["rows"]), state["seconds"]
        self.best_step, self.best, self.best_weights = state["best_step"], state["best"], state["best_weights"]
        self._summed, self._num_summed = state["summed"].to(self.device), state["num_summed"]

    def _stream(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Batches from the present step on, epoch after epoch."""
        self.sampler.start_at(self.epoch, self.step_of_epoch)
        while True:
            for batch in self.feed.batches(self.sampler, self.protocol, device=self.device, seed=self.seed, first_step=self.step):
                self.step_of_epoch += 1
                yield batch
            self.epoch, self.step_of_epoch = self.epoch + 1, 0

    def _add_gradients(self, inputs: Tensor, labels: Tensor, positions: Tensor) -> None:
        """The gradients of the next step, of all ranks, and its loss."""
        self._seed_draws((self.seed * 1_000_003 + self.step) * 4099 + self.devices.rank)
        set_rates(self.optimizer, self.method, self.protocol, self.position)
        items = positions.to(self.device) if self.method.memory else positions
        total = self._summed
        for number in range(len(self.network.members)):
            loss, embeddings = self._backward(number, inputs, labels, items)
            total = total + loss
            self.devices.average_gradients([*self.network.members[number].parameters(), *self.objectives.of_level[number].parameters()])
            if self.protocol.clip:
                self.devices.clip(self.network.members[number], self.optimizer, self.protocol.clip)
            if number == 0 and self.sampler.learns:
                self.sampler.update(self.devices.gathered(embeddings[-1]), self.devices.gathered(labels))
        self.step += 1
        self._summed, self._num_summed = total, self._num_summed + 1

    def _seed_draws(self, seed: int) -> None:
        """Of miners that draw. torch.manual_seed asks for every kind of device, which takes milliseconds."""
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def _update(self) -> None:
        pull_to_start(self.optimizer)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.protocol.equal == "time" and self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # what is only queued has not been done in time

    def _backward(self, number: int, inputs: Tensor, labels: Tensor, items: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Adds a member's gradient; its loss and embeddings, without a graph."""
        member = self.network.members[number]

        def embed(share: Tensor) -> tuple[Tensor, ...]:
            if self.graphs:
                torch.compiler.cudagraph_mark_step_begin()
            with self.devices.autocast():
                embeddings: tuple[Tensor, ...] = member(share)
            return embeddings

        def loss_of(embeddings: tuple[Tensor, ...]) -> Tensor:
            loss: Tensor = self.objectives(number, embeddings, labels, items)
            return loss

        if self.micro_batch is not None and self.micro_batch < len(inputs):
            return cached_backward(embed, inputs, loss_of, micro_batch=self.micro_batch, module=member, backward=self.devices.backward)
        embeddings = embed(inputs)
        loss = loss_of(embeddings)
        self.devices.backward(loss)
        return loss.detach(), tuple(vectors.detach() for vectors in embeddings)

    def _watch(self, inputs: Tensor, last_checkpoint: str, *, weights: bool = False) -> None:
        """Looks at the loss; at the `weights` too before they are kept, as a finite loss can have a gradient that is not."""
        parameters = self.network.parameters() if weights else ()
        if not self._summed.isfinite() or not all(parameter.isfinite().all() for parameter in parameters):
            raise divergence(self.step, self.network, inputs, last_checkpoint)

    def _log(self, listener: Listener, validates: bool) -> None:
        row: Row = {"step": self.step, "loss": float(self._summed) / max(self._num_summed, 1), "seconds": self.seconds}
        row["images_per_second"] = self.step * self.protocol.batch / max(self.seconds, 1e-9)
        self._summed, self._num_summed = torch.zeros((), device=self.device), 0
        warnings: list[str | None] = []
        if validates:
            scores, collapsed = self._validate()
            row |= scores
            history = [line[CHOSEN_BY] for line in (*self.rows, row) if CHOSEN_BY in line]
            warnings = [collapsed, plateau_warning(history, self.step)]
        self.rows.append(row)
        listener.row(row)
        for warning in warnings:
            if warning:
                listener.warning(warning)

    def _validate(self) -> tuple[Row, str | None]:
        """Scores on the held-out training classes, which keep the best step, and a warning if the embeddings have collapsed."""
        assert self.validation is not None
        self.devices.share(self.network.buffers())  # running statistics: each rank has seen its own share
        outputs = embed_feed(self.network, self.validation, self.protocol, device=self.device, normalize=False)
        vectors = vectors_to_score(self.network, outputs, self.protocol)
        scores = protocol_scores(vectors, self.validation.labels, self.protocol, metrics=("R@K", CHOSEN_BY), ks=(1,)).means
        if not self.best or scores[CHOSEN_BY] > self.best[CHOSEN_BY]:
            self.best_step, self.best = self.step, scores
            self.best_weights = {name: value.detach().cpu().clone() for name, value in self.network.state_dict().items()}
        return {"R@1": scores["R@1"], CHOSEN_BY: scores[CHOSEN_BY]}, collapse_warning(self.network.joined(outputs), self.step)


def network_spec(method: Method, protocol: Protocol, in_features: int | None = None) -> NetworkSpec:
    """The network that a method trains under a protocol."""
    if protocol.frozen and method.head.levels != ("high",):
        raise ValueError(
            f"{method.name} has heads at the levels {', '.join(method.head.levels)}: a frozen backbone gives its last features only; "
            "take --set frozen=false, or --set head.levels=high"
        )
    if protocol.frozen and method.head.learners:
        raise ValueError(f"{method.name} masks feature maps inside the backbone, which a frozen one does not give: take --set frozen=false")
    return NetworkSpec(
        backbone="identity" if protocol.frozen else protocol.backbone,
        pooling=protocol.pooling,
        head=method.head.kind,
        dim=protocol.dim if method.head.dim is None else method.head.dim,
        levels=method.head.levels,
        num_members=method.ensemble.members,
        in_features=in_features,
        binary=method.head.binary,
        parts=method.head.parts,
        learners=method.head.learners,
        unit_features=protocol.head_start in START_POWERS,
    )


def untrained_spec(method: Method, protocol: Protocol, in_features: int | None = None, *, pretrained: bool) -> NetworkSpec:
    """What there is before any training: vectors as they are, a pretrained backbone's features, else the network as it is initialised."""
    if in_features is not None:
        return NetworkSpec("identity", head="none", in_features=in_features)
    if pretrained:
        return NetworkSpec(protocol.backbone, pooling=protocol.pooling, head="none")
    return network_spec(method, replace(protocol, head_start="random"))
