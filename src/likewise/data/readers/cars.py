"""Cars196 (Stanford Cars): 196 models of cars. Classes 1-98 train, 99-196 test."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np

from likewise.data.dataset import Dataset
from likewise.data.readers.listing import ListedImage, Published, dataset_of

PUBLISHED = {"train": Published(8_054, 98), "test": Published(8_131, 98)}
LAST_TRAIN_CLASS = 98
_LABELLED_TEST = "cars_test_annos_withlabels.mat"


def recognises_cars(path: Path) -> bool:
    return path.is_dir() and ((path / "cars_annos.mat").is_file() or _find(path, "cars_train_annos.mat") is not None)


def read_cars(path: Path, *, boxes: bool = False, strict: bool = False) -> Dataset:
    """cars_annos.mat with car_ims/, or the devkit (cars_train_annos.mat, cars_test_annos_withlabels.mat, cars_meta.mat) with cars_train/
    and cars_test/. The devkit's train and test are for classification: the classes decide here.

    boxes: cut to the annotated boxes; the usual protocol does not.
    """
    whole = path / "cars_annos.mat"
    entries: list[tuple[Path, Any]]  # image and its annotation
    if whole.is_file():
        annotated = _load(whole)
        names = _class_names(whole, annotated)
        entries = [(path / str(one["relative_im_path"]), one) for one in _annotations(whole, annotated, "relative_im_path")]
    else:
        files = {name: _find(path, name) for name in ("cars_train_annos.mat", _LABELLED_TEST, "cars_meta.mat")}
        missing = [name for name, file in files.items() if file is None]
        if missing:
            raise ValueError(
                f"{path} is not Cars196: expected cars_annos.mat, or the devkit; {', '.join(missing)} "
                f"{'is' if len(missing) == 1 else 'are'} missing"
                + (" (cars_test_annos.mat has no classes)" if _LABELLED_TEST in missing else "")
            )
        meta = files["cars_meta.mat"]
        names = _class_names(meta, _load(meta))
        entries = []
        for name, folder in (("cars_train_annos.mat", "cars_train"), (_LABELLED_TEST, "cars_test")):
            root = _image_folder(path, folder)
            entries += [(root / str(one["fname"]), one) for one in _annotations(files[name], _load(files[name]), "fname")]
    rows = []
    for image, one in entries:
        number = int(one["class"])
        if not 1 <= number <= len(names):
            raise ValueError(f"{path}: {image.name} is of class {number}, but there are names for {len(names)} classes")
        box = (int(one["bbox_x1"]), int(one["bbox_y1"]), int(one["bbox_x2"]), int(one["bbox_y2"])) if boxes else None
        rows.append(ListedImage(image, names[number - 1], "train" if number <= LAST_TRAIN_CLASS else "test", box))
    return dataset_of("cars", rows, strict=strict, class_order=names, published=PUBLISHED)


def _find(path: Path, name: str) -> Path | None:
    places = (path / name, path / "devkit" / name, path / "car_devkit" / "devkit" / name)
    return next((place for place in places if place.is_file()), None)


def _image_folder(path: Path, name: str) -> Path:
    return path / name / name if (path / name / name).is_dir() else path / name  # some copies have it twice


def _load(path: Path | None) -> dict[str, Any]:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        loaded: dict[str, Any] = loadmat(path, squeeze_me=True)
    # Of 25,000 files that were cut off or changed at random, scipy met each kind with one of these, and they have no common type.
    except (OSError, IndexError, ValueError, TypeError, NotImplementedError, MatReadError, zlib.error) as fault:
        raise ValueError(f"{path} is not a readable MATLAB file ({fault}): download it again") from fault
    return loaded


def _class_names(path: Path | None, loaded: dict[str, Any]) -> list[str]:
    if "class_names" not in loaded:
        raise ValueError(f"{path} has no class_names: expected Cars196's own file")
    names = [str(name) for name in np.atleast_1d(loaded["class_names"])]
    return names if len(set(names)) == len(names) else [f"{i:03d} {name}" for i, name in enumerate(names, start=1)]


def _annotations(path: Path | None, loaded: dict[str, Any], *needed: str) -> Any:
    annotations = np.atleast_1d(loaded.get("annotations", np.empty(0)))
    lacking = [name for name in (*needed, "class") if name not in (annotations.dtype.names or ())]
    if lacking:
        raise ValueError(f"{path}: the annotations lack {', '.join(lacking)}: expected Cars196's own file")
    return annotations
