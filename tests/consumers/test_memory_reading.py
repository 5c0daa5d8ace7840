"""What is read of conversations, and how far: nothing behind the cursor is ever skipped."""

import pytest
from consumers.knowledge.memory.reading import (
    MOST_OF_SESSION,
    MOST_SEGMENTS,
    PAUSE_MS,
    WINDOW,
    Line,
    segments,
)
from consumers.knowledge.memory.remembering import ExtractiveReader, said_of_oneself
from contracts.memory import MemoryKind, TurnRole
from hypothesis import given
from hypothesis import strategies as st


def lines(*sessions: str, role: TurnRole = TurnRole.USER, step: int = 1_000, text: str = "") -> list[Line]:
    return [Line(f"m{n}", name, role, text, n, n * step) for n, name in enumerate(sessions, 1)]


@pytest.mark.parametrize(
    ("said", "kind", "topic"),
    [
        ("My name is Anna.", MemoryKind.PROFILE, "name"),
        ("I'm a senior software engineer at Acme.", MemoryKind.FACT, "work"),
        ("I have two kids and a dog.", MemoryKind.FACT, "family"),
        ("I'm allergic to nuts.", MemoryKind.FACT, "health"),
        ("My favourite colour is blue.", MemoryKind.PREFERENCE, "favourite colour"),
        ("I don't like coffee.", MemoryKind.PREFERENCE, "likes"),
        ("I plan to move to Spain.", MemoryKind.GOAL, "plans"),
        ("Please answer in Russian.", MemoryKind.INSTRUCTION, "answers"),
        ("Меня зовут Олег.", MemoryKind.PROFILE, "name"),
        ("Я живу в Казани.", MemoryKind.FACT, "home"),
        ("У меня двое детей.", MemoryKind.FACT, "family"),
        ("Мне не нравится кофе.", MemoryKind.PREFERENCE, "likes"),
        ("Отвечай мне на русском.", MemoryKind.INSTRUCTION, "answers"),
        ("我叫李明。", MemoryKind.PROFILE, "name"),
        ("我住在北京。", MemoryKind.FACT, "home"),
        ("我喜欢喝茶。", MemoryKind.PREFERENCE, "likes"),
    ],
)
def test_what_people_say_of_themselves_is_told_by_its_form(said: str, kind: MemoryKind, topic: str) -> None:
    (noted,) = said_of_oneself(said)
    assert (noted.kind, noted.topic, noted.text) == (kind, topic, said)


@pytest.mark.parametrize(
    "said",
    [
        "How do I scale a pool?",
        "I want to know how pools scale.",
        "I have a question about invoices.",
        "I am trying to run this and get an error.",
        "I like your answer.",
        "The pool scales with its slots.",
        "Я хочу узнать, как это работает.",
        "У меня вопрос по счёту.",
        "你喜欢茶吗？",
        "```\nI live in a code block\n```",
    ],
)
def test_questions_and_complaints_are_nothing_to_remember(said: str) -> None:
    assert not list(said_of_oneself(said))


def test_each_thing_of_a_sentence_stands_for_itself() -> None:
    found = list(said_of_oneself("My name is Anna and I live in Berlin. Меня зовут Олег, я люблю чай."))
    assert [one.topic for one in found] == ["name", "home", "name", "likes"]


def test_what_somebody_asks_to_be_remembered_is_without_their_asking() -> None:
    (noted,) = said_of_oneself("Please remember that the gate code is 4711.")
    assert (noted.topic, noted.text) == ("note", "The gate code is 4711.")


async def test_only_people_are_read_and_the_newer_word_counts() -> None:
    assistant = Line("a", "s", TurnRole.ASSISTANT, "I live in a data centre.", 1, 1)
    people = [
        Line(f"u{n}", "s", TurnRole.USER, text, 1 + n, 1 + n)
        for n, text in enumerate(["I live in Berlin.", "I moved to Paris.", *["I like tea."] * 3], 1)
    ]
    (stretch,), _ = segments([assistant, *people], 0)
    noted = await ExtractiveReader().read(stretch, [])
    assert [one.text for one in noted] == ["I moved to Paris.", "I like tea."]


def test_a_run_reads_so_much_of_a_session_and_so_many_stretches() -> None:
    (stretch,), left = segments(lines(*["a"] * (MOST_OF_SESSION + 1)), 0)
    assert (len(stretch.lines), stretch.cursor, left) == (MOST_OF_SESSION, MOST_OF_SESSION, True)
    found, left = segments(lines("a", "b", "c", "d"), 0)
    assert ([one.session_id for one in found], found[-1].cursor, left) == (["a", "b", "c"], 3, True)


def test_a_long_pause_begins_another_stretch() -> None:
    found, left = segments(lines("a", "a", "a", step=PAUSE_MS + 1), 0)
    assert ([len(one.lines) for one in found], left) == ([1, 1, 1], False)


def test_after_a_stretch_the_cursor_is_before_all_that_is_not_read_yet() -> None:
    found, left = segments(lines("a", "b", "a", "b", "c"), 0)
    assert ([one.cursor for one in found], left) == ([1, 4, 5], False)


@given(st.lists(st.sampled_from("abcdef"), max_size=WINDOW + 1), st.integers(1, 2 * PAUSE_MS))
def test_run_after_run_everything_is_read_once_and_in_order(names: list[str], step: int) -> None:
    unread, cursor, read = lines(*names, step=step), 0, list[int]()
    while unread:
        found, left = segments(unread, cursor)
        assert 0 < len(found) <= MOST_SEGMENTS
        assert left is (sum(len(one.lines) for one in found) < len(unread))
        cursors = [cursor, *(one.cursor for one in found)]
        assert cursors == sorted(set(cursors))
        read += [line.position for one in found for line in one.lines]
        cursor = found[-1].cursor
        unread = [line for line in unread if line.position > cursor]
    assert sorted(read) == list(range(1, len(names) + 1))
