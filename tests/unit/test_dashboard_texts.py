"""What the dashboard says, in every language."""

import re
import string
from pathlib import Path

import pytest
from contracts.knowledge import ParseStatus, SpanStatus, Stage
from contracts.states import ArchiveReason, JobState
from hypothesis import given
from hypothesis import strategies as st
from pipeline.actions import Action, Effect
from pipeline.http import dashboard
from pipeline.http.dashboard.rendering import STATIC
from pipeline.http.dashboard.texts import LANGUAGES, Language, language, visible
from pipeline.reasons import Why
from pipeline.records import Happened
from pipeline.store.audit import Outcome

EN, RU = LANGUAGES["en"], LANGUAGES["ru"]
TEMPLATES = Path(dashboard.__file__).parent / "templates"
CODES = {
    "state": JobState,
    "one": JobState,
    "state_all": JobState,
    "queue.empty": JobState,
    "reason": ArchiveReason,
    "reason.about": ArchiveReason,
    "reason.do": ArchiveReason,
    "why": Why,
    "event": Happened,
    "act": Action,
    "confirm": Action,
    "done": Effect,
    "status": ParseStatus,
    "stage": Stage,
    "span": SpanStatus,
    "outcome": Outcome,
}


def test_every_language_says_everything() -> None:
    assert set(RU.texts) == set(EN.texts)


@pytest.mark.parametrize("t", LANGUAGES.values(), ids=LANGUAGES)
def test_every_word_of_the_contracts_has_a_text(t: Language) -> None:
    wanted = {f"{group}.{code}" for group, codes in CODES.items() for code in codes}
    assert wanted - set(t.texts) == set()


def test_a_text_names_the_same_things_in_every_language_and_form() -> None:
    for key, text in EN.texts.items():
        ours, theirs = _names(text), _names(RU.texts[key])
        assert ours | {"n"} == theirs | {"n"}, key


def test_plural_forms_are_complete() -> None:
    for t, count in ((EN, 2), (RU, 3)):
        odd = [key for key, text in t.texts.items() if isinstance(text, tuple) and len(text) != count]
        assert odd == []


def test_every_text_that_a_template_asks_for_is_there() -> None:
    asked = {
        key
        for template in TEMPLATES.glob("*.html")
        for key in re.findall(r"""\bt\(["']([a-z_.]+[a-z_])["'][,)]""", template.read_text())
    }
    assert len(asked) > 100
    assert asked - set(EN.texts) == set()


def test_no_file_is_fetched_from_elsewhere() -> None:
    for file in [*STATIC.iterdir(), *TEMPLATES.iterdir()]:
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//[a-z]+\.", text), file.name


@pytest.mark.parametrize(
    ("n", "said"),
    [(1, "1 задача умерла"), (3, "3 задачи умерли"), (11, "11 задач умерли"), (21, "21 задача умерла")],
)
def test_russian_counts_as_russians_do(n: int, said: str) -> None:
    assert RU("notice.dead", n=n).startswith(said)


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (0, "0 s"),
        (89_400, "89 s"),
        (90_000, "1 min"),
        (5_400_000, "1 h 30 min"),
        (36_000_000, "10 h"),
        (172_800_000, "2 d"),
        (-5, "0 s"),
    ],
)
def test_an_age_is_told_as_a_person_would(ms: int, said: str) -> None:
    assert EN.age(ms).replace("\u00a0", " ") == said


def test_numbers_and_sizes_are_written_as_the_language_does() -> None:
    assert (EN.number(1234567), RU.number(1234567)) == ("1,234,567", "1\u202f234\u202f567")
    assert (EN.size(1_250_000), RU.size(1_250_000)) == ("1.2\u00a0MB", "1,2\u00a0МБ")
    assert (EN.span(31), RU.span(2_500)) == ("31\u00a0ms", "2,5\u00a0с")


@pytest.mark.parametrize(
    ("chosen", "accepted", "code"),
    [
        ("ru", "en", "ru"),
        (None, "de-DE, ru;q=0.8, en;q=0.5", "ru"),
        (None, "ru;q=0, en", "en"),
        ("xx", "", "en"),
        (None, "zh", "en"),
    ],
)
def test_the_language_is_the_chosen_one_else_one_that_the_browser_accepts(
    chosen: str | None, accepted: str, code: str
) -> None:
    assert language(chosen, accepted).code == code


@given(st.text(st.characters(blacklist_categories=())))
def test_nothing_that_is_shown_can_steer_a_terminal_or_turn_the_writing(text: str) -> None:
    said = visible(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", said)
    said.encode()


def test_what_is_plain_stays_as_it_is() -> None:
    assert visible("Ошибка: 東京 <b>\n\tok") == "Ошибка: 東京 <b>\n\tok"


def _names(text: str | tuple[str, ...]) -> set[str]:
    forms = text if isinstance(text, tuple) else (text,)
    return {name for form in forms for _, name, _, _ in string.Formatter().parse(form) if name}
