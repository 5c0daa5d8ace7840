"""What data tables hold: types, ranges and values, and all that in words."""

import pytest
from consumers.knowledge.reading.sheet_words import described
from consumers.knowledge.reading.sheets import UnreadableSheet, read_sheets

from tests.support.documents import xlsx


def read(path, text, name="a.csv"):
    path = path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_sheets(path, name)


def column(path, *values):
    (sheet,) = read(path, "\n".join(["name", *values]))
    return sheet.columns[0]


@pytest.mark.parametrize(
    ("values", "kind", "ends"),
    [
        (["1", "2", "-3"], "number", (-3, 2)),
        (["1.5", "2e3", "70%"], "number", (1.5, 2000)),
        (["'1,5'", "x"], "text", (None, None)),
        (["2024-02-01", "2023-12-31"], "date", ("2023-12-31", "2024-02-01")),
        (["01.02.2024", "31.12.2023"], "date", ("2023-12-31", "2024-02-01")),
        (["yes", "no", "yes"], "truth", (None, None)),
        (["00123", "00456"], "text", (None, None)),
        (["a", "b"], "text", (None, None)),
    ],
)
def test_a_column_has_the_type_of_nearly_all_of_its_values(tmp_path, values, kind, ends):
    found = column(tmp_path, *values)
    assert (found["type"], (found["min"], found["max"])) == (kind, ends)


def test_numbers_are_read_as_people_write_them(tmp_path):
    (sheet,) = read(tmp_path, "a;b\n1 234,5;1,234.5\n2 000;2,000\n")
    assert [(one["type"], one["min"], one["max"]) for one in sheet.columns] == [("number", 1234.5, 2000)] * 2


@pytest.mark.parametrize("odd", ["12,345,6", "1e999", "9" * 400, "1,2,3"])
def test_what_only_looks_like_a_number_is_none(tmp_path, odd):
    found = column(tmp_path, f'"{odd}"', *["7"] * 99)
    assert (found["type"], found["min"], found["max"], found["mean"]) == ("number", 7, 7, 7)


def test_a_share_is_not_read_as_thousands(tmp_path):
    found = column(tmp_path, '"0,123"', '"0,25"')
    assert (found["min"], found["max"]) == (0.123, 0.25)


def test_numbers_at_the_end_of_what_there_is_have_a_mean(tmp_path):
    found = column(tmp_path, *["1e308"] * 9)
    assert (found["max"], found["mean"]) == (1e308, None)


def test_what_stands_above_the_names_of_the_columns_is_passed_over(tmp_path):
    (sheet,) = read(tmp_path, "Report of May,,\n,,\ncity,people,area\nOslo,7,4\nBergen,3,2\n")
    assert ([one["name"] for one in sheet.columns], sheet.rows) == (["city", "people", "area"], 2)


def test_a_table_without_names_gets_numbers(tmp_path):
    (sheet,) = read(tmp_path, "1,2\n3,4\n")
    assert ([one["name"] for one in sheet.columns], sheet.rows) == (["column 1", "column 2"], 2)


def test_every_sheet_of_a_workbook_is_read(tmp_path):
    (sheet,) = read(tmp_path, xlsx([["n", "v"], ["a", "1"]]), "a.xlsx")
    assert (sheet.name, sheet.rows) == ("a", 1)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.csv", b"", "no table"),
        ("a.csv", b"only,names\n", "no table"),
        ("a.xlsx", b"PK\3\4 torn", "cannot be read"),
    ],
)
def test_what_is_no_table_says_so(tmp_path, name, data, said):
    with pytest.raises(UnreadableSheet, match=said):
        read(tmp_path, data, name)


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en", "has 2 rows and 2 columns"),
        ("ru", "строк — 2, столбцов — 2"),
        ("zh-CN", "有2行、2列"),
        ("xx", "has 2 rows"),
    ],
)
def test_a_table_is_described_in_the_language_of_its_document(tmp_path, language, said):
    (sheet,) = read(tmp_path, "city,people\nOslo,7\nBergen,\n")
    text = described(sheet, language)
    assert said in text
    assert "Oslo" in text
