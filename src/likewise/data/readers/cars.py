"""Cars196 (Stanford Cars): 196 models of cars. Classes 1-98 train, 99-196 test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from likewise.data.dataset import Dataset
from likewise.data.readers.listing import ListedImage, Published, dataset_of
from likewise.formats.matlab_files import read_mat

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
        annotated = read_mat(whole)
        names = _class_names(whole, annotated)
        entries = [(path / str(one["relative_im_path"]), one) for one in _annotations(whole, annotated, "relative_im_path")]
    else:
        wanted = ("cars_train_annos.mat", _LABELLED_TEST, "cars_meta.mat")
        files = {name: file for name in wanted if (file := _find(path, name)) is not None}
        missing = [name for name in wanted if name not in files]
        if missing:
            raise ValueError(
                f"{path} is not Cars196: expected cars_annos.mat, or the devkit; {', '.join(missing)} "
                f"{'is' if len(missing) == 1 else 'are'} missing"
                + (" (cars_test_annos.mat has no classes)" if _LABELLED_TEST in missing else "")
            )
        meta = files["cars_meta.mat"]
        names = _class_names(meta, read_mat(meta))
        entries = []
        for name, folder in (("cars_train_annos.mat", "cars_train"), (_LABELLED_TEST, "cars_test")):
            root = _image_folder(path, folder)
            entries += [(root / str(one["fname"]), one) for one in _annotations(files[name], read_mat(files[name]), "fname")]
    rows = []
    for image, one in entries:
        number = _whole(path, one, "class")
        if not 1 <= number <= len(names):
            raise ValueError(f"{path}: {image.name} is of class {number}, but there are names for {len(names)} classes")
        left, top, right, bottom = (_whole(path, one, f"bbox_{corner}") if boxes else 0 for corner in ("x1", "y1", "x2", "y2"))
        box = (left, top, right, bottom) if boxes else None
        rows.append(ListedImage(image, names[number - 1], "train" if number <= LAST_TRAIN_CLASS else "test", box))
    return dataset_of("cars", rows, strict=strict, class_order=names, published=PUBLISHED)


def _find(path: Path, name: str) -> Path | None:
    places = (path / name, path / "devkit" / name, path / "car_devkit" / "devkit" / name)
    return next((place for place in places if place.is_file()), None)


def _image_folder(path: Path, name: str) -> Path:
    return path / name / name if (path / name / name).is_dir() else path / name  # some copies have it twice


def _class_names(path: Path, variables: dict[str, Any]) -> list[str]:
    if "class_names" not in variables:
        raise ValueError(f"{path} has no class_names: expected Cars196's own file")
    names = [str(name) for name in _as_list(variables["class_names"])]
    return names if len(set(names)) == len(names) else [f"{i:03d} {name}" for i, name in enumerate(names, start=1)]


def _annotations(path: Path, variables: dict[str, Any], *needed: str) -> list[dict[str, Any]]:
    annotations = _as_list(variables.get("annotations", {}))
    lacking = [name for name in (*needed, "class") if not all(isinstance(one, dict) and name in one for one in annotations)]
    if lacking:
        raise ValueError(f"{path}: the annotations lack {', '.join(lacking)}: expected Cars196's own file")
    return annotations


def _as_list(value: Any) -> list[Any]:
    """MATLAB knows no difference between one thing and a list of it."""
    return value if isinstance(value, list) else [value]


def _whole(path: Path, annotation: dict[str, Any], name: str) -> int:
    value = annotation.get(name)
    if not isinstance(value, int):
        raise ValueError(f"{path}: {name} of an annotation is {str(value)[:40]!r}: expected a whole number, as in Cars196's own file")
    return value
