"""Words in pictures: what is read, in which formats, what is refused, and what a child costs."""

import functools
import importlib.util
import io
import os
import socket
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from consumers.knowledge.reading import ocr, ocr_cyrillic
from consumers.knowledge.reading.ocr import UnreadablePicture, read_words, why_unread, words_in
from consumers.knowledge.reading.parsing import parse_document
from pipeline.worker.offload import close_children, run_in_child

from tests.support.documents import png

needs_ocr = pytest.mark.skipif(why_unread() is not None, reason="the ocr extra is not installed")

PAGE = [
    "The quick brown fox jumps over the dog, and the total is 1,250.00 EUR.",
    "Second paragraph: queues, workers and leases, of which nothing is lost.",
    "Third one, so that there are some lines on which a mistake would be seen.",
]
SHORT = ["White paper: 12 words", "Black letters: 300"]
RUSSIAN = ["Сорок тысяч обезьян", "Ответственный: Петров А. С.", "ОТЧЕТ О РАБОТЕ", "Таблица 3. Очереди"]
SHAPES = [(900, 400), (1600, 1300), (2600, 800), (1000, 2000), (1500, 1400)]
# Ideographs of straight strokes, as (from x, from y, to x, to y) on a square of 10: no font has to be there.
BOX = [(2, 1, 8, 1), (2, 1, 2, 9), (8, 1, 8, 9), (2, 9, 8, 9)]
IDEOGRAPHS = {
    "王": [(1, 1, 9, 1), (2, 5, 8, 5), (0, 9, 10, 9), (5, 1, 5, 9)],
    "日": [*BOX, (2, 5, 8, 5)],
    "中": [(1, 3, 9, 3), (1, 3, 1, 6), (9, 3, 9, 6), (1, 6, 9, 6), (5, 0, 5, 10)],
    "工": [(1, 1, 9, 1), (5, 1, 5, 9), (0, 9, 10, 9)],
    "山": [(5, 1, 5, 9), (1, 4, 1, 9), (9, 4, 9, 9), (1, 9, 9, 9)],
}


def drawn(lines: list[str], size: int = 20, *, font: str | None = None, width: int = 900) -> Any:
    """A picture with `lines` in black on white."""
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", (width, int(size * (2 + 1.8 * len(lines)))), "white")
    letters = ImageFont.truetype(font, size) if font else ImageFont.load_default(size)
    for row, line in enumerate(lines):
        ImageDraw.Draw(picture).text((size, size * (1 + 1.8 * row)), line, font=letters, fill="black")
    return picture


def stored(picture: Any, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def lines_in(picture: Any, kind: str = "PNG", **options: Any) -> list[str]:
    return words_in(stored(picture, kind, **options)).splitlines()


@functools.cache
def font_with_cyrillic() -> str:
    from PIL import ImageFont

    for name in ("DejaVuSans.ttf", "Arial.ttf", "LiberationSans-Regular.ttf"):
        try:
            return str(ImageFont.truetype(name).path)
        except OSError:
            continue
    pytest.skip("no font with Cyrillic letters is on this machine")


@pytest.fixture
def no_russian(monkeypatch) -> None:
    monkeypatch.setattr(ocr_cyrillic, "find_data", lambda: None)


@pytest.fixture
async def children() -> AsyncIterator[None]:
    yield
    await close_children()


class TestAbsence:
    def test_without_the_extra_it_says_what_to_install(self, monkeypatch):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        assert "install the ocr extra (uv run --extra ocr streamlane …" in str(why_unread())

    @needs_ocr
    def test_with_the_extra_there_is_nothing_to_say(self):
        assert why_unread() is None

    def test_asking_loads_no_library(self):
        heavy = "{'rapidocr', 'onnxruntime', 'cv2', 'PIL', 'numpy', 'kreuzberg'}"
        code = f"import sys; from consumers.knowledge.reading import ocr; ocr.why_unread(); print({heavy} & set(sys.modules))"
        asked = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
        )
        assert asked.stdout.strip() == "set()"


