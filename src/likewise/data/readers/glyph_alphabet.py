"""The characters that `glyphs` draws, chosen so that no two look alike, and the font faces they are drawn with.

ALPHABET is stored, not computed: choosing takes ten seconds, and another version of the font library must not change the classes.
`python -m likewise.data.readers.glyph_alphabet` chooses it anew.
"""

# ruff: noqa: RUF001 (the ambiguous characters are the point)

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFilter, ImageFont

# Text faces of one shape each; the other files that matplotlib ships hold pieces of brackets, private codes or other encodings.
FACES = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique"),
    *("DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique", "DejaVuSansMono-BoldOblique"),
    *("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic"),
    *("STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta"),
    *("cmr10", "cmb10", "cmss10", "cmti10", "cmtt10"),
)
MIN_FACES = 10  # a character that fewer faces have shows too little of how one character varies
ALIKE = 0.9  # correlation of two pictures from which on they are one class
_CATEGORIES = ("Lu", "Ll", "Lo", "Nd", "No", "Po", "Sm", "Sc", "So")
_LEFT_OUT = (range(0x2500, 0x25A0), range(0xFFF0, 0x10000))  # box drawing and blocks: plain bars; specials
_SIDE = 24

ALPHABET = (
    "!\"#$%&'*+./0123456789:;<=>?@ACDEGHJKLMNOPQRSTUVWXYZabdefhkmnpqrty~¡¢£¤¥§©ª¬®±µ¶º¼½¾¿ÀÆÇÈÌÑÒÙÝÞßàåæçè"
    "ïðñøùýþĄąĆćĎďĘęĝĢĤĥĲĶķĹĻŀŅņŉŊŒŔŕŖŗŚśŞţŤťůŲųŴŹźƁƃƄƆƇƊƋƏƐƑƒƕƛƜƝơƢƣƤƦƧƩƪƯƱƲƳƴƶƷƸƺƼƾǂǞǢǣǨǩǫǬǯǶǿșȜȡȤȫȴȵȸȹ"
    "ȻȾȿɀɁɃɄɍɕɖɘɚɝɞɠɡɣɤɧɭɮɰɱɲɳɷɹɻɽɿʁʅʆʇʍʎʐʑʓʔʕʙʚʞʣʤʦʧʨʩʪʫʬʭʮʯΆΈΉΌΎΐΔΘΞΦΨΩάέήίΰαβγζθκνξσφχωϋώϒϓϖϗϜϞϟϠϡϰϱ϶Ϻ"
    "ϻϼЂЃЉЋЏДЖЧЩЪЫЬЮЯийлфцыђњќѢѣѪѵҐҔҖҘҚҢҤҭҲҺӁӃӈӋӚӞӬӭӴӶӸӹԱԲԳԴԵԶԷԸԹԻԽԾԿՀՁՃՄՅՆՇՉՊՋՌՎՐՒՔՖ՚՞՟եէըթժիխճմնչջրփֆև฿"
    "აგდეთიკლნორტუფქღყშცძჯჰჱჳჴჵჶჸჹჺ჻ᴈᴖᴗᴝᴞᴟḀḁḂḄḇḈḉḌḍḜḝḟḣḤḥḴḸḾḿṂṃṔṕṜṝṞṫṳṼṾẈẊẒẘẬậờỢứỮỰἆἊἎἘἚἦἪἮἲἸἺἼἾὊὌὛὟὦὨὭὮᾁ"
    "ᾠᾦᾳιῚῬῳῺ‣‥…‰″‴‵‶‷‸‼‽⁄⁇⁈⁉⁋⁏⁑₣₦€₯₴₸₹ℂℍℏ№ℙℚℝ™Ⅎ⅋⅔⅕⅘⅚⅞⅟→↔↙↚↛↜↤↧↫↬↯↰↱↲↳↵↶↷↸↹↺↻↼↽↿⇃⇄⇅⇇⇈⇊⇍⇏⇑⇓⇠⇡⇦⇨⇫⇮⇰⇱⇲⇳⇵⇶⇽∀∃"
    "∄∇∈∉∋∌∏∓∔√∛∝∞∟∠∧∩∬∭∸∹∺∻≁≃≄≐≑≒≓≠≡≢≤≥≮≯≰≱⊂⊃⊄⊅⊆⊇⊈⊉⊌⊏⊐⊑⊒⊓⊔⊕⊚⊞⊟⊠⊡⊢⊣⊥⊦⊧⊨⊩⊪⊫⊬⊯⌂⌐⌑⌘⌥⌨⎡⎨⎬⏏␣▢▣▤▥▭▯▱△▷►▻▽◀◁◃◄◅◊"
    "◌◐◑◒◓◔◕◘◙◜◝◞◟◡◢◣◤◥◪◫◬◭◮◰◱◲◳◴◵◶◷◸◹◺◿☸☼☿♀♂♃♄♅♆♇♡♢♣♤♥♧♩♪♫♬♭♮♯⟠⨌⩫⬕⬖⬘⬚ⱭⱵⱹ⸘⸟ꞐꞑꞪﬀﬁﬃ"
)


