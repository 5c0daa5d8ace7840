"""What is sent: what it is called."""

import pytest
from consumers.knowledge.documents.uploading import file_name


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\x\\report.pdf.txt", "report.pdf.txt"),
        ("a\x00b\x1f.txt", "a b .txt"),
        ("\u202egnp.txt", "gnp.txt"),
        ("lone\ud800.txt", "lone .txt"),
        ("...", "document"),
        ("", "document"),
        ("x" * 300 + ".txt", "x" * 196 + ".txt"),
        ("." * 300 + "x" * 300, "x" * 200),
        ("日本語 ж.md", "日本語 ж.md"),
    ],
)
def test_a_name_is_only_a_name(sent, kept):
    assert file_name(sent) == kept
