"""Words: the language of a text, and what it is about."""

import pytest
from consumers.knowledge.language.words import STOP_WORDS, is_dense, language_of, stem, terms


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Worker pools are consumer groups, and every job ends with an outcome that is written down.", "en"),
        ("Очереди и воркеры: FastAPI и Redis Streams", "ru"),
        ("内置 MCP（Model Context Protocol）服务是系统级别的配置", "zh"),
        ("今日はいい天気ですね。東京駅で会いましょう", "ja"),
        ("مرحبا بالعالم", "ar"),
        ("오늘은 날씨가 좋네요", "ko"),
        (
            "Die Katze schläft auf dem Sofa, und draußen regnet es seit drei Tagen ununterbrochen weiter.",
            "und",
        ),
        (
            "Lorem ipsum dolor sit amet, consetetur sadipscing elitr, sed diam nonumy eirmod tempor invidunt.",
            "und",
        ),
        ("Redis", "en"),
        ("", "en"),
        ("```\nall of this is code and is not asked: def f(): return 1\n```\n说明在这里，请看。", "zh"),
    ],
)
def test_the_language_is_told_by_script_and_then_by_words(text: str, language: str):
    assert language_of(text) == language


@pytest.mark.parametrize(
    "forms",
    [
        ["рассылка", "рассылку", "рассылки", "рассылкой"],
        ["транзакционная", "транзакционной", "транзакционные"],
        ["сервис", "сервисов", "сервисы"],
        ["version", "versions"],
        ["excluded", "excludes", "exclude"],
        ["publishing", "publish", "published", "publisher"],
    ],
)
def test_the_forms_of_a_word_have_one_stem(forms: list[str]):
    assert len({stem(term) for form in forms for term in terms(form)}) == 1


def test_words_that_tell_nothing_are_no_terms():
    assert terms("How do I delay the execution of commands?") == ["dela", "execution", "command"]
    assert terms("Почему массовая рассылка отделена?") == ["массов", "рассылк", "отделе"]
    assert set(terms("沙箱镜像里包含哪个版本？")) >= {"沙箱", "镜像", "包含", "版本"}
    assert terms("这是什么？") == []
    assert "the" in STOP_WORDS


def test_a_script_without_spaces_is_told_from_one_with():
    assert is_dense("内置 MCP 服务管理指南")
    assert not is_dense("Redis Streams 流")
    assert not is_dense("")
