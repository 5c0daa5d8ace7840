"""What becomes of documents: real ones, and small ones made here."""

import base64
import json
from pathlib import Path

import pytest
from consumers.knowledge.reading.parsing import Limits, ParsedDocument, UnreadableDocument, parse_document

from tests.support.documents import docx, odt, png, zipped

DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
REFUSED = {
    "empty.txt": "the file is empty",
    "truncated.docx": "damaged",
    "password.pdf": "needs a password",
}


@pytest.fixture
def read(tmp_path):
    def read(name: str, content: bytes | str) -> ParsedDocument:
        path = (
            tmp_path / "stored"
        )  # as in the file store: the name of the owner says nothing to the file system
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return parse_document(path, name)

    return read


class TestRealDocuments:
    def test_each_is_read_or_refused_as_its_readme_says(self, samples: Path):
        for path in sorted(samples.rglob("*")):
            if path.is_dir():
                continue
            if path.name in REFUSED:
                with pytest.raises(UnreadableDocument, match=REFUSED[path.name]):
                    parse_document(path, path.name)
            else:
                document = parse_document(path, path.name)
                assert document.text or document.images, path.name
                assert document.title, path.name
                assert "\0" not in document.text, path.name

    @pytest.mark.parametrize(
        ("file", "words"),
        [
            ("pdf/receipt.pdf", "TECHMART ELECTRONICS"),
            ("pdf/receipt.pdf", "Headphones - Premium Black AUDIO-5521 1 @ $349.99"),
            ("pdf/google-doc.pdf", "Complex is better than complicated. Flat is better than nested."),
            ("pdf/google-doc.pdf", "| **Capital** | Jakarta | Berlin | Vienna | Paris | Vatican City |"),
            ("pdf/multicolumn.pdf", "## Two-Column Document with Lorem Ipsum"),
            (
                "pdf/multicolumn.pdf",
                "consectetuer adipiscing elit. Ut purus elit, vestibulum ut, placerat ac",
            ),
            ("pdf/multicolumn.pdf", "Belgium 11.5 30,689 Brussels Dutch, French, German"),
            ("pdf/booking.pdf", "Order / Rev: 2024-12-5678"),
            ("pdf/arabic.pdf", "حَيبيب"),
            ("pdf/arabic.pdf", "habibi"),
            ("pdf/paper.pdf", "confirming its general feasibility"),
            ("office/paper.docx", "# AutoGen: Enabling Next-Gen LLM Applications"),
            ("office/slides.pptx", "| ColA | ColB | ColC | ColD | ColE | ColF |"),
            ("office/sheets.xlsx", "| 58 | 6ff4173b-42a5-4784-9b19-f49caff4d93d | 22 | 9 |"),
            ("office/sheets-old.xls", "| 58 | 6ff4173b-42a5-4784-9b19-f49caff4d93d | 22 | 9 |"),
            ("office/book.epub", "This is a **test** paragraph"),
            ("office/equations.docx", r"\frac{m\lambda }{a}"),
            ("office/html-named.docx", "# Does Model and Inference Parameter Matter"),
            ("text/notebook.ipynb", '```python\nprint("markitdown")\n```'),
            ("text/shift-jis.csv", "| 佐藤太郎 | 30 | 東京 |"),
            ("text/workzone-ru.txt", "Очереди и воркеры"),
            ("web/wikipedia.html", "| Founded | April 4, 1975"),
        ],
    )
    def test_the_words_and_their_structure_are_kept(self, samples: Path, file, words):
        assert words in parse_document(samples / file, file).text

    @pytest.mark.parametrize(
        ("file", "language"),
        [
            ("text/workzone-ru.txt", "ru"),
            ("text/weknora-CHUNKING.md", "en"),
            ("text/weknora-BUILTIN_MODELS.md", "zh"),
            ("text/shift-jis.csv", "ja"),
            ("office/sheets.xlsx", None),
        ],
    )
    def test_the_language_is_told(self, samples: Path, file, language):
        assert parse_document(samples / file, file).language == language

    @pytest.mark.parametrize(
        ("file", "title"),
        [
            ("pdf/google-doc.pdf", "PDF Example Document"),  # from its metadata
            ("pdf/booking.pdf", "booking"),  # which calls itself "untitled"
            ("office/with-images.docx", "Multi-Image Document"),  # its first heading
            ("office/sheets.xlsx", "sheets"),  # not "Sheet1"
            ("text/faststream-rpc.md", "Redis RPC with FastStream"),  # after a front matter with comments
            ("text/weknora-Home.md", "WeKnora Wiki 首页"),  # in a front matter
            ("web/wikipedia.html", "Microsoft - Wikipedia"),
        ],
    )
    def test_the_title_is_what_a_person_would_call_it(self, samples: Path, file, title):
        assert parse_document(samples / file, file).title == title

    def test_the_pages_of_a_scan_are_delivered_as_pictures(self, samples: Path):
        document = parse_document(samples / "pdf/image-only.pdf", "image-only.pdf")
        assert (document.text, document.pages) == ("", 6)
        assert [image.page for image in document.images] == [1, 4]  # the others look the same
        assert {image.mime for image in document.images} == {"image/png"}

    def test_pictures_among_text_are_delivered_with_their_page(self, samples: Path):
        images = parse_document(samples / "pdf/with-images.pdf", "x.pdf").images
        assert [(image.page, image.index) for image in images] == [(1, 0), (1, 1)]

    def test_the_thumbnail_of_a_document_is_none_of_its_pictures(self, samples: Path):
        images = parse_document(samples / "office/with-images.docx", "x.docx").images
        assert [image.mime for image in images] == ["image/png", "image/png"]


