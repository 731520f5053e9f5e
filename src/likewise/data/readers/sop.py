"""Stanford Online Products: 22,634 products, train and test by the published lists."""

from __future__ import annotations

from pathlib import Path

from likewise.data.dataset import Dataset, Part
from likewise.data.readers.listing import ListedImage, Published, columns, dataset_of, text_lines, whole
from likewise.wording import quoted

PUBLISHED = {"train": Published(59_551, 11_318), "test": Published(60_502, 11_316)}
_HEADER = "image_id class_id super_class_id path"


def recognises_sop(path: Path) -> bool:
    root = _root(path)
    return (root / "Ebay_train.txt").is_file() and (root / "Ebay_test.txt").is_file()


def read_sop(path: Path, *, strict: bool = False) -> Dataset:
    """Ebay_train.txt and Ebay_test.txt: image_id class_id super_class_id path. A class is a product, named by its number."""
    root = _root(path)
    rows: list[ListedImage] = []
    parts: tuple[tuple[Part, str], ...] = (("train", "Ebay_train.txt"), ("test", "Ebay_test.txt"))
    for part, name in parts:
        file = root / name
        lines = text_lines(file)
        if not lines or lines[0].split() != _HEADER.split():
            raise ValueError(f"{file} begins with {quoted(lines[0] if lines else '')}: expected the header {_HEADER!r}")
        for _, product, _, image in columns(file, lines[1:], 4, first_line=2, last_may_have_spaces=True):
            rows.append(ListedImage(root / image, str(whole(file, product)), part))
    return dataset_of("sop", rows, strict=strict, class_order=sorted({row.label for row in rows}, key=int), published=PUBLISHED)


def _root(path: Path) -> Path:
    inner = path / "Stanford_Online_Products"
    return inner if inner.is_dir() else path
