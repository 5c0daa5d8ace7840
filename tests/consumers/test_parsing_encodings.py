"""Text in whatever encoding someone's program wrote: readable, and nothing in it that a database refuses."""

import os
import time

import pytest
from consumers.knowledge.reading.encodings import clean, decode
from consumers.knowledge.reading.parsing import parse_document

RUSSIAN = "Очереди и воркеры: субстрат исполнения фоновых задач, как трафик разведён по нагрузке."
CHINESE = "内置服务是系统级别的配置，对所有空间可见，但敏感信息会被隐藏。"
TRADITIONAL = "內建服務是系統層級的設定，對所有空間可見。但敏感資訊會被隱藏"
JAPANESE = "これは日本語の文章です。今日は天気がいいですね。"
JAPANESE_NAMES = "名前,年齢,住所\n佐藤太郎,30,東京\n髙橋淳,35,名古屋"
KOREAN = "안녕하세요 세계, 오늘은 날씨가 좋습니다."
FRENCH = "Été à la plage, où l’on mange des crêpes – ça coûte 5 €."
GERMAN = "Grüße aus München: Straße"
ENGLISH = "plain words\nand a second line"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (text, encoding)
        for text, encodings in {
            RUSSIAN: "utf-8 utf-8-sig utf-16 utf-16-le utf-16-be utf-32 cp1251 koi8-r iso8859-5 cp866",
            "Привет": "cp1251 koi8-r utf-16-le",
            "ВНИМАНИЕ: СКЛАД ЗАКРЫТ": "cp1251",
            CHINESE: "utf-8 gbk gb18030 utf-16-le utf-16-be",
            "姓名,年龄\n张三,30": "gbk utf-16-le",
            TRADITIONAL: "big5",
            JAPANESE: "shift-jis euc-jp iso2022_jp utf-16-le",
            JAPANESE_NAMES: "cp932 utf-16-le",
            KOREAN: "euc-kr utf-16-be",
            FRENCH: "cp1252 utf-16-le",
            GERMAN: "latin-1 cp1252",
            "¿Dónde está la niña?": "cp1252",
            ENGLISH: "ascii utf-16-le utf-16-be utf-32",
        }.items()
        for encoding in encodings.split()
    ],
)
def test_a_text_is_read_in_the_encoding_that_wrote_it(text, encoding):
    decoded = decode(text.encode(encoding))
    assert (decoded.text, decoded.binary, decoded.lossy) == (text, False, False)


def test_lines_of_different_encodings_are_each_read():
    mixed = b"\n".join([b"plain", CHINESE.encode("gbk"), CHINESE.encode(), RUSSIAN.encode()])
    assert decode(mixed).text == f"plain\n{CHINESE}\n{CHINESE}\n{RUSSIAN}"


def test_a_declared_encoding_wins_where_it_fits():
    assert decode("Łódź".encode("cp1250"), "cp1250").text == "Łódź"
    assert decode("Łódź".encode(), "ascii").text == "Łódź"
    assert decode("Łódź".encode(), "no such thing").text == "Łódź"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"one\rtwo\r\nthree\n", "one\ntwo\nthree\n"),
        (b"a\0b", "ab"),
        (b"name\0\0\0\0value\0\0", "namevalue"),
        (b"a\xed\xa0\x80b", "ab"),  # a surrogate, as some programs write it
        ("one\n\ufefftwo".encode(), "one\ntwo"),
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"bell\x07 and\x0c page", "bell and page"),
    ],
)
def test_what_a_database_or_a_reader_cannot_take_is_left_out(data, text):
    assert decode(data).text == text
    assert not decode(data).binary


def test_a_lone_surrogate_is_left_out():
    assert clean("a\ud800b\udfffc") == "abc"


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_are_no_text(seed):
    assert decode(b"\x02" + os.urandom(4000)).binary


def test_a_character_that_cannot_be_read_is_told(tmp_path):
    path = tmp_path / "stored"
    path.write_bytes(b"\xef\xbb\xbfa text that says it is UTF-8 and is not: \xc3 ")
    document = parse_document(path, "a.txt")
    assert document.text.endswith("is not: �")
    assert document.warnings == ("some characters could not be read",)


@pytest.mark.parametrize(
    "data",
    [
        ("Очереди и воркеры " * 500_000).encode("cp1251"),
        "Очереди\n".encode("cp1251") * 1_000_000,
        b"\xff" * 9_000_000,
    ],
    ids=["one line", "many lines", "one byte"],
)
def test_a_big_text_takes_seconds_and_not_minutes(data):
    started = time.monotonic()
    decode(data)
    assert time.monotonic() - started < 30
