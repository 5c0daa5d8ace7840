"""Cyrillic words, read by the Tesseract inside kreuzberg where its Russian data is installed on the system.

Debian has the data in tesseract-ocr-rus, Homebrew in tesseract-lang. Nothing is fetched.
"""

import importlib.util
import io
import os
import shutil
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

RUSSIAN: Final = "rus.traineddata"
ROW: Final = 48  # pixels
GAP: Final = ROW // 2
ROWS: Final = 40  # on a sheet: Tesseract would shrink one of more than 4096 pixels
WIDEST: Final = 4000
AS_CYRILLIC: Final = str.maketrans("ABCEHKMOPTXaceopxy", "АВСЕНКМОРТХасеорху")


def find_data() -> Path | None:
    """The folder with Tesseract's Russian data, None where there is none."""
    if importlib.util.find_spec("kreuzberg") is None:
        return None
    return next((folder for folder in _folders() if (folder / RUSSIAN).is_file()), None)


def _folders() -> Iterator[Path]:
    if named := os.environ.get("TESSDATA_PREFIX"):
        yield Path(named)
        yield Path(named) / "tessdata"
    if program := shutil.which("tesseract"):
        yield Path(program).parents[1] / "share" / "tessdata"
    yield Path("/usr/share/tessdata")
    yield from sorted(Path("/usr/share/tesseract-ocr").glob("*/tessdata"), reverse=True)


def read_rows(pictures: Sequence[Any], data: Path) -> list[tuple[str, float]]:
    """The words on each picture of one line (an array of pixels) and how sure they are, 0 to 1."""
    languages = "rus+eng" if (data / "eng.traineddata").is_file() else "rus"
    os.environ["TESSDATA_PREFIX"] = str(data)
    return [
        row
        for start in range(0, len(pictures), ROWS)
        for row in _read_sheet(pictures[start : start + ROWS], languages)
    ]


def _read_sheet(pictures: Sequence[Any], languages: str) -> Iterator[tuple[str, float]]:
    """All lines on one sheet: one call, and a word is of the line at whose height it is found."""
    import kreuzberg

    elements: Any = {"include_elements": True}  # its class is in the types and not in the package
    config = kreuzberg.ExtractionConfig(
        use_cache=False,
        force_ocr=True,
        ocr=kreuzberg.OcrConfig(
            backend="tesseract",
            language=languages,
            element_config=elements,
            tesseract_config=kreuzberg.TesseractConfig(
                language=languages,
                psm=6,  # one block of lines
                enable_table_detection=False,
                use_cache=False,
                preprocessing=kreuzberg.ImagePreprocessingConfig(  # as it is: heights must stay what they are
                    target_dpi=72, auto_rotate=False, deskew=False
                ),
            ),
        ),
    )
    found = kreuzberg.extract_bytes_sync(_sheet(pictures), "image/png", config)
    words: list[list[str]] = [[] for _ in pictures]
    scores: list[list[float]] = [[] for _ in pictures]
    for element in found.ocr_elements or ():
        box: Any = element["geometry"]
        row = int((box["top"] + box["height"] / 2 - GAP / 2) // (ROW + GAP))
        if 0 <= row < len(pictures):
            words[row].append(element["text"])
            scores[row].append((element["confidence"] or {}).get("recognition", 0.0))
    for row, found_scores in enumerate(scores):
        yield " ".join(_in_one_script(words[row])), statistics.mean(found_scores or [0.0])


def _in_one_script(words: Sequence[str]) -> Iterator[str]:
    """Latin letters made Cyrillic inside a Cyrillic word, and where one stands alone, as an initial, on such a line."""
    line = any(map(_has_cyrillic, words))
    for word in words:
        alone = line and sum(char.isalpha() for char in word) == 1
        yield word.translate(AS_CYRILLIC) if alone or _has_cyrillic(word) else word


def _has_cyrillic(word: str) -> bool:
    return any("\u0400" <= char <= "\u04ff" for char in word)


def _sheet(pictures: Sequence[Any]) -> bytes:
    """The pictures one under the other on white, all of one height, as PNG."""
    from PIL import Image

    rows = [Image.fromarray(pixels) for pixels in pictures]
    rows = [row.resize((min(WIDEST, max(1, row.width * ROW // row.height)), ROW)) for row in rows]
    sheet = Image.new(
        "RGB", (max(row.width for row in rows) + 2 * GAP, GAP + len(rows) * (ROW + GAP)), "white"
    )
    for at, row in enumerate(rows):
        sheet.paste(row, (GAP, GAP + at * (ROW + GAP)))
    png = io.BytesIO()
    sheet.save(png, "PNG", compress_level=1)
    return png.getvalue()
