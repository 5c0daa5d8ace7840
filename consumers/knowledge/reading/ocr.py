"""Words in pictures, read in a child process by the models that come with the `ocr` extra.

They know Latin letters, Chinese and Japanese. What they leave blank is asked of Tesseract where it has been given
Russian; where it has not, a picture in Cyrillic has no words rather than wrong ones.
"""

import contextlib
import ctypes
import dataclasses
import functools
import io
import math
from pathlib import Path
from typing import Any, Final

from consumers.extras import OCR
from consumers.knowledge.reading import ocr_cyrillic
from consumers.knowledge.reading.ocr_lines import SURE, Line, believed, in_reading_order, is_foreign
from consumers.knowledge.reading.parsed import Limits

FORMATS: Final = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
READ_PIXELS: Final = 2_000_000
"""A picture is shrunk to so many: a page of A4 then has 140 pixels an inch, and reading it takes 700 MiB."""
LEAST_SIDE: Final = 8  # pixels; no letter is smaller
M_MMAP_THRESHOLD: Final = -3
LARGE: Final = 4 << 20
"""Buffers of so many bytes go back to the system when they are freed: a heap would grow with every new shape."""
STANDING: Final = 1.5  # height by width of a line that runs upwards or downwards
LIES_DOWN: Final = 0.8
"""As well as it stood, a standing line needs to be read lying down: only then the lines are in order."""
CYRILLIC_SURE: Final = 0.6


class UnreadablePicture(Exception):  # noqa: N818 - named as a person would say it
    """The picture cannot be read, however often it is tried. `reason` is a sentence that says what to do."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def why_unread() -> str | None:
    """Why pictures are not read here, None when they are. Loads nothing."""
    return f"pictures are not read: {OCR.how}" if OCR.absent else None


async def read_words(data: bytes, *, timeout: float, memory_mb: int) -> str:
    """The words in a picture in reading order, a line a line; empty when there are none. Raises UnreadablePicture.

    Other exceptions mean that this process, not the picture, is at fault, and that trying again may help.
    """
    from pipeline import run_in_child  # here, because the child has no use for all that it brings

    try:
        return await run_in_child(words_in, data, timeout=timeout, memory_mb=memory_mb)
    except TimeoutError:
        raise UnreadablePicture(
            f"reading the picture took longer than {timeout:g} s; make it smaller, or raise STREAMLANE_PARSER_TIMEOUT_S"
        ) from None
    except MemoryError:
        raise UnreadablePicture(
            f"reading the picture took more than {memory_mb} MiB of memory;"
            " make it smaller, or raise STREAMLANE_PARSER_MEMORY_MB"
        ) from None


def words_in(data: bytes) -> str:
    """Read in this process: up to 700 MiB and some seconds, so only for a child. Raises UnreadablePicture."""
    pixels = decoded(data)
    if min(pixels.shape[:2]) < LEAST_SIDE:
        return ""
    try:
        return "\n".join(in_reading_order(believed(_whichever_way_up(pixels))))
    except Exception as error:
        if "memory" in str(error) or "alloc" in str(error):  # the runtimes have errors of their own for it
            raise MemoryError(str(error)) from error
        raise
    finally:
        _give_back()


def decoded(data: bytes) -> Any:
    """Pixels (height, width, BGR) upright, without transparency, and not too many."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    limit = Limits().picture_pixels
    Image.MAX_IMAGE_PIXELS = None  # it is kept below
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
            if picture.width * picture.height > limit:
                raise UnreadablePicture(
                    f"the picture has {picture.width} x {picture.height} pixels, over the limit of"
                    f" {limit // 10**6} million; make it smaller"
                )
            shown = _in_colours(picture)
            shrink = math.sqrt(READ_PIXELS / (shown.width * shown.height))
            if shrink < 1:
                shown.thumbnail((math.ceil(shown.width * shrink), math.ceil(shown.height * shrink)))
            return _flat(ImageOps.exif_transpose(shown))
    except (UnreadablePicture, MemoryError):
        raise
    except UnidentifiedImageError:
        raise UnreadablePicture("the picture is of an unknown format; save it as PNG") from None
    except Exception as error:
        raise UnreadablePicture(
            "the picture is damaged or incomplete; download or export it again"
        ) from error


