"""Readers: from a name or a path to a Dataset."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from likewise.checks import close_name, known_name
from likewise.data.dataset import Dataset
from likewise.data.readers.cars import read_cars, recognises_cars
from likewise.data.readers.class_folders import read_folder
from likewise.data.readers.cub import read_cub, recognises_cub
from likewise.data.readers.digits import read_digits
from likewise.data.readers.features import read_features, recognises_features
from likewise.data.readers.glyphs import read_glyphs
from likewise.data.readers.inshop import read_inshop, recognises_inshop
from likewise.data.readers.mnist import read_fashion_mnist, read_mnist, recognises_fashion_mnist, recognises_mnist
from likewise.data.readers.omniglot import read_omniglot, recognises_omniglot
from likewise.data.readers.reader import Reader
from likewise.data.readers.sop import read_sop, recognises_sop
from likewise.data.readers.table import read_table, recognises_table
from likewise.data.readers.unlabelled import images_of, is_image_file, read_unlabelled, recognises_unlabelled
from likewise.formats.regular_file import parsing, require_regular

# A path is read by the first reader that recognises it; a folder that none recognises holds class folders.
READERS: dict[str, Reader] = {
    "glyphs": Reader("characters drawn with matplotlib's fonts", read_glyphs, has_path=False),
    "digits": Reader("scikit-learn's handwritten digits", read_digits, has_path=False),
    "features": Reader(".npz, .npy or Parquet: vectors and labels", read_features, recognises_features),
    "table": Reader("CSV or Parquet: path, label, split, box", read_table, recognises_table),
    "images": Reader(
        "images without classes: a file, a folder, or a list of paths (.txt)", read_unlabelled, recognises_unlabelled, gives_labels=False
    ),
    "cub": Reader("CUB-200-2011", read_cub, recognises_cub),
    "cars": Reader("Cars196", read_cars, recognises_cars),
    "sop": Reader("Stanford Online Products", read_sop, recognises_sop),
    "inshop": Reader("In-Shop Clothes Retrieval", read_inshop, recognises_inshop),
    "omniglot": Reader("Omniglot", read_omniglot, recognises_omniglot),
    "fashion_mnist": Reader("Fashion-MNIST", read_fashion_mnist, recognises_fashion_mnist),
    "mnist": Reader("MNIST", read_mnist, recognises_mnist),
    "folder": Reader("a folder of class folders", read_folder, Path.is_dir),
}


def read(spec: str | Path, *, labelled: bool = True, **options: Any) -> Dataset:
    """The data set a spec names. labelled=False: one whose items have no classes, or some of them, as embedding takes it.

    read("glyphs")                                    built in, as is "digits"
    read("glyphs:classes=100,size=28")                with options; also read("glyphs", classes=100, size=28)
    read("cub:/data/CUB_200_2011")                    a reader and its path
    read("table,label_column=species:/data/a.csv")    a reader, options and its path
    read("/data/birds")                               a path: CUB, Cars196, SOP, In-Shop, Omniglot and MNIST are recognised by their files,
                                                      any other folder holds class folders; .csv, .tsv, .parquet, .npz, .npy are files
    read("images:/data/new", labelled=False)          a folder whose folders are no classes
    The name of a reader goes before a folder of that name: write ./digits for the folder.
    """
    try:
        dataset = _read(spec, options, labelled)
    except OSError as fault:
        raise ValueError(
            f"{fault.filename or spec} cannot be read ({fault.strerror or fault}): check that it is there and its permissions"
        ) from fault
    if labelled:
        dataset.require_labels()
    return dataset


def read_to_embed(specs: Sequence[str | Path]) -> list[Dataset]:
    """What several specs name, with classes or without, in their order; image files that follow each other are one data set."""
    if not specs:
        raise ValueError("nothing to embed: give image files, a folder, a table or a data set")
    datasets = []
    for are_files, group in groupby(specs, key=lambda spec: is_image_file(Path(spec).expanduser())):
        if are_files:
            paths = [Path(spec).expanduser() for spec in group]
            datasets.append(images_of(paths, name=paths[0].name if len(paths) == 1 else f"{len(paths):,} images"))
        else:
            datasets += [read(spec, labelled=False) for spec in group]
    return datasets


def _read(spec: str | Path, options: dict[str, Any], labelled: bool) -> Dataset:
    if isinstance(spec, Path):
        return _read_path(spec, options, labelled)
    if not spec.strip():
        raise ValueError(f"the data set is {spec!r}: expected a name or a path; write . for the folder you are in")
    head, colon, rest = spec.partition(":")
    name, *given = head.split(",")
    if name in READERS:
        reader = READERS[name]
        if not reader.has_path:
            given += rest.split(",") if rest else []
            return reader.read(**_options(name, reader, given, options, labelled))
        if not rest:
            here = f", or ./{name} for the folder of that name" if Path(name).exists() else ""
            raise ValueError(f"{name} needs a path: write {name}:/path/to/it{here}")
        return reader.read(Path(rest).expanduser(), **_options(name, reader, given, options, labelled))
    path = Path(spec).expanduser()
    if path.exists():
        return _read_path(path, options, labelled)
    missing = f"there is no file or folder {spec!r}{'' if path.is_absolute() else ' here'}"
    looks_like_name = re.fullmatch(r"\w+", name) is not None and (len(name) > 1 or not colon)
    if looks_like_name and (colon or given):
        known_name("reader", name, READERS)
    if looks_like_name and not path.suffix:
        close = close_name(name, READERS)
        hint = f"did you mean {close!r}?" if close else f"known are {', '.join(sorted(READERS))}"
        raise ValueError(f"{missing}, and no data set or reader of that name: {hint}")
    raise ValueError(f"{missing}: check the path; expected a folder, a file, or a data set such as cub:/path")


def _read_path(path: Path, options: dict[str, Any], labelled: bool) -> Dataset:
    if not path.exists():
        raise ValueError(f"'{path}' is not there: expected a file or a folder")
    for name, reader in READERS.items():
        if reader.recognises is not None and reader.recognises(path):
            if labelled and not reader.gives_labels:
                raise ValueError(
                    f"{path} has no classes, and to train and to score, every image needs one: expected a folder of class folders "
                    "(FOLDER/CLASS/image.jpg), or a .csv of paths and labels; `likewise embed` takes them as they are"
                )
            return reader.read(path, **_options(name, reader, [], options, labelled))
    with parsing(path, "data set", "give a file or a folder"):
        require_regular(path)
    raise ValueError(
        f"{path} is of no known kind: expected an image, .csv, .tsv, .parquet, .npz, .npy or a folder; table:{path} reads it as a table, "
        f"images:{path} as an image"
    )


def _options(name: str, reader: Reader, given: list[str], options: dict[str, Any], labelled: bool) -> dict[str, Any]:
    """Options of the spec and of the call, each as its type."""
    of_spec: dict[str, Any] = {}
    unlabelled = {} if labelled or "labelled" not in reader.options else {"labelled": False}
    for pair in given:
        option, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(
                f"{name}: {pair!r}: expected option=value, with commas between several (options: {', '.join(reader.options) or 'none'})"
            )
        if option.strip() in of_spec:
            raise ValueError(f"{name}: {option.strip()} is given twice")
        of_spec[option.strip()] = value.strip()
    twice = of_spec.keys() & options.keys()
    if twice:
        raise ValueError(f"{name}: {min(twice)} is given twice, in the name and beside it")
    return {option: reader.parse(name, option, value) for option, value in (unlabelled | of_spec | options).items()}
