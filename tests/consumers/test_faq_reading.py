"""Questions and answers out of files: whatever the form, and every row that cannot be taken says why."""

import csv
import io
import json

import pytest
from consumers.knowledge.faq.reading import (
    MOST_ANSWERS,
    UnreadableTable,
    Written,
    check,
    faults_csv,
    read_table,
    sift,
)

from tests.support.documents import xlsx

LINES = [
    ["Question", "Answers", "Similar questions", "Enabled"],
    ["How do I reset it?", "Press the button.##Call us.", "Reset?", "yes"],
    ["Как вернуть товар?", "В течение 14 дней.", "", "нет"],
]
EXPECTED = [
    Written("How do I reset it?", ("Press the button.", "Call us."), ("Reset?",)),
    Written("Как вернуть товар?", ("В течение 14 дней.",), enabled=False),
]


def csv_file(path, delimiter=",", encoding="utf-8"):
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter).writerows(LINES)
    path.write_bytes(out.getvalue().encode(encoding))
    return path


@pytest.mark.parametrize(("delimiter", "encoding"), [(",", "utf-8-sig"), (";", "cp1251"), ("\t", "utf-8")])
def test_a_csv_is_read_whatever_separates_its_cells(tmp_path, delimiter, encoding):
    path = csv_file(tmp_path / "a.csv", delimiter, encoding)
    assert sift(read_table(path, "a.csv")) == (EXPECTED, [])


def test_a_workbook_is_read(tmp_path):
    path = tmp_path / "a.xlsx"
    path.write_bytes(xlsx(LINES))
    assert sift(read_table(path, "a.xlsx")) == (EXPECTED, [])


@pytest.mark.parametrize("form", ["list", "entries", "lines"])
def test_json_is_read_in_each_of_its_forms(tmp_path, form):
    objects = [
        {
            "standard_question": "How do I reset it?",
            "answers": ["Press the button.", "Call us."],
            "similar_questions": ["Reset?"],
        },
        {"question": "Как вернуть товар?", "answer": "В течение 14 дней.", "is_enabled": False},
    ]
    text = {
        "list": json.dumps(objects),
        "entries": json.dumps({"entries": objects}),
        "lines": "\n".join(map(json.dumps, objects)),
    }[form]
    path = tmp_path / "a.json"
    path.write_text(text)
    assert sift(read_table(path, "a.json")) == (EXPECTED, [])


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.csv", b"name,age\nA,1\n", "must name the columns"),
        ("a.csv", b"", "must name the columns"),
        ("a.json", b'{"a": ', "not JSON"),
        ("a.json", b"[1, 2]", "not a list of objects"),
        ("a.xlsx", b"PK\3\4 torn", "cannot be read"),
        ("a.bin", bytes(range(256)) * 8, "neither CSV, XLSX nor JSON"),
    ],
)
def test_what_is_no_table_says_what_it_should_be(tmp_path, name, data, said):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(UnreadableTable, match=said):
        read_table(path, name)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"answers": "yes"}, "no question"),
        ({"question": " ", "answers": "yes"}, "no question"),
        ({"question": "why?"}, "no answer"),
        (
            {"question": "why?", "answers": ["a"] * 3 + [f"{n}" for n in range(MOST_ANSWERS)]},
            "more than 10 answers",
        ),
        ({"question": "w" * 1001, "answers": "yes"}, "1000 characters"),
        ({"question": "why?", "answers": "y" * 10_001}, "10000 characters"),
        (
            {"question": "why?", "answers": "yes", "similar_questions": [str(n) for n in range(21)]},
            "20 other",
        ),
        ({"question": "why?", "answers": "yes", "negative_questions": ["WHY?"]}, "one of its own forms"),
    ],
)
def test_a_row_that_cannot_be_taken_says_why(row, said):
    found = check(row)
    assert isinstance(found, str)
    assert said in found


def test_the_same_question_twice_is_taken_once():
    rows = [
        {"question": "Why?", "answers": "a", "similar_questions": "What for?"},
        {"question": " why?", "answers": "b"},
        {"question": "WHAT FOR?", "answers": "c"},
    ]
    good, faults = sift(rows)
    assert [one.question for one in good] == ["Why?"]
    assert [(fault.row, fault.reason) for fault in faults] == [
        (2, "row 1 asks the same"),
        (3, "row 1 asks the same"),
    ]


def test_no_cell_of_the_list_of_faults_is_a_formula():
    _, faults = sift([{"question": "=HYPERLINK(1)"}])
    lines = list(csv.reader(io.StringIO(faults_csv(faults).decode("utf-8-sig"))))
    assert lines[1][:2] == ["1", "'=HYPERLINK(1)"]