class TestContentBeforeName:
    @pytest.mark.parametrize("name", ["a.txt", "a.pdf", "a", "a.xlsx", "a.doc"])
    def test_an_office_file_is_known_under_any_name(self, read, name):
        document = read(name, docx("hello"))
        assert (document.mime, document.text) == (DOCX, "hello")

    @pytest.mark.parametrize("name", ["a.docx", "a.pdf", "a.unknown", "README"])
    def test_plain_text_is_known_under_any_name(self, read, name):
        document = read(name, "just text")
        assert (document.mime, document.text, document.title) == (
            "text/plain",
            "just text",
            name.split(".")[0],
        )

    def test_a_pdf_after_some_junk_is_a_pdf(self, samples: Path, read):
        junk = b"junk before\n"
        assert read("a.txt", junk + (samples / "pdf/minimal.pdf").read_bytes()).mime == "application/pdf"

    def test_a_page_without_an_ending_is_html(self, read):
        assert read("page", "<!DOCTYPE html><html><body><h1>Hi</h1></body></html>").text == "# Hi"


class TestHtml:
    def test_what_a_reader_does_not_see_is_left_out(self, read):
        page = """<html lang="en"><head><title>A &amp; B</title><meta name="x" content="y"></head><body>
            <script>alert(1)</script><style>p {}</style><nav>Menu</nav>
            <p>Read <a href="https://example.com/long">this</a> <img src="data:image/png;base64,AAAA" alt="x"></p></body>"""
        document = read("page.html", page)
        assert (document.title, document.text) == ("A & B", "Read this")

    @pytest.mark.parametrize("tail", ["<script>" * 50_000, "<style", "<!--" * 50_000, "<svg><template>"])
    def test_what_is_never_closed_costs_no_time(self, read, tail):
        assert read("page.html", f"<html><body><p>text</p>{tail}").text.startswith("text")


