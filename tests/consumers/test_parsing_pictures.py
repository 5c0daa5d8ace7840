"""How big a picture is, by its header, and what two engines agree upon in a PDF."""

import struct

import pytest
from consumers.knowledge.reading.pdfs import agreement
from consumers.knowledge.reading.pictures import identify, size

from tests.support.documents import png

TIFF = struct.pack("<2sHIH", b"II", 42, 8, 2) + struct.pack("<HHIHHHHII", 256, 3, 1, 640, 0, 257, 4, 1, 480)
BIG_ENDIAN_TIFF = struct.pack(">2sHIH", b"MM", 42, 8, 2) + struct.pack(
    ">HHIIHHIHH", 256, 4, 1, 640, 257, 3, 1, 480, 0
)
JPEG = (
    b"\xff\xd8\xff\xe0\0\x10JFIF"
    + bytes(10)
    + b"\xff\xc0\0\x11\x08"
    + struct.pack(">HH", 480, 640)
    + bytes(12)
)


@pytest.mark.parametrize(
    ("mime", "data"),
    [
        ("image/png", png(640, 480)),
        ("image/gif", b"GIF89a" + struct.pack("<HH", 640, 480)),
        ("image/bmp", b"BM" + bytes(16) + struct.pack("<ii", 640, -480)),
        ("image/jpeg", JPEG),
        ("image/tiff", TIFF),
        ("image/tiff", BIG_ENDIAN_TIFF),
        ("image/webp", b"RIFF....WEBPVP8X" + bytes(8) + b"\x7f\x02\0\xdf\x01\0"),
        ("image/webp", b"RIFF....WEBPVP8L" + bytes(5) + struct.pack("<I", 639 | 479 << 14)),
        ("image/webp", b"RIFF....WEBPVP8 " + bytes(10) + struct.pack("<HH", 640, 480)),
    ],
)
class TestSizes:
    def test_the_header_tells_the_size(self, mime, data):
        assert (identify(data), size(data)) == (mime, (640, 480))

    def test_a_header_that_was_cut_off_tells_none_and_breaks_nothing(self, mime, data):
        assert all(size(data[:kept]) in {None, (640, 480)} for kept in range(len(data)))


@pytest.mark.parametrize("data", [b"", b"BM is how this text begins", b"RIFF....WAVE", b"GIF", b"\x89PNG"])
def test_what_is_no_picture_has_no_size(data):
    assert identify(data) is None
    assert size(data) is None


class TestAgreement:
    def test_marks_do_not_count(self):
        assert agreement("# Title\n\n| **one** | two |", "Title\none two") == 1

    def test_the_same_words_in_another_order_do_not_agree(self):
        assert agreement("one three two four", "one two three four") == 0

    def test_words_that_one_engine_has_not_seen_lower_it(self):
        assert agreement("one two", "one two three four five") == 0.25

    def test_a_page_of_one_word_says_nothing_against_it(self):
        assert agreement("# Title", "Title") == 1