@needs_ocr
@pytest.mark.usefixtures("no_russian")
class TestWords:
    @pytest.mark.parametrize("size", [13, 18, 24])
    def test_lines_are_read_as_they_stand(self, size: int):
        """At 13 and 18 the model that tells what stands on its head is wrong about one of these lines."""
        assert lines_in(drawn(PAGE, size)) == PAGE

    def test_ideographs_are_read_beside_latin_words(self):
        from PIL import ImageDraw

        picture = drawn(["Streamlane 2026"], 40)
        for at, strokes in enumerate(IDEOGRAPHS.values()):
            for stroke in strokes:
                x, y = 430 + 60 * at, 40
                ImageDraw.Draw(picture).line(
                    [n * 4 + (y if i % 2 else x) for i, n in enumerate(stroke)], "black", 4
                )
        (line,) = lines_in(picture)
        assert line.replace(" ", "") == "Streamlane2026" + "".join(IDEOGRAPHS)

    def test_a_table_keeps_its_rows(self):
        rows = [
            ("Item", "Count", "Price"),
            ("Paper", "12", "4.50"),
            ("Pencil", "300", "0.20"),
            ("Desk", "1", "250"),
        ]
        from PIL import ImageDraw, ImageFont

        picture = drawn([""] * 6)
        for row, cells in enumerate(rows):
            for column, cell in enumerate(cells):
                at = (30 + 280 * column, 20 + 50 * row)
                ImageDraw.Draw(picture).text(at, cell, font=ImageFont.load_default(24), fill="black")
        assert lines_in(picture) == [" ".join(row) for row in rows]

    def test_a_picture_without_words_has_none(self):
        from PIL import Image

        assert lines_in(Image.new("RGB", (640, 480), "white")) == []
        assert lines_in(Image.effect_noise((640, 480), 60)) == []
        assert lines_in(Image.new("RGB", (3, 3))) == []

    @pytest.mark.parametrize("degrees", [90, 180, 270])
    def test_a_picture_that_lies_on_its_side_or_its_head_is_read_in_order(self, degrees: int):
        assert lines_in(drawn(PAGE).rotate(degrees, expand=True)) == PAGE

    def test_letters_of_another_script_are_not_taken_for_latin_ones_of_their_shape(self):
        page = drawn([*RUSSIAN, "МОСКВА ТЕАТР", "Сумма"], 28, font=font_with_cyrillic())
        assert lines_in(page) == []

    def test_a_page_of_large_letters_is_read(self):
        assert lines_in(drawn(["WORD"], 300, width=1400)) == ["WORD"]

    @pytest.mark.slow
    def test_a_long_screenshot_is_not_shrunk_beyond_reading(self):
        lines = [f"Line {number} of the page" for number in range(100, 160)]
        assert lines_in(drawn(lines, 30, width=1080).resize((1080, 3_348))) == lines

    def test_nothing_is_fetched(self, monkeypatch):
        def refuse(*args: object) -> None:
            raise AssertionError("asked for the network")

        monkeypatch.setattr(socket.socket, "connect", refuse)
        monkeypatch.setattr(socket, "getaddrinfo", refuse)
        ocr._engine.cache_clear()
        assert lines_in(drawn(["Hello world"], 30)) == ["Hello world"]

    def test_the_words_of_real_documents_are_read(self, samples: Path):
        def words(name: str) -> list[str]:
            document = parse_document(samples / name, name)
            return [line for image in document.images for line in words_in(image.data).splitlines()]

        assert words("office/with-images.docx") == [
            "Chart 1: Revenue Growth",
            "Chart 2: Customer Satisfaction",
        ]
        assert words("pdf/with-images.pdf") == [
            "Image 1: Serial Number SN-001",
            "Image 2: Model Number M-2024",
        ]
        assert words("pdf/image-only.pdf") == []


@needs_ocr
@pytest.mark.usefixtures("no_russian")
class TestFormats:
    @pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
    def test_the_format_makes_no_difference(self, kind: str):
        assert lines_in(drawn(SHORT, 24), kind) == SHORT

    @pytest.mark.parametrize(("mode", "kind"), [("1", "PNG"), ("L", "PNG"), ("P", "PNG"), ("CMYK", "JPEG")])
    def test_neither_does_the_kind_of_its_pixels(self, mode: str, kind: str):
        assert lines_in(drawn(SHORT, 24).convert(mode), kind) == SHORT

    def test_sixteen_bits_a_pixel_are_read(self):
        import numpy as np
        from PIL import Image

        grey = np.asarray(drawn(SHORT, 24).convert("L")).astype(np.uint16)
        assert lines_in(Image.fromarray(grey * 16)) == SHORT

    @pytest.mark.parametrize("ink", ["black", "white"])
    def test_letters_on_nothing_are_read_whatever_their_colour(self, ink: str):
        from PIL import Image, ImageChops

        letters = ImageChops.invert(drawn(SHORT, 24).convert("L"))
        picture = Image.new("RGBA", letters.size, ink)
        picture.putalpha(letters)
        assert lines_in(picture) == SHORT

    def test_only_the_first_picture_of_an_animation_is_read(self):
        frames = [drawn([text], 30) for text in ("First frame", "Second frame")]
        assert lines_in(frames[0], "GIF", save_all=True, append_images=frames[1:]) == ["First frame"]

    def test_a_photograph_is_turned_as_its_camera_says(self):
        from PIL import Image

        turned = Image.Exif()
        turned[0x0112] = 6  # the top is on the right
        assert lines_in(drawn(PAGE).rotate(90, expand=True), "JPEG", exif=turned) == PAGE


