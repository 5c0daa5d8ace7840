"""Cyrillic words, where Tesseract's Russian data is; and where it is looked for."""

import importlib.util
from pathlib import Path

import pytest
from consumers.knowledge.reading import ocr_cyrillic


def test_the_data_is_found_where_the_environment_says(monkeypatch, tmp_path: Path):
    pytest.importorskip("kreuzberg", reason="the knowledge extra is not installed")
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    for folder in (tmp_path / "tessdata", tmp_path):
        folder.mkdir(exist_ok=True)
        (folder / ocr_cyrillic.RUSSIAN).touch()
        assert ocr_cyrillic.find_data() == folder


def test_the_data_is_found_beside_the_program(monkeypatch, tmp_path: Path):
    pytest.importorskip("kreuzberg", reason="the knowledge extra is not installed")
    program = tmp_path / "bin" / "tesseract"
    data = tmp_path / "share" / "tessdata"
    for file in (program, data / ocr_cyrillic.RUSSIAN):
        file.parent.mkdir(parents=True)
        file.touch(0o755)
    monkeypatch.delenv("TESSDATA_PREFIX", raising=False)
    monkeypatch.setenv("PATH", str(program.parent))
    assert ocr_cyrillic.find_data() == data


def test_without_its_engine_no_data_is_found(monkeypatch, tmp_path: Path):
    (tmp_path / ocr_cyrillic.RUSSIAN).touch()
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert ocr_cyrillic.find_data() is None


@pytest.mark.parametrize(
    ("read", "meant"),
    [
        ("Петров A. C., директор", "Петров А. С., директор"),
        ("Cумма 12", "Сумма 12"),
        ("Очередь Redis и ACE", "Очередь Redis и ACE"),
        ("Vitamin C", "Vitamin C"),
    ],
)
def test_a_word_has_the_letters_of_one_script(read: str, meant: str):
    assert " ".join(ocr_cyrillic._in_one_script(read.split())) == meant