def _in_colours(picture: Any) -> Any:
    """With one to four bytes a pixel, so that shrinking it makes means of colours and not of their numbers."""
    import numpy as np
    from PIL import Image

    if picture.mode.startswith(("I", "F")):  # 16 bits and more, with whatever values
        values = np.asarray(picture, dtype=np.float32)
        low, high = float(values.min()), float(values.max())
        return Image.fromarray(((values - low) * (255 / ((high - low) or 1))).astype(np.uint8))
    if picture.has_transparency_data:
        return picture if picture.mode == "RGBA" else picture.convert("RGBA")
    return picture if picture.mode in {"RGB", "L"} else picture.convert("RGB")


def _flat(picture: Any) -> Any:
    """On white where what is to be seen is dark, on black where it is light."""
    import numpy as np
    from PIL import Image

    if picture.mode == "RGBA":
        grey, alpha = (np.asarray(picture.convert("LA"))[..., channel] for channel in (0, 1))
        light = alpha.any() and np.average(grey, weights=alpha) >= 128
        ground = Image.new("RGBA", picture.size, "black" if light else "white")
        picture = Image.alpha_composite(ground, picture)
    return np.ascontiguousarray(np.asarray(picture.convert("RGB"))[:, :, ::-1])


def _whichever_way_up(pixels: Any) -> list[Line]:
    """The lines; of a picture that seems to lie on its side or its head, from the side with most to read."""
    import numpy as np

    lines = _lines(pixels)
    standing = [line for line in lines if line.bottom - line.top > STANDING * (line.right - line.left)]
    if 2 * len(standing) > len(lines):
        turns = [1, 3]
    elif is_foreign(lines):
        turns = [2]
    else:
        return lines
    turned = [_lines(np.ascontiguousarray(np.rot90(pixels, turn))) for turn in turns]
    best = max(turned, key=_worth)
    return best if _worth(best) > (LIES_DOWN if standing else 1) * _worth(lines) else lines


def _worth(lines: list[Line]) -> int:
    """How much is surely read: what stands on its head is read too, as nonsense."""
    return sum(line.letters for line in believed(lines) if line.score >= SURE)


def _lines(pixels: Any) -> list[Line]:
    found, _, read, _ = _engine().run_ocr_steps(pixels, {})
    if found.boxes is None or read.txts is None:
        return []
    lines = [_line(box, *words) for box, *words in zip(found.boxes, read.txts, read.scores, strict=True)]
    if data := ocr_cyrillic.find_data():
        foreign = is_foreign(lines)
        asked = [
            at for at, line in enumerate(lines) if (foreign or line.has_gaps) and not line.is_ideographic
        ]
        answers = ocr_cyrillic.read_rows([read.imgs[at] for at in asked], data)
        for at, (text, score) in zip(asked, answers, strict=True):
            answer = dataclasses.replace(lines[at], text=text, score=score)
            if score >= CYRILLIC_SURE and 2 * answer.letters > lines[at].letters:
                lines[at] = answer
    return lines


def _line(box: Any, text: str, score: float) -> Line:
    (left, top), (right, bottom) = box.min(axis=0), box.max(axis=0)
    along, across = math.dist(box[0], box[1]), math.dist(box[0], box[3])
    if across >= STANDING * along:  # the engine lays such a line down
        along, across = across, along
    return Line(
        float(left), float(top), float(right), float(bottom), along / (across or 1), text, float(score)
    )


@functools.cache
def _engine() -> Any:
    """Load the models, once in a child: 2 seconds. One thread, because there is a child for each processor."""
    import cv2
    from rapidocr import RapidOCR

    cv2.setNumThreads(1)
    with contextlib.suppress(AttributeError, OSError):  # only glibc has it
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE)
    return RapidOCR(
        params={
            "Global.log_level": "critical",
            "Global.use_cls": False,  # it turns one line of ten that stood upright
            "Global.use_vertical_padding": False,  # makes a narrow picture a huge one, as does the limit by default
            "Det.limit_type": "max",
            "Det.limit_side_len": READ_PIXELS,
            "Det.model_path": _model("det"),
            "Rec.model_path": _model("rec"),
            "Rec.rec_batch_num": 1,  # more take more memory and no less time
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )


def _model(task: str) -> str:
    """The path of a model in the package: one that is named is not looked for on the network."""
    import rapidocr

    models = sorted((Path(str(rapidocr.__file__)).parent / "models").glob(f"*_{task}_*.onnx"))
    if not models:
        raise FileNotFoundError(
            f"rapidocr has come without its model {task!r}; install rapidocr 3.10 or later"
        )
    return str(models[-1])


def _give_back() -> None:
    """Return freed memory to the system, else the child looks too big to be kept for the next picture."""
    with contextlib.suppress(AttributeError, OSError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