class TestTables:
    def test_a_cell_of_several_lines_stays_in_its_row(self, read):
        assert read("a.csv", 'a;b\n"1\n2";x|y\n').text == "| a | b |\n| --- | --- |\n| 1 2 | x\\|y |"

    def test_rows_of_different_lengths_are_filled_up(self, read):
        assert read("a.tsv", "a\tb\n1\n").text == "| a | b |\n| --- | --- |\n| 1 | |"


class TestDeepPages:
    @pytest.mark.parametrize("depth", [60, 5000])
    @pytest.mark.parametrize(
        ("opens", "closes"),
        [
            ("<div>", "</div>"),
            ("<div class='a'>", ""),
            ("<b><span>", "</span></b>"),
            ("<ul><li>", "</li></ul>"),
            ("<table><tr><td>", "</td></tr></table>"),
        ],
    )
    def test_words_are_found_however_deep_they_lie(self, read, opens, closes, depth):
        page = f"<html><body><p>Above.</p>{opens * depth}The needle<br>lies deep.{closes * depth}"
        text = read("a.html", f"{page}<p>Below.</p></body></html>").text
        for words in ("Above.", "The needle", "lies deep.", "Below."):
            assert words in text

    def test_elements_that_the_next_one_ends_are_not_deep(self, read):
        text = read("a.html", "<html><body>" + "<p>One.<ul><li>Two.<li>Three.</ul>" * 200).text
        assert text.count("One.\n\n- Two.\n- Three.") == 200

    def test_what_is_commented_out_is_not_deep(self, read):
        page = f"<html><body><p>One.</p><!-- {'<div>' * 100} --><ul><li>Two.</li></ul></body></html>"
        assert read("a.html", page).text == "One.\n\n- Two."

    def test_cells_that_the_next_one_ends_are_all_read(self, read):
        page = "<html><body><table><tr><th>a<th>b<tr><td>1<td>2</table><p>Below.</p>"
        assert read("a.html", page).text == "| a | b |\n| --- | --- |\n| 1 | 2 |\n\nBelow."

    def test_words_of_elements_that_lie_too_deep_stay_apart(self, read):
        deep = "<div>" * 100 + "<div>One</div><div>two</div>"
        assert read("a.html", f"<html><body>{deep}").text.split() == ["One", "two"]


class TestRecords:
    def test_json_is_one_value_a_line_with_its_path(self, read):
        text = read("a.json", '{"a": {"b": [1, {"c": "text"}]}, "d": null, "tags": ["x", "y"]}').text
        assert text == "a.b[1]: 1\na.b[2].c: text\nd: null\ntags: x, y"

    def test_json_lines_are_a_paragraph_each(self, read):
        assert read("a.jsonl", '{"q": "why"}\n\n{"q": "how"}\n').text == "q: why\n\nq: how"

    @pytest.mark.parametrize(
        "content", ['{"a":', "[" * 100_000, '{"cells": 3}'], ids=["cut off", "too deep", "no notebook"]
    )
    @pytest.mark.parametrize("name", ["a.json", "a.ipynb"])
    def test_what_does_not_keep_to_its_type_is_plain_text_with_a_warning(self, read, name, content):
        if (name, content) != ("a.json", '{"cells": 3}'):
            document = read(name, content)
            assert document.text == content
            assert "does not keep to its type" in document.warnings[0]

    def test_a_notebook_keeps_its_code_its_output_and_its_pictures(self, read):
        picture = base64.b64encode(png(100, 100)).decode()
        cells = [
            {"cell_type": "markdown", "source": ["# Title\n", "words"]},
            {
                "cell_type": "code",
                "source": "print(1)",
                "outputs": [{"text": ["1\n"]}, {"data": {"image/png": picture, "text/plain": "<Figure>"}}],
            },
        ]
        document = read("a.ipynb", json.dumps({"cells": cells, "metadata": {}}))
        assert (
            document.text == "# Title\nwords\n\n```python\nprint(1)\n```\n\n```\n1\n```\n\n```\n<Figure>\n```"
        )
        assert [image.data for image in document.images] == [png(100, 100)]


