"""Tables of images."""

from pathlib import Path

import pytest
from PIL import Image

from likewise.data.dataset import Files
from likewise.data.readers import read
from likewise.data.splits import split

from .pictures import draw, write


@pytest.fixture
def images(tmp_path: Path) -> Path:
    for i in range(1, 7):
        draw(tmp_path / "img" / f"{i}.png")
    return tmp_path


def test_paths_are_relative_to_the_table_and_labels_are_text(images: Path) -> None:
    labels = ["007", "7", "7.0", 'ä, "b"', "x=y:z", " spaced "]
    quoted = ['"' + label.replace('"', '""') + '"' for label in labels]
    table = write(images / "t.csv", "﻿label,path\r\n" + "".join(f"{label},img/{i}.png\r\n" for i, label in enumerate(quoted, start=1)))
    dataset = read(str(table))
    assert isinstance(dataset.items, Files)
    assert [path.name for path in dataset.items.paths] == [f"{i}.png" for i in range(1, 7)]
    assert [dataset.class_names[label] for label in dataset.labels] == labels
    assert all(path.is_file() for path in dataset.items.paths)
    assert dataset.items.boxes is None
    assert dataset.parts is None


@pytest.mark.timeout(30)
def test_absolute_and_relative_paths_together(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(images)
    write(images / "mixed.csv", f"path,label\nimg/1.png,a\n{images / 'img' / '2.png'},b\n")
    write(images / "relative.csv", "path,label\nimg/1.png,a\nimg/2.png,b\n")
    mixed, relative, absolute = read("mixed.csv"), read("relative.csv"), read(str(images / "relative.csv"))
    assert mixed.fingerprint() == relative.fingerprint() == absolute.fingerprint()
    assert mixed.item_names() == relative.item_names() == ["1.png", "2.png"]


def test_parquet_with_numbers(images: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    held = {
        "path": [str(images / "img" / "1.png"), "img/2.png"],
        "label": [3, 12],
        "split": ["train", "test"],
        "bbox": [[0, 0, 3, 2], None],
    }
    pyarrow.parquet.write_table(pyarrow.table(held), images / "t.parquet")
    dataset = read(str(images / "t.parquet"))
    assert isinstance(dataset.items, Files)
    assert dataset.class_names == ("12", "3")
    assert dataset.labels.tolist() == [1, 0]
    assert dataset.items.boxes == ((0, 0, 3, 2), (0, 0, 6, 4))


def test_open_metric_learnings_table(images: Path) -> None:
    table = write(
        images / "df.csv",
        "label,path,split,is_query,is_gallery,x_1,x_2,y_1,y_2\n"
        "0,img/1.png,train,,,1,5,0,3\n0,img/2.png,train,,,1,5,0,3\n"
        "1,img/3.png,validation,True,False,1,5,0,3\n1,img/4.png,validation,False,True,0.4,5.6,0,3\n"
        "2,img/5.png,validation,True,False,1,5,0,3\n2,img/6.png,validation,False,True,1,5,0,3\n",
    )
    dataset = read(str(table))
    assert dataset.parts is not None
    assert dataset.parts.tolist() == ["train", "train", "query", "gallery", "query", "gallery"]
    assert isinstance(dataset.items, Files)
    assert dataset.items.boxes is not None
    assert dataset.items.boxes[0] == (1, 0, 5, 3)  # left, top, right, bottom
    assert dataset.items.boxes[3] == (0, 0, 6, 3)
    assert split(dataset, seed=0).test.has_query_and_gallery


def test_query_and_gallery_at_once_is_a_test_item(images: Path) -> None:
    table = write(
        images / "df.csv",
        "label,path,split,is_query,is_gallery\n0,img/1.png,train,,\n1,img/2.png,validation,True,True\n1,img/3.png,validation,1,1\n",
    )
    dataset = read(str(table))
    assert dataset.parts is not None
    assert dataset.parts.tolist() == ["train", "test", "test"]


def test_flags_without_a_split_column(images: Path) -> None:
    table = write(images / "t.csv", "label,path,is_query,is_gallery\n0,img/1.png,no,no\n1,img/2.png,yes,no\n1,img/3.png,no,yes\n")
    dataset = read(str(table))
    assert dataset.parts is not None
    assert dataset.parts.tolist() == ["train", "query", "gallery"]


def test_other_names_other_folder_other_delimiter(images: Path) -> None:
    table = write(images / "tables" / "t.csv", "file;species;fold\n1.png;wren;train\n2.png;rook;test\n")
    dataset = read(
        str(table), path_column="file", label_column="species", split_column="fold", delimiter=";", images=images / "img", strict=True
    )
    assert dataset.class_names == ("rook", "wren")
    assert dataset.parts is not None
    assert dataset.parts.tolist() == ["train", "test"]


def test_missing_files_are_counted(images: Path) -> None:
    table = write(images / "t.csv", "path,label,split\nimg/1.png,a,train\nimg/nope.png,b,test\nimg/2.png,c,test\nno/2.png,c,test\n")
    dataset = read(str(table))
    assert len(dataset) == 2
    assert dataset.class_names == ("a", "c")
    assert dataset.parts is not None
    assert dataset.parts.tolist() == ["train", "test"]
    assert "2 of 4 listed images are missing, first" in dataset.notes[0]
    assert "nope.png" in dataset.notes[0]
    with pytest.raises(ValueError, match="2 of 4 listed images are missing"):
        read(str(table), strict=True)


def test_a_row_without_a_box_is_the_whole_upright_image(images: Path) -> None:
    turned = Image.new("RGB", (8, 5))
    exif = turned.getexif()
    exif[0x0112] = 6
    turned.save(images / "img" / "turned.jpg", exif=exif)
    table = write(images / "t.csv", "path,label,left,top,right,bottom\nimg/1.png,a,1,1,3,3\nimg/turned.jpg,b,,,,\n")
    dataset = read(str(table))
    assert isinstance(dataset.items, Files)
    assert dataset.items.boxes == ((1, 1, 3, 3), (0, 0, 5, 8))
    unused = read(str(table), boxes=False)
    assert isinstance(unused.items, Files)
    assert unused.items.boxes is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("path,label\n", "no rows"),
        ("file,label\n1.png,a\n", r"no column 'path', it has file, label.*path_column"),
        ("path,class\nimg/1.png,a\n", "label_column"),
        ("path,label\nimg/1.png,\n", "1 rows have no label, first row 1"),
        ("path,label\nimg/1.png,a,b\n", "3 values for 2 columns"),
        ("path,label,label\nimg/1.png,a,b\n", "several columns 'label'"),
        ("path,label,split\nimg/1.png,a,trian\n", "did you mean 'train'"),
        ("path,label,split\nimg/1.png,a,\n", "have no split"),
        ("path,label,is_query\nimg/1.png,a,1\n", "is_query and is_gallery together"),
        ("path,label,is_query,is_gallery\nimg/1.png,a,maybe,0\n", "expected true or false"),
        ("path,label,split,is_query,is_gallery\nimg/1.png,a,train,1,0\n", "a train item is marked"),
        ("path,label,split,is_query,is_gallery\nimg/1.png,a,test,0,0\n", "neither query nor gallery"),
        ("path,label,x_1,y_1,x_2,y_2\nimg/1.png,a,3,0,1,2\n", "expected left < right"),
        ("path,label,x_1,y_1,x_2,y_2\nimg/1.png,a,3,,5,2\n", "expected four numbers"),
        ('path,label,bbox\nimg/1.png,a,"1,2,3"\n', "expected four numbers"),
        ("path,label\nno.png,a\n", "all 1 listed images are missing"),
        ('path,label\n"img/1.png,a\n', "not a readable table"),
        ("path,label," + ",".join(map(str, range(100_000))) + "\n", "no rows below its header"),
    ],
)
@pytest.mark.timeout(60)  # many columns once took minutes
def test_faults_are_named(images: Path, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(str(write(images / "t.csv", text)))


def test_files_that_are_no_tables(images: Path) -> None:
    (images / "t.parquet").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="not a readable Parquet"):
        read(str(images / "t.parquet"))
    (images / "t.csv").write_bytes(b"path,label\n\xff\xfe,a\n")
    with pytest.raises(ValueError, match="not UTF-8"):
        read(str(images / "t.csv"))
    with pytest.raises(ValueError, match="is a folder"):
        read(f"table:{images}")


def test_a_bbox_that_is_one_number(images: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"path": ["img/1.png"], "label": ["a"], "bbox": [7]}), images / "t.parquet")
    with pytest.raises(ValueError, match="row 1 below the header: bbox 7: expected four numbers"):
        read(str(images / "t.parquet"))


def test_a_picture_that_links_to_itself_is_left_out(images: Path) -> None:
    (images / "img" / "loop.png").symlink_to("loop.png")
    dataset = read(str(write(images / "t.csv", "path,label\nimg/1.png,a\nimg/loop.png,b\n")))
    what = f"{images}/img/loop.png (a link that leads nowhere)"
    assert (len(dataset), dataset.notes[0]) == (1, f"1 of 2 listed images are missing, first {what}; they are left out")


def test_a_bbox_in_one_column(images: Path) -> None:
    dataset = read(str(write(images / "t.csv", 'path,label,bbox\nimg/1.png,a,"[1, 0, 3, 2]"\nimg/2.png,b,0 0 2 2\n')))
    assert isinstance(dataset.items, Files)
    assert dataset.items.boxes == ((1, 0, 3, 2), (0, 0, 2, 2))
