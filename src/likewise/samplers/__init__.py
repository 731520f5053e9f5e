"""The samplers, one a file: batches by class. `SAMPLERS` is the registry everything else reads."""

from likewise.samplers.episode import Episode
from likewise.samplers.group import Group
from likewise.samplers.hard_classes import HardClasses
from likewise.samplers.sampler import BatchSampler
from likewise.samplers.shuffled import Shuffled
from likewise.samplers.two_per_class import NPair

SAMPLERS: dict[str, type[BatchSampler]] = {
    "group": Group,
    "n_pair": NPair,
    "episode": Episode,
    "shuffled": Shuffled,
    "hard_classes": HardClasses,
}

__all__ = ["SAMPLERS", "BatchSampler"]
