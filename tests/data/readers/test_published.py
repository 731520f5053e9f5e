"""The published sets, small: layouts, official splits, counts, missing images."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from likewise.data.dataset import Dataset, Files, Pixels
from likewise.data.readers import cars, cub, inshop, mnist, omniglot, read, sop
from likewise.data.readers.listing import Published

from .pictures import draw, write


def parts_by_class(dataset: Dataset) -> dict[str, set[str]]:
    assert dataset.parts is not None
    found: dict[str, set[str]] = {}
    for label, part in zip(dataset.labels, dataset.parts.tolist(), strict=True):
        found.setdefault(dataset.class_names[label], set()).add(part)
    return found


def files(dataset: Dataset) -> Files:
    assert isinstance(dataset.items, Files)
    return dataset.items


@pytest.fixture
def cub_root(tmp_path: Path) -> Path:
    root = tmp_path / "CUB_200_2011"
    classes = {1: "001.Albatross", 2: "002.Auk", 100: "100.Pelican", 101: "101.Pipit", 200: "200.Yellowthroat"}
    rows = [(number, name, i) for number, name in classes.items() for i in range(2)]
    write(root / "classes.txt", "".join(f"{number} {name}\n" for number, name in classes.items()))
    write(root / "images.txt", "".join(f"{n} {name}/im {i}.jpg\n" for n, (_, name, i) in enumerate(rows, start=1)))
    write(root / "image_class_labels.txt", "".join(f"{n} {number}\n" for n, (number, _, _) in enumerate(rows, start=1)))
    write(root / "train_test_split.txt", "".join(f"{n} {n % 2}\n" for n in range(1, len(rows) + 1)))
    write(root / "bounding_boxes.txt", "".join(f"{n} 1.0 0.0 3.0 2.0\n" for n in range(1, len(rows) + 1)))
    for _, name, i in rows:
        draw(root / "images" / name / f"im {i}.jpg")
    return tmp_path


def test_cub_as_published(cub_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cub, "PUBLISHED", {"train": Published(6, 3), "test": Published(4, 2)})
    for spec in (str(cub_root), f"cub:{cub_root}", str(cub_root / "CUB_200_2011")):
        dataset = read(spec, strict=True)
        assert dataset.name == "cub"
        assert dataset.class_names == ("001.Albatross", "002.Auk", "100.Pelican", "101.Pipit", "200.Yellowthroat")
        assert parts_by_class(dataset) == {name: {"train" if int(name[:3]) <= 100 else "test"} for name in dataset.class_names}
        assert all(path.parent.name == dataset.class_names[label] for path, label in zip(files(dataset).paths, dataset.labels, strict=True))
        assert dataset.notes == ()
        assert files(dataset).boxes is None
    assert set(files(read(str(cub_root), boxes=True)).boxes or ()) == {(1, 0, 4, 2)}


def test_cub_with_missing_images_and_other_counts(cub_root: Path) -> None:
    (cub_root / "CUB_200_2011" / "images" / "002.Auk" / "im 0.jpg").unlink()
    dataset = read(str(cub_root))
    assert len(dataset) == 9
    assert "1 of 10 listed images are missing" in dataset.notes[0]
    assert "train has 5 images of 3 classes, published are 5,864 of 100" in dataset.notes[1]
    assert "test has 4 images of 2 classes, published are 5,924 of 100" in dataset.notes[2]
    with pytest.raises(ValueError, match="1 of 10 listed"):
        read(str(cub_root), strict=True)


def test_a_class_without_images_is_left_out(cub_root: Path) -> None:
    for i in range(2):
        (cub_root / "CUB_200_2011" / "images" / "002.Auk" / f"im {i}.jpg").unlink()
    dataset = read(str(cub_root))
    assert dataset.class_names == ("001.Albatross", "100.Pelican", "101.Pipit", "200.Yellowthroat")
    assert sorted(set(dataset.labels.tolist())) == [0, 1, 2, 3]


def test_cub_counts_alone_stop_a_strict_reading(cub_root: Path) -> None:
    with pytest.raises(ValueError, match="train has 6 images"):
        read(str(cub_root), strict=True)


def test_cub_with_annotations_of_another_version(cub_root: Path) -> None:
    write(cub_root / "CUB_200_2011" / "image_class_labels.txt", "1 1\n")
    with pytest.raises(ValueError, match="another version"):
        read(f"cub:{cub_root}")
    write(cub_root / "CUB_200_2011" / "image_class_labels.txt", "1 1 1\n")
    with pytest.raises(ValueError, match=r"line 1: '1 1 1' has 3 columns, expected 2"):
        read(f"cub:{cub_root}")
    (cub_root / "CUB_200_2011" / "classes.txt").unlink()
    write(cub_root / "CUB_200_2011" / "image_class_labels.txt", "1 1\n")
    with pytest.raises(ValueError, match=r"classes.txt is missing"):
        read(f"cub:{cub_root}")


def test_cub_from_class_folders(tmp_path: Path) -> None:
    for number in range(1, 201):
        draw(tmp_path / "CUB_200_2011" / "images" / f"{number:03d}.Bird" / f"{number}.webp")
    for spec in (str(tmp_path), str(tmp_path / "CUB_200_2011"), str(tmp_path / "CUB_200_2011" / "images")):
        dataset = read(spec)
        assert dataset.name == "cub"
        assert parts_by_class(dataset) == {f"{n:03d}.Bird": {"train" if n <= 100 else "test"} for n in range(1, 201)}
    (tmp_path / "CUB_200_2011" / "images" / "007.Bird" / "7.webp").unlink()
    (tmp_path / "CUB_200_2011" / "images" / "007.Bird").rmdir()
    assert read(str(tmp_path / "CUB_200_2011" / "images")).name == "images"  # not all of CUB: class folders
    assert read(f"cub:{tmp_path}").num_classes == 199


def test_what_is_not_cub(tmp_path: Path) -> None:
    draw(tmp_path / "images" / "wren" / "1.png")
    with pytest.raises(ValueError, match="is not CUB-200-2011"):
        read(f"cub:{tmp_path}")


def car_rows(numbers: list[int]) -> list[dict[str, object]]:
    return [{"class": n, "bbox_x1": 1, "bbox_y1": 0, "bbox_x2": 5, "bbox_y2": 3} for n in numbers]


def save_cars(path: Path, rows: list[dict[str, object]], **more: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = [(name, object) for name in rows[0]]
    savemat(path, {"annotations": np.array([tuple(row.values()) for row in rows], dtype=kind), **more})


NAMES = np.array([f"Car {n}" for n in range(1, 197)], dtype=object)
CARS = [1, 98, 99, 196, 98]


def test_cars_in_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cars, "PUBLISHED", {"train": Published(3, 2), "test": Published(2, 2)})
    rows = [{"relative_im_path": f"car_ims/{i:06d}.jpg", **row, "test": i % 2} for i, row in enumerate(car_rows(CARS), start=1)]
    save_cars(tmp_path / "cars_annos.mat", rows, class_names=NAMES)
    for i in range(1, 6):
        draw(tmp_path / "car_ims" / f"{i:06d}.jpg")
    dataset = read(str(tmp_path), strict=True)
    assert dataset.name == "cars"
    assert [dataset.class_names[label] for label in dataset.labels] == [f"Car {n}" for n in CARS]
    assert parts_by_class(dataset) == {"Car 1": {"train"}, "Car 98": {"train"}, "Car 99": {"test"}, "Car 196": {"test"}}
    assert [path.name for path in files(dataset).paths] == [f"{i:06d}.jpg" for i in range(1, 6)]
    assert files(read(str(tmp_path), boxes=True)).boxes == ((1, 0, 5, 3),) * 5


@pytest.mark.parametrize("twice", [False, True])
def test_cars_in_the_devkit(tmp_path: Path, twice: bool) -> None:
    for name, folder, numbers in (
        ("devkit/cars_train_annos.mat", "cars_train", [1, 99]),
        ("cars_test_annos_withlabels.mat", "cars_test", [196, 98]),
    ):
        save_cars(tmp_path / name, [{**row, "fname": f"{i:05d}.jpg"} for i, row in enumerate(car_rows(numbers), start=1)])
        for i in (1, 2):
            draw((tmp_path / folder / folder if twice else tmp_path / folder) / f"{i:05d}.jpg")
    with pytest.raises(ValueError, match=r"cars_meta.mat is missing"):
        read(str(tmp_path))
    savemat(tmp_path / "devkit" / "cars_meta.mat", {"class_names": NAMES})
    dataset = read(str(tmp_path))
    assert [dataset.class_names[label] for label in dataset.labels] == ["Car 1", "Car 99", "Car 196", "Car 98"]
    assert parts_by_class(dataset) == {"Car 1": {"train"}, "Car 99": {"test"}, "Car 196": {"test"}, "Car 98": {"train"}}
    assert {path.parent.name for path in files(dataset).paths} == {"cars_train", "cars_test"}
    assert "published are 8,054 of 98" in dataset.notes[0]
    (tmp_path / "cars_test_annos_withlabels.mat").unlink()
    with pytest.raises(ValueError, match=r"cars_test_annos\.mat has no classes"):
        read(str(tmp_path))


def test_cars_with_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "cars_annos.mat").write_bytes(b"damaged")
    with pytest.raises(ValueError, match="not a readable MATLAB file"):
        read(str(tmp_path))
    savemat(tmp_path / "cars_annos.mat", {"class_names": NAMES}, do_compression=True)
    data = bytearray((tmp_path / "cars_annos.mat").read_bytes())
    data[150:160] = b"\xff" * 10
    (tmp_path / "cars_annos.mat").write_bytes(data)
    with pytest.raises(ValueError, match="not a readable MATLAB file"):
        read(str(tmp_path))
    savemat(tmp_path / "cars_annos.mat", {"class_names": NAMES})
    whole = (tmp_path / "cars_annos.mat").read_bytes()
    for length in (0, 50, 125, 130, 140, len(whole) // 2):
        (tmp_path / "cars_annos.mat").write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"cars_annos\.mat is not a readable MATLAB file \(.+\): download it again"):
            read(str(tmp_path))
    (tmp_path / "cars_annos.mat").write_bytes(whole)
    with pytest.raises(ValueError, match="annotations lack relative_im_path, class"):
        read(str(tmp_path))


def test_sop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sop, "PUBLISHED", {"train": Published(3, 2), "test": Published(1, 1)})
    root = tmp_path / "Stanford_Online_Products"
    header = "image_id class_id super_class_id path\n"
    write(root / "Ebay_train.txt", header + "1 2 1 bicycle_final/a_0.JPG\n2 2 1 bicycle_final/a_1.JPG\n3 10 1 bicycle_final/b 0.JPG\n")
    write(root / "Ebay_test.txt", header + "4 11 2 chair_final/c_0.JPG\n")
    for name in ("bicycle_final/a_0.JPG", "bicycle_final/a_1.JPG", "bicycle_final/b 0.JPG", "chair_final/c_0.JPG"):
        draw(root / name)
    for spec in (str(tmp_path), str(root), f"sop:{root}"):
        dataset = read(spec, strict=True)
        assert dataset.name == "sop"
        assert dataset.class_names == ("2", "10", "11")
        assert dataset.labels.tolist() == [0, 0, 1, 2]
        assert parts_by_class(dataset) == {"2": {"train"}, "10": {"train"}, "11": {"test"}}
    write(root / "Ebay_test.txt", "4 11 2 chair_final/c_0.JPG\n")
    with pytest.raises(ValueError, match="expected the header"):
        read(str(root))


def save_inshop(root: Path) -> None:
    rows = [("1/a.jpg", "id_1", "train"), ("1/b.jpg", "id_1", "train"), ("2/a.jpg", "id_2", "query"), ("2/b.jpg", "id_2", "gallery")]
    listed = "".join(f"img/WOMEN/{image}   {item} {status}\n" for image, item, status in rows)
    write(root / "Eval" / "list_eval_partition.txt", f"4\nimage_name item_id evaluation_status\n{listed}")
    boxes = "".join(f"img/WOMEN/{image} 1 2 001 000 005 003\n" for image, _, _ in rows)
    write(root / "Anno" / "list_bbox_inshop.txt", f"4\nimage_name clothes_type pose_type x_1 y_1 x_2 y_2\n{boxes}")


@pytest.mark.parametrize("images", ["img", "Img/img"])
def test_inshop(tmp_path: Path, images: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inshop, "PUBLISHED", {"train": Published(2, 1), "query": Published(1, 1), "gallery": Published(1, 1)})
    save_inshop(tmp_path)
    for name in ("1/a.jpg", "1/b.jpg", "2/a.jpg", "2/b.jpg"):
        draw(tmp_path / images / "WOMEN" / name)
    dataset = read(str(tmp_path), strict=True)
    assert dataset.name == "inshop"
    assert parts_by_class(dataset) == {"id_1": {"train"}, "id_2": {"query", "gallery"}}
    assert files(dataset).boxes is None
    assert files(read(str(tmp_path), boxes=True)).boxes == ((1, 0, 5, 3),) * 4
    (tmp_path / images / "WOMEN" / "2" / "a.jpg").unlink()
    notes = read(str(tmp_path)).notes
    assert "1 of 4 listed" in notes[0]
    assert "query has 0 images of 0 classes, published are 1 of 1" in notes[1]


def test_inshop_with_a_cut_list(tmp_path: Path) -> None:
    save_inshop(tmp_path)
    partition = tmp_path / "Eval" / "list_eval_partition.txt"
    text = partition.read_text()
    partition.write_text(text.replace("4\n", "5\n", 1))
    with pytest.raises(ValueError, match="says it lists 5 images, but has 4"):
        read(str(tmp_path))
    partition.write_text(text.replace("gallery", "galery"))
    with pytest.raises(ValueError, match="did you mean 'gallery'"):
        read(str(tmp_path))


def test_omniglot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("images_background/Greek/character01", "images_background/Greek/character02", "images_evaluation/Atlantean/character01"):
        for i in range(2):
            draw(tmp_path / name / f"{i}.png")
    dataset = read(str(tmp_path))
    assert dataset.name == "omniglot"
    assert parts_by_class(dataset) == {"Greek/character01": {"train"}, "Greek/character02": {"train"}, "Atlantean/character01": {"test"}}
    assert dataset.class_groups == ("Greek", "Greek", "Atlantean")
    assert "train has 4 images of 2 classes, published are 19,280 of 964" in dataset.notes[0]
    monkeypatch.setattr(omniglot, "PUBLISHED", {"train": Published(4, 2), "test": Published(2, 1)})
    assert read(str(tmp_path), strict=True).notes == ()
    with pytest.raises(ValueError, match="images_background is missing"):
        read(f"omniglot:{tmp_path / 'images_evaluation'}")


def idx(array: np.ndarray) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


IMAGES = np.arange(3 * 28 * 28).reshape(3, 28, 28) % 251
LABELS = np.array([3, 9, 3])


def save_idx(root: Path, *, gz: bool = False, dot: bool = False) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for stem, num in (("train", 3), ("t10k", 2)):
        for kind, array in (("images-idx3", IMAGES[:num]), ("labels-idx1", LABELS[:num])):
            name = f"{stem}-{kind.replace('-idx', '.idx') if dot else kind}-ubyte"
            content = idx(array)
            (root / (name + ".gz" if gz else name)).write_bytes(gzip.compress(content) if gz else content)


@pytest.mark.parametrize(("place", "gz", "dot"), [("mnist", False, False), ("mnist", True, False), ("d/MNIST/raw", False, True)])
def test_mnist(tmp_path: Path, place: str, gz: bool, dot: bool) -> None:
    save_idx(tmp_path / place, gz=gz, dot=dot)
    dataset = read(str(tmp_path / place.split("/")[0]))
    assert dataset.name == "mnist"
    assert isinstance(dataset.items, Pixels)
    assert np.array_equal(dataset.items.array, np.concatenate([IMAGES, IMAGES[:2]]))
    assert dataset.labels.tolist() == [3, 9, 3, 3, 9]
    assert dataset.class_names == tuple("0123456789")
    assert dataset.parts is not None
    assert dataset.parts.tolist() == ["train"] * 3 + ["test"] * 2
    assert "train has 3 images of 2 classes, published are 60,000 of 10" in dataset.notes[0]
    with pytest.raises(ValueError, match="published are 60,000"):
        read(str(tmp_path / place.split("/")[0]), strict=True)


def test_fashion_mnist_is_known_by_its_folder_or_its_name(tmp_path: Path) -> None:
    save_idx(tmp_path / "Fashion-MNIST")
    save_idx(tmp_path / "plain")
    assert read(str(tmp_path / "Fashion-MNIST")).class_names[9] == "Ankle boot"
    assert read(f"fashion_mnist:{tmp_path / 'plain'}").name == "fashion_mnist"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("train-images-idx3-ubyte", idx(LABELS), "magic 2049, expected 2051"),
        ("train-images-idx3-ubyte", b"\0\0\x0d" + idx(IMAGES)[3:], "magic 3331, expected 2051"),
        ("train-images-idx3-ubyte", b"", "magic 0, expected 2051"),
        ("train-images-idx3-ubyte", idx(IMAGES)[:-1], "announces 3 x 28 x 28 = 2,352 bytes but holds 2,351"),
        ("train-images-idx3-ubyte", idx(IMAGES) + b"x", "holds more"),
        ("train-labels-idx1-ubyte", idx(LABELS[:2]), "3 train images but 2 labels"),
        ("train-labels-idx1-ubyte", idx(np.array([1, 2, 10])), "a train label is 10"),
        ("t10k-images-idx3-ubyte", idx(np.zeros((2, 14, 14))), "expected one size"),
        ("t10k-images-idx3-ubyte", None, "has no t10k-images-idx3-ubyte"),
    ],
)
def test_mnist_files_are_checked(tmp_path: Path, name: str, content: bytes | None, words: str) -> None:
    save_idx(tmp_path)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=words):
        read(f"mnist:{tmp_path}")


@pytest.mark.parametrize("damage", [b"not gzip", None])
def test_a_damaged_gzip_file(tmp_path: Path, damage: bytes | None) -> None:
    save_idx(tmp_path, gz=True)
    file = tmp_path / "train-images-idx3-ubyte.gz"
    file.write_bytes(damage or file.read_bytes()[:-20])
    with pytest.raises(ValueError, match="not a whole gzip file"):
        read(f"mnist:{tmp_path}")
    with pytest.raises(ValueError, match="is not mnist"):
        mnist.read_mnist(tmp_path / "nowhere")


def test_the_published_counts_are_those_of_the_papers() -> None:
    """papers/READING.md, Protocol."""
    found = {name: {part: (p.images, p.classes) for part, p in module.PUBLISHED.items()} for name, module in
             (("cub", cub), ("cars", cars), ("sop", sop), ("inshop", inshop))}  # fmt: skip
    assert found == {
        "cub": {"train": (5864, 100), "test": (5924, 100)},
        "cars": {"train": (8054, 98), "test": (8131, 98)},
        "sop": {"train": (59551, 11318), "test": (60502, 11316)},
        "inshop": {"train": (25882, 3997), "query": (14218, 3985), "gallery": (12612, 3985)},
    }
