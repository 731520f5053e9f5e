"""Data: readers, splits, the packed cache, augmentation on the device."""

from likewise.data.augmentation import AUGMENTATIONS
from likewise.data.batch_check import check_batch
from likewise.data.batches import Batches
from likewise.data.dataset import Dataset, Features, Files, Pixels
from likewise.data.packing.cache import pack
from likewise.data.packing.packed import PackedImages
from likewise.data.readers import READERS, read
from likewise.data.splits import Fold, Split, folds, split

__all__ = [
    "AUGMENTATIONS",
    "READERS",
    "Batches",
    "Dataset",
    "Features",
    "Files",
    "Fold",
    "PackedImages",
    "Pixels",
    "Split",
    "check_batch",
    "folds",
    "pack",
    "read",
    "split",
]
