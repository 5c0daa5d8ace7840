"""Which lines of a picture are believed, and in what order they are read."""

import pytest
from consumers.knowledge.reading.ocr_lines import Line, believed, in_reading_order, is_foreign

HEIGHT = 20
LETTER = 10


def line(text: str, left: float = 0, row: float = 0, *, score: float = 1, length: int | None = None) -> Line:
    """`text` on the row `row` of the page; as long as `length` letters of average width, its own unless said."""
    width = LETTER * (len(text) if length is None else length)
    top = row * HEIGHT * 1.5
    return Line(left, top, left + width, top + HEIGHT, width / HEIGHT, text, score)


def words(lines: list[Line]) -> list[str]:
    return [line.text for line in lines]


class TestOrder:
    def test_lines_are_read_from_top_to_bottom_and_words_of_one_line_from_left_to_right(self):
        lines = [line("world", 100, 0.1), line("below", 0, 1), line("hello", 0, 0)]
        assert in_reading_order(lines) == ["hello world", "below"]

    def test_a_sloping_page_keeps_its_lines_apart(self):
        lines = [
            line(f"{row}{column}", 100 * column, row + 0.03 * column)
            for column in range(3)
            for row in range(3)
        ]
        assert in_reading_order(lines) == ["00 01 02", "10 11 12", "20 21 22"]

    def test_a_table_is_read_row_by_row(self):
        cells = [line(f"cell {row}{column}", 300 * column, row) for column in range(3) for row in range(9)]
        assert in_reading_order(cells) == [f"cell {row}0 cell {row}1 cell {row}2" for row in range(9)]

    def test_columns_of_prose_are_read_one_after_the_other(self):
        left, right = (
            [f"the {side} column says on line {row}" for row in range(6)] for side in ("first", "other")
        )
        lines = [line(text, 0, row) for row, text in enumerate(left)]
        lines += [line(text, 500, row + 0.2) for row, text in enumerate(right)]
        assert in_reading_order(lines) == left + right

    def test_a_heading_over_two_columns_is_read_before_them_and_one_between_them_where_it_stands(self):
        def column(name: str, rows: range) -> list[str]:
            return [f"the {name} column says on line {row}" for row in rows]

        lines = [line("A heading that stands over both of the two columns of the page", 100, 0)]
        lines += [line("Another one that stands in the middle between the columns, wide", 100, 7)]
        for rows in (range(1, 7), range(8, 14)):
            for left, name in ((0, "first"), (500, "other")):
                lines += [line(text, left, row) for row, text in zip(rows, column(name, rows), strict=True)]
        assert in_reading_order(lines) == [
            lines[0].text,
            *column("first", range(1, 7)),
            *column("other", range(1, 7)),
            lines[1].text,
            *column("first", range(8, 14)),
            *column("other", range(8, 14)),
        ]

    def test_nothing_is_read_from_nothing(self):
        assert in_reading_order([]) == []


class TestBelief:
    def test_noise_is_not_believed(self):
        lines = [
            line("Plain words"),
            line("loint chst", score=0.7),
            line("-----"),
            line("", score=0, length=9),
        ]
        assert words(believed(lines)) == ["Plain words"]

    @pytest.mark.parametrize("text", ["1", "OK", "知识库平台的后台任务", "H E A D", "1,250.00 EUR"])
    def test_short_wide_and_spaced_words_have_no_gaps(self, text: str):
        wide = 2 * len(text) if text[0] > "\u3000" else len(text)
        assert not line(text, length=wide).has_gaps

    @pytest.mark.parametrize(
        ("text", "length"), [(" 1250 ", 17), ("h    c", 12), ("", 9), (":  . ., 8-800", 50)]
    )
    def test_a_line_of_which_words_were_left_out_has_gaps(self, text: str, length: int):
        assert line(text, length=length).has_gaps

    def test_of_a_page_in_an_unknown_script_look_alikes_are_not_believed_and_other_words_are(self):
        page = [
            line("", length=30),
            line("MOCKBA"),
            line("CyMMa", score=0.97),
            line("mail (nouta)"),
            line("Redis 8.0"),
        ]
        assert is_foreign(page)
        assert words(believed(page)) == ["Redis 8.0"]

    def test_of_a_page_in_a_known_script_words_of_such_letters_are_believed(self):
        page = [line("The queue holds what is to be done"), line("MEMO"), line("", length=3)]
        assert not is_foreign(page)
        assert words(believed(page)) == ["The queue holds what is to be done", "MEMO"]
