"""Which names mean the same: by their spelling, or because a text says so."""

import pytest
from consumers.knowledge.graph.aliases import Group, Pair, Thing, Why, groups, pairs, say_so


def thing(name: str, mentions: int = 1, kind: str = "name") -> Thing:
    return Thing(name, name, kind, mentions)


def found(*names: str, kind: str = "name") -> set[tuple[str, str, Why]]:
    return {
        (pair.one.name, pair.other.name, pair.why)
        for pair in pairs([thing(name, kind=kind) for name in names])
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Core Pool", "core-pool"),
        ("CorePool", "Core  Pool"),
        ("Zürich", "Zurich"),
        ("Ёлка парк", "ёлка-парк"),
        ("O’Brien", "O'Brien"),
        ("Ｃｏｒｅ Pool", "core pool"),
    ],
)
def test_a_name_is_the_same_whatever_its_case_spaces_marks_and_accents(one: str, other: str) -> None:
    assert (one, other, Why.SPELLING) in found(one, other)


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ("worker pool", "worker pools", "term"),
        ("Core Pool", "Core Pools", "name"),
        ("core-pool", "CorePools", "name"),
        ("queue", "queues", "term"),
        ("data entry", "data entries", "term"),
        ("message box", "message boxes", "term"),
        ("пул воркеров", "пулы воркеров", "term"),
        ("очередь", "очереди", "term"),
    ],
)
def test_one_and_several_are_the_same(one: str, other: str, kind: str) -> None:
    assert (one, other, Why.NUMBER) in found(one, other, kind=kind)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Window", "Windows"),
        ("C++", "C#"),
        ("Redis", "Redix"),
        ("status", "statu"),
        ("GPT-3", "GPT-4"),
        ("йод", "иод"),
        ("Core Pool", "Score Pool"),
    ],
)
def test_other_names_are_not(one: str, other: str) -> None:
    assert not {why for *_, why in found(one, other)} & {Why.SPELLING, Why.NUMBER}


def test_code_has_no_plural() -> None:
    assert found("get_item", "get_items", kind="code") == set()


def test_acronyms_and_other_alphabets_are_only_asked_about() -> None:
    assert ("WHO", "World Health Organization", Why.ACRONYM) in found("WHO", "World Health Organization")
    assert ("ВОЗ", "Всемирная организация здравоохранения", Why.ACRONYM) in found(
        "ВОЗ", "Всемирная организация здравоохранения"
    )
    assert ("Кубернетес", "Kubernetes", Why.ALPHABET) in found("Кубернетес", "Kubernetes")
    assert ("Телеграм", "Telegram", Why.ALPHABET) in found("Телеграм", "Telegram")
    assert not found("Москва", "Berlin")


@pytest.mark.parametrize(
    "text",
    [
        "The World Health Organization (WHO) said so.",
        "WHO (World Health Organization) said so.",
        "The World  Health\nOrganization, also known as WHO, said so.",
        "the world health organization (who)",
    ],
)
def test_a_text_says_that_two_names_are_of_one_thing(text: str) -> None:
    assert say_so(text, "WHO", "World Health Organization")


@pytest.mark.parametrize(
    "text",
    [
        "WHO met the World Health Organization.",
        "The World Health Organization (not WHO).",
        "The World Health Organization (WHOIS).",
        "",
    ],
)
def test_a_text_that_only_names_both_does_not(text: str) -> None:
    assert not say_so(text, "WHO", "World Health Organization")


def test_a_thing_is_called_as_it_is_most_often_and_an_acronym_as_what_it_stands_for() -> None:
    often, rare, many = thing("core pool", 3), thing("Core Pool", 9), thing("Core Pools", 1)
    short, whole = thing("WHO", 99), thing("World Health Organization", 1)
    made = groups(
        [
            Pair(often, rare, Why.SPELLING),
            Pair(rare, many, Why.NUMBER),
            Pair(short, whole, Why.ACRONYM),
        ]
    )
    assert {group.into.name for group in made} == {"Core Pool", "World Health Organization"}
    pool = next(group for group in made if group.into is rare)
    assert {(one.name, why) for one, why in pool.others} == {
        ("core pool", Why.SPELLING),
        ("Core Pools", Why.NUMBER),
    }
    assert Group(whole, ((short, Why.ACRONYM),)) in made