def font_files() -> dict[str, Path]:
    """Face -> its font file, as matplotlib ships them."""
    import matplotlib

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    files = {face: folder / f"{face}.ttf" for face in FACES}
    missing = [str(file) for file in files.values() if not file.is_file()]
    if missing:
        raise ValueError(
            f"{len(missing)} of matplotlib's font files are missing, first {missing[0]}: install matplotlib again (pip install matplotlib)"
        )
    return files


def characters_of(file: Path) -> frozenset[int]:
    """Code points a face has a glyph for."""
    from matplotlib.ft2font import FT2Font

    return frozenset(FT2Font(str(file)).get_charmap())


def candidates() -> list[str]:
    """Letters, digits, punctuation and symbols that enough faces have, by code point."""
    codes_of_faces = [characters_of(file) for file in font_files().values()]
    return [
        chr(code)
        for code in sorted(frozenset().union(*codes_of_faces))
        if sum(code in codes for codes in codes_of_faces) >= MIN_FACES
        and unicodedata.category(chr(code)) in _CATEGORIES
        and not any(code in left_out for left_out in _LEFT_OUT)
    ]


def likeness(
    characters: Sequence[str], *, faces: Sequence[str] = ("DejaVuSans", "DejaVuSerif"), turns: Sequence[int] = (0, 10, 20, 30, 40)
) -> npt.NDArray[np.float32]:
    """How much two characters look alike: the largest correlation of their pictures over faces and turns, both brought to one size.

    One size, because `glyphs` draws at all sizes: c and C are then the same, as are Latin A, Greek Alpha and Cyrillic A at any size.
    """
    files = font_files()
    largest = np.zeros((len(characters), len(characters)), dtype=np.float32)
    for face in faces:
        font = ImageFont.truetype(str(files[face]), 32, layout_engine=ImageFont.Layout.BASIC)
        upright = _pictures(characters, font, 0)
        for turn in turns:
            alike = upright @ (_pictures(characters, font, turn) if turn else upright).T
            largest = np.maximum(largest, np.maximum(alike, alike.T))
    return largest


def choose(characters: Sequence[str]) -> str:
    """Each character that looks like none chosen before it."""
    alike = likeness(characters)
    chosen: list[int] = []
    for i in range(len(characters)):
        if not chosen or alike[i, chosen].max() < ALIKE:
            chosen.append(i)
    return "".join(characters[i] for i in chosen)


def _pictures(characters: Sequence[str], font: ImageFont.FreeTypeFont, turn: int) -> npt.NDArray[np.float32]:
    """(characters, pixels), each row of mean 0 and length 1, so that a product is a correlation."""
    rows = np.zeros((len(characters), _SIDE * _SIDE), dtype=np.float32)
    for row, character in zip(rows, characters, strict=True):
        mask = font.getmask(character, mode="L")
        image = Image.frombytes("L", mask.size, bytes(mask)).rotate(turn, expand=True, resample=Image.Resampling.BILINEAR)
        box = image.getbbox()
        if box is None:
            continue
        image = image.crop(box)
        scale = (_SIDE - 4) / max(image.size)
        width, height = (max(1, round(side * scale)) for side in image.size)
        canvas = Image.new("L", (_SIDE, _SIDE))
        canvas.paste(image.resize((width, height), Image.Resampling.BILINEAR), ((_SIDE - width) // 2, (_SIDE - height) // 2))
        row[:] = np.asarray(canvas.filter(ImageFilter.GaussianBlur(1)), dtype=np.float32).ravel()
    rows -= rows.mean(axis=1, keepdims=True)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)
    return rows


if __name__ == "__main__":
    print(choose(candidates()))
