"""Files that no reader could open, or that nobody should: each refused in one sentence, none by a crash."""

import os
import struct
import zipfile
from pathlib import Path

import pytest
from consumers.knowledge.reading.parsing import Limits, UnreadableDocument, parse_document

from tests.support.documents import BILLION_LAUGHS, docx, odt, ole, png, with_false_sizes, zipped

MIB = 1 << 20
SMALL = Limits(file_mb=2, unpacked_mb=20, text_chars=100_000)
PASSWORD = "needs a password; save it without one"
DAMAGED = "damaged or incomplete; download or export it again"
TOO_BIG = "unpacks to more than 20 MiB"
ODT = "application/vnd.oasis.opendocument.text"


@pytest.fixture
def refusal(tmp_path):
    """The sentence with which a file of that name and content is refused."""

    def refusal(name: str, content: bytes | str, limits: Limits = SMALL) -> str:
        path = tmp_path / "stored"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        with pytest.raises(UnreadableDocument) as caught:
            parse_document(path, name, limits)
        return caught.value.reason

    return refusal


def read_or_refused(folder: Path, content: bytes) -> bool:
    """Whether a file ends as one of both, and in one line."""
    (folder / "stored").write_bytes(content)
    try:
        return bool(parse_document(folder / "stored", "a.pdf").title)
    except UnreadableDocument as refused:
        return "\n" not in refused.reason


class TestNothingToRead:
    def test_an_empty_file(self, refusal):
        assert refusal("a.txt", b"") == "the file is empty; add it again when it has content"

    @pytest.mark.parametrize(
        "content", [b" ", b"  \n\t\r\n ", b"\0" * 100, b"\xef\xbb\xbf", "\u3000\u00a0".encode()]
    )
    def test_a_file_of_blanks_or_nuls(self, refusal, content):
        assert "nothing but blanks" in refusal("a.txt", content)

    def test_a_document_without_words_or_pictures(self, refusal):
        assert "holds no readable text" in refusal("a.docx", docx(""))

    def test_a_file_that_is_gone(self, tmp_path):
        with pytest.raises(UnreadableDocument, match="the file is gone; add it again"):
            parse_document(tmp_path / "gone", "a.txt")

    def test_a_folder(self, tmp_path):
        with pytest.raises(UnreadableDocument, match="the path is a folder; add the files in it"):
            parse_document(tmp_path, "a.txt")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_file_that_may_not_be_read(self, tmp_path):
        path = tmp_path / "secret"
        path.write_text("words")
        path.chmod(0)
        with pytest.raises(UnreadableDocument, match="may not be read; change its permissions"):
            parse_document(path, "a.txt")