class TestOthers:
    def test_a_mail_tells_which_attachments_were_not_read(self, read):
        mail = (
            b"From: a@b.c\r\nTo: d@e.f\r\nSubject: =?utf-8?b?0J/RgNC40LLQtdGC?=\r\nMIME-Version: 1.0\r\n"
            b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n"
            b"Content-Type: text/plain; charset=windows-1251\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
            + "Привет, мир".encode("cp1251")
            + b"\r\n--x\r\nContent-Type: text/plain\r\nContent-Disposition: attachment; filename=a.txt\r\n\r\nx\r\n--x--\r\n"
        )
        document = read("letter", mail)
        assert (document.mime, document.title) == ("message/rfc822", "Привет")
        assert "Привет, мир" in document.text
        assert document.warnings == ("attachments were not read; add them as files: a.txt",)

    def test_an_open_document_is_read(self, read):
        assert read("a.odt", odt("Title", "words")).text == "# Title\n\nwords"

    def test_rich_text_is_read_in_its_code_page(self, read):
        assert read("a", rb"{\rtf1\ansi\ansicpg1251 \b Hello\b0\par \'cf\'f0}").text == "**Hello**\n\nПр"

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("a.rst", "Title\n=====\n\nwords"),
            ("a.org", "* Title\nwords"),
            ("a.xml", "<?xml version='1.0'?><Title>words</Title>"),
            (
                "a.fb2",
                '<?xml version="1.0"?><FictionBook><body><title><p>Title</p></title><p>words</p></body></FictionBook>',
            ),
        ],
    )
    def test_marked_up_text_becomes_markdown(self, read, name, content):
        assert read(name, content).text.replace("\n", " ").split() == ["#", "Title", "words"]

    def test_an_included_file_is_not_included(self, read):
        assert "root" not in read("a.rst", ".. include:: /etc/passwd\n\nwords").text

    @pytest.mark.parametrize("name", ["a.py", "a.tex", "a.yaml", "a.log", "Makefile"])
    def test_any_other_text_is_taken_as_it_is(self, read, name):
        assert read(name, "x = 1\n# two").text == "x = 1\n# two"


class TestLimits:
    def test_a_picture_is_a_document_without_text(self, read):
        document = read("photo.png", png(640, 480))
        assert (document.text, document.mime, document.title) == ("", "image/png", "photo")
        assert [image.data for image in document.images] == [png(640, 480)]

    def test_each_picture_is_taken_once_and_icons_not_at_all(self, read):
        media = [("a", png(100, 100)), ("b", png(100, 100)), ("c", png(20, 900)), ("d", png(100, 100, 7))]
        document = read("a.docx", docx("x", *((f"word/media/{name}.png", data) for name, data in media)))
        assert [image.data for image in document.images] == [png(100, 100), png(100, 100, 7)]
        assert document.warnings == ()

    @pytest.mark.parametrize(
        ("limits", "kept", "warning"),
        [
            (Limits(pictures=3), 3, "only the first 3 pictures were kept"),
            (Limits(picture_pixels=20_000), 4, "pictures left out because they are too big: 1"),
            (Limits(), 5, None),
        ],
    )
    def test_pictures_over_the_limits_are_left_out_with_a_warning(self, tmp_path, limits, kept, warning):
        media = [(f"word/media/{shade}.png", png(100, 100, shade)) for shade in range(4)]
        media.append(("word/media/huge.png", png(300, 300)))
        path = tmp_path / "a.docx"
        path.write_bytes(docx("x", *media))
        document = parse_document(path, "a.docx", limits)
        assert len(document.images) == kept
        assert document.warnings == ((warning,) if warning else ())

    def test_an_archive_in_a_document_is_not_opened(self, read):
        inner = zipped([("deep.txt", "secret words")])
        assert read("a.docx", docx("outside", ("word/embeddings/inner.zip", inner))).text == "outside"