@needs_ocr
class TestRefusals:
    def test_what_is_damaged_is_refused(self):
        whole = stored(drawn(PAGE))
        with pytest.raises(UnreadablePicture, match="damaged or incomplete; download or export it again"):
            words_in(whole[: len(whole) // 2])

    @pytest.mark.parametrize(
        "data", [b"", b"hello", b"<svg xmlns='x'/>", b"%PDF-1.4", b"%!PS-Adobe-3.0 EPSF-3.0"]
    )
    def test_what_is_no_picture_is_refused(self, data: bytes):
        with pytest.raises(UnreadablePicture, match="unknown format; save it as PNG"):
            words_in(data)

    def test_what_would_fill_the_memory_is_refused_before_it_is_unpacked(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(
                UnreadablePicture, match=r"100000 x 100000 pixels, over the limit of 50 million"
            ):
                words_in(png(100_000, 100_000))


def process_of_the_words(data: bytes) -> tuple[str, int]:
    return words_in(data), os.getpid()


def reserved_mb_after_each(pictures: list[bytes]) -> list[int]:
    """What the kernel counts of this process against its limit, after each of the pictures."""
    reserved = []
    for data in pictures:
        words_in(data)
        (line,) = [
            line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData")
        ]
        reserved.append(int(line.split()[1]) >> 10)
    return reserved


@needs_ocr
@pytest.mark.usefixtures("children")
class TestChild:
    @pytest.mark.slow
    @pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits and tells what is reserved")
    async def test_a_child_does_not_grow_with_every_shape_of_picture(self):
        """It did, until the kernel refused it memory for a picture that a fresh child read."""
        pictures = [
            stored(drawn([PAGE[0]], 20, width=width).resize((width, height))) for width, height in SHAPES
        ]
        reserved = await run_in_child(reserved_mb_after_each, pictures, timeout=110, memory_mb=1024)
        assert max(reserved) - reserved[0] < 60, reserved

    @pytest.mark.slow
    async def test_a_child_reads_and_is_kept_for_the_next_picture(self):
        data = stored(drawn([*PAGE] * 3))
        words = await read_words(data, timeout=100, memory_mb=1024)
        assert words.splitlines() == PAGE * 3
        first, second = [
            await run_in_child(process_of_the_words, data, timeout=100, memory_mb=1024) for _ in range(2)
        ]
        assert first == second

    async def test_a_refusal_comes_back_as_it_was_meant(self):
        with pytest.raises(UnreadablePicture) as refusal:
            await read_words(b"hello", timeout=60, memory_mb=1024)
        assert refusal.value.reason == "the picture is of an unknown format; save it as PNG"

    async def test_a_picture_that_takes_too_long_is_refused_with_the_setting_to_raise(self):
        with pytest.raises(UnreadablePicture, match=r"longer than 0.05 s; .* STREAMLANE_PARSER_TIMEOUT_S"):
            await read_words(stored(drawn(PAGE)), timeout=0.05, memory_mb=1024)

    @pytest.mark.slow
    @pytest.mark.parametrize("memory_mb", [40, 120, 260])
    async def test_a_picture_that_takes_too_much_memory_is_refused_with_the_setting_to_raise(
        self, memory_mb: int
    ):
        with pytest.raises(
            UnreadablePicture, match=r"more than \d+ MiB of memory; .* STREAMLANE_PARSER_MEMORY_MB"
        ):
            await read_words(stored(drawn(PAGE * 20, 30, width=1400)), timeout=100, memory_mb=memory_mb)

    async def test_a_child_that_dies_is_not_the_fault_of_the_picture(self, monkeypatch):
        monkeypatch.setattr(ocr, "words_in", die)
        with pytest.raises(ChildProcessError):
            await read_words(b"", timeout=60, memory_mb=1024)


def die(data: bytes) -> None:
    os._exit(3)


@needs_ocr
class TestRussian:
    @pytest.fixture(autouse=True)
    def environment(self, monkeypatch) -> None:
        if ocr_cyrillic.find_data() is None:
            pytest.skip("Tesseract's Russian data (Debian: tesseract-ocr-rus) is not on this machine")
        monkeypatch.setenv("TESSDATA_PREFIX", os.environ.get("TESSDATA_PREFIX", ""))

    def test_cyrillic_is_read_with_all_its_capitals(self):
        lines = [*RUSSIAN, "МОСКВА ТЕАТР", "Сумма"]
        assert lines_in(drawn(lines, 28, font=font_with_cyrillic())) == lines

    def test_a_latin_page_is_read_as_without_it(self):
        assert lines_in(drawn(PAGE)) == PAGE

    def test_the_lines_of_a_mixed_page_stay_in_their_order(self):
        lines = [PAGE[0][:45], RUSSIAN[0], PAGE[1][:45], RUSSIAN[1]]
        assert lines_in(drawn(lines, 24, font=font_with_cyrillic())) == lines