class TestUnsupported:
    @pytest.mark.parametrize("signature", [b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe"])
    def test_a_program(self, refusal, signature):
        assert "is a program, not a document" in refusal("letter.docx", signature + os.urandom(200))

    @pytest.mark.parametrize(
        ("content", "what"),
        [
            (b"\0\0\0\x18ftypmp42" + bytes(100), "a film or a sound"),
            (b"SQLite format 3\0" + bytes(100), "a database"),
            (b"7z\xbc\xaf\x27\x1c" + bytes(100), "an archive"),
            (b"\x1f\x8b" + bytes(100), "a compressed file"),
            (zipped([("a.txt", "words")]), "an archive; unpack it"),
            (b"a.txt".ljust(257, b"\0") + b"ustar", "an archive; unpack it"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_what_is_no_document_is_called_by_its_name(self, refusal, content, what):
        assert f"the file is {what}" in refusal("a.pdf", content)

    def test_random_bytes(self, refusal):
        assert "type that is not supported" in refusal("a.txt", b"\x01" + bytes(range(256)) * 20)

    def test_an_old_office_file_of_no_known_kind(self, refusal):
        assert "old office format" in refusal("a.wps", ole("MatOST"))


class TestDamaged:
    @pytest.mark.parametrize("kept", [0.1, 0.5, 0.9])
    @pytest.mark.parametrize(
        "file", ["office/paper.docx", "office/slides.pptx", "office/sheets.xlsx", "office/book.epub"]
    )
    def test_an_office_file_that_was_cut_off(self, refusal, samples, file, kept):
        content = (samples / file).read_bytes()
        assert DAMAGED in refusal(file, content[: int(kept * len(content))])

    def test_a_part_that_cannot_be_unpacked(self, refusal):
        content = bytearray(docx("hello" * 100))
        at = content.index(b"word/document.xml") + len(b"word/document.xml")
        content[at : at + 20] = b"\xff" * 20
        assert DAMAGED in refusal("a.docx", bytes(content))

    @pytest.mark.parametrize("content", [b"%PDF-1.4", b"%PDF-1.7\n" + b"\x93junk\n" * 500])
    def test_a_pdf_that_is_none_inside(self, refusal, content):
        assert DAMAGED in refusal("a.pdf", content)

    def test_a_pdf_that_was_cut_off(self, refusal, samples):
        assert DAMAGED in refusal("a.pdf", (samples / "pdf/paper.pdf").read_bytes()[:20_000])

    @pytest.mark.parametrize("kept", [10, 18, 23])
    def test_a_picture_that_was_cut_off(self, refusal, kept):
        assert "the picture is damaged or incomplete" in refusal("a.png", png(100, 100)[:kept])

    def test_every_beginning_of_real_files_is_read_or_refused_and_crashes_nothing(self, samples, tmp_path):
        for file in ("pdf/receipt.pdf", "office/sheets-old.xls", "office/equations.docx", "pdf/minimal.pdf"):
            content = (samples / file).read_bytes()
            for part in range(1, 20):
                assert read_or_refused(tmp_path, content[: part * len(content) // 20])

    def test_real_files_with_damage_anywhere_are_read_or_refused_and_crash_nothing(self, samples, tmp_path):
        for file in ("pdf/receipt.pdf", "office/sheets-old.xls", "office/book.epub", "pdf/booking.pdf"):
            content = (samples / file).read_bytes()
            for at in range(0, len(content), len(content) // 20):
                assert read_or_refused(tmp_path, content[:at] + b"\xff\x00\x41" * 5 + content[at + 15 :])


class TestEncrypted:
    def test_a_pdf(self, refusal, samples):
        assert PASSWORD in refusal("a.pdf", (samples / "pdf/password.pdf").read_bytes())

    def test_a_pdf_that_anyone_may_open_is_read(self, samples, tmp_path):
        import pdf_oxide

        path = tmp_path / "owner.pdf"
        pdf_oxide.PdfDocument(str(samples / "pdf/minimal.pdf")).save_encrypted(str(path), "", "secret")
        assert parse_document(path, "a.pdf").text.startswith("Lorem ipsum")

    @pytest.mark.parametrize(
        "content",
        [
            ole("EncryptedPackage"),
            ole("WordDocument", b"\xec\xa5" + bytes(9) + b"\x01"),
            ole(
                "Workbook",
                b"\x09\x08\x10\x00\x00\x06\x05\x00" + bytes(12) + struct.pack("<HH", 0x2F, 6) + bytes(6),
            ),
            ole("PowerPoint Document", b"\0\0\xf6\x0f" + bytes(8) + b"\xdf\xc4\xd1\xf3"),
        ],
        ids=["new", "doc", "xls", "ppt"],
    )
    def test_an_office_file(self, refusal, content):
        assert PASSWORD in refusal("a.docx", content)

    def test_an_open_document(self, refusal):
        manifest = ("META-INF/manifest.xml", "<manifest><encryption-data/></manifest>")
        assert PASSWORD in refusal("a.odt", odt("x", "y", manifest))

    def test_a_book_with_rights(self, refusal):
        parts = [
            ("mimetype", "application/epub+zip"),
            ("META-INF/rights.xml", "<rights/>"),
            ("a.xhtml", "<p/>"),
        ]
        assert PASSWORD in refusal("a.epub", zipped(parts))

    def test_a_part_of_an_archive(self, refusal):
        content = bytearray(docx("hello"))
        at = -1
        while (at := content.find(b"PK\1\2", at + 1)) >= 0:
            content[at + 8] |= 1
        assert PASSWORD in refusal("a.docx", bytes(content))


class TestBombs:
    @pytest.mark.parametrize("name", ["a.docx", "a.doc", "a.txt", "a.pdf"])
    @pytest.mark.parametrize("honest", [True, False], ids=["honest", "lying"])
    def test_a_document_that_unpacks_to_a_giant_under_any_name(self, refusal, name, honest):
        bomb = docx("A" * (21 * MIB))
        assert TOO_BIG in refusal(name, bomb if honest else with_false_sizes(bomb))

    @pytest.mark.parametrize(
        "parts",
        [
            [("xl/workbook.xml", "<w/>"), ("xl/sharedStrings.xml", b" " * (21 * MIB))],
            [("ppt/presentation.xml", "<p/>"), ("ppt/media/image1.png", b"\0" * (21 * MIB))],
            [("mimetype", ODT), ("content.xml", b" " * (21 * MIB))],
            [("mimetype", "application/epub+zip"), ("a.xhtml", b" " * (21 * MIB))],
            [("word/document.xml", "<d/>"), *((f"word/{n}.xml", b" " * MIB) for n in range(21))],
            [(str(n), b" " * MIB) for n in range(21)],
        ],
        ids=["xlsx", "pptx", "odt", "epub", "many parts", "archive"],
    )
    def test_any_kind_of_them(self, refusal, parts):
        assert TOO_BIG in refusal("a", zipped(parts))

    def test_parts_that_share_their_bytes_are_counted_each(self, refusal):
        """Entries that all point at one part: the archive is small, what comes out is not."""
        packed = zipped([("word/document.xml", b" " * (2 * MIB))])
        directory = packed.index(b"PK\1\2")
        end = packed.index(b"PK\5\6")
        entries = packed[directory:end] * 15
        tail = bytearray(packed[end:])
        struct.pack_into("<HHII", tail, 8, 15, 15, len(entries), directory)
        assert TOO_BIG in refusal("a.docx", packed[:directory] + entries + bytes(tail))

    def test_more_parts_than_any_document_has(self, refusal):
        parts = [(f"word/{number}.xml", b"") for number in range(10_001)]
        assert "holds over 10000 parts" in refusal("a.docx", docx("x", *parts))

    def test_a_part_packed_as_no_office_program_does(self, refusal):
        content = zipped([("word/document.xml", b"x" * 1000)], zipfile.ZIP_LZMA)
        assert "packed in a way" in refusal("a.docx", content)

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("a.xml", f'<?xml version="1.0"?>{BILLION_LAUGHS}<l>&l9;</l>'),
            ("a.svg", f"{BILLION_LAUGHS}<svg><text>&l9;</text></svg>"),
            ("a.html", f"<!DOCTYPE html>{BILLION_LAUGHS}<html><body>&l9;</body></html>"),
            ("a.docx", docx("&l9;", declared=BILLION_LAUGHS)),
            ("a.docx", docx("&x;", declared='<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]>')),
        ],
        ids=["xml", "svg", "html", "docx", "file"],
    )
    def test_entities_that_would_expand(self, refusal, name, content):
        assert "defines XML entities, which are not expanded" in refusal(name, content)

    def test_a_picture_of_more_pixels_than_memory_holds(self, refusal):
        assert "30000 x 30000 pixels, over the limit of 50 million" in refusal("a.png", png(30_000, 30_000))


class TestTooMuch:
    def test_a_file_over_the_limit_is_not_even_opened(self, tmp_path):
        path = tmp_path / "huge.txt"
        with path.open("wb") as file:
            file.truncate(1 << 30)
        with pytest.raises(UnreadableDocument, match="has 1024 MiB, over the limit of 200 MiB; split it"):
            parse_document(path, "huge.txt")

    @pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.json", "a.html", "a.md"])
    def test_a_line_without_an_end(self, refusal, name):
        assert "over 100000 characters, which is the limit; split it" in refusal(name, b"x," * MIB)

    def test_a_short_file_whose_text_is_long(self, refusal):
        row = b"," * 300 + b"\n"
        assert "over 100000 characters" in refusal("a.csv", b"x" + row + b"y\n" * 1000)
