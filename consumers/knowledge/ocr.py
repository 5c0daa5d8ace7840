"""Words in pictures, read by the `ocr` extra in a child process."""

import functools
import importlib.util
import io
import logging
from typing import Any, Final

from pipeline import run_in_child

MAX_PIXELS: Final = 50_000_000
LONGEST_SIDE: Final = 2000
SURE: Final = 0.6
"""A line read with less confidence is noise, or a script that the model does not know."""


class UnreadablePicture(Exception):  # noqa: N818 - named as a person would say it
    """The picture cannot be read, however often it is tried."""


def why_unread() -> str | None:
    """Return why pictures are not read here, or None when they are."""
    if all(importlib.util.find_spec(name) for name in ("rapidocr", "onnxruntime")):
        return None
    return "install the ocr extra (pip install 'streamlane[ocr]') and ingest again"


async def read_words(data: bytes, *, timeout: float, memory_mb: int) -> str:
    """Return the words in a picture in reading order, a line a line; empty when there are none.

    Raises UnreadablePicture. A child that died is an error of its own, which a retry may cure.
    """
    try:
        return await run_in_child(_read, data, timeout=timeout, memory_mb=memory_mb)
    except TimeoutError:
        raise UnreadablePicture(f"reading it took more than {timeout:g} s") from None
    except MemoryError:
        raise UnreadablePicture(f"reading it took more than {memory_mb} MB of memory") from None


def _read(data: bytes) -> str:
    import numpy as np
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    try:
        with Image.open(io.BytesIO(data)) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                raise UnreadablePicture(f"it has {opened.width} × {opened.height} pixels: too many")
            opened.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
            pixels = np.asarray(opened.convert("RGB"))[:, :, ::-1]
    except UnreadablePicture:
        raise
    except Exception as error:  # noqa: BLE001 - a decoder may raise anything
        raise UnreadablePicture(f"it cannot be decoded: {error}") from None
    found = _engine()(pixels)
    lines = zip(found.txts or (), found.scores or (), strict=True)
    return "\n".join(text for text, score in lines if score >= SURE)


@functools.cache
def _engine() -> Any:
    """Load the models, once in a child; one thread, because several children share the processors."""
    from rapidocr import RapidOCR

    logging.getLogger("RapidOCR").setLevel(logging.ERROR)
    return RapidOCR(
        params={
            "Global.log_level": "critical",
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )
