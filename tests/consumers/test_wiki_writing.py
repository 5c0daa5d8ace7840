"""Pages made of what documents contribute: every statement has its source, nothing is said twice, links lead somewhere."""

import re
from html import unescape
from itertools import permutations

import pytest
from consumers.knowledge.wiki.linking import Target, Titles, cleaned, linked, links_in, mapped
from consumers.knowledge.wiki.reading import Section, Statement
from consumers.knowledge.wiki.writing import (
    Account,
    Contribution,
    ExtractiveWriter,
    compose_document,
    compose_topic,
    escaped,
    shortened,
)
from contracts.knowledge import EXTRACTIVE


def said(text, weight=1.0, heading="Basics", place=1, **more):
    return Statement(text, heading, place, weight, **more)


POOL = said("A pool is a set of queues with its own concurrency.", 2.6)
TAKES = said("A pool never takes the slots of another pool.", 1.6, place=2)
SHARED = said("The shared pool owns no queue of its own.", 1.2, "Sharing", 3)
SIZING = said("Increase a pool only when its backlog grows older.", 1.1, "Sizing")


def contribution(document, *statements, title="pool", weight=1.0, **more):
    return Contribution(
        knowledge_id=document, page=f"{document}-1", document=document, language="en", title=title,
        weight=weight, statements=statements, **more,
    )  # fmt: skip


GUIDE = contribution("Guide", POOL, TAKES, SHARED, weight=3.0, related=("queue",))
NOTES = contribution("Notes", SIZING, TAKES, title="Pools", related=("queue", "worker"))


def page(contributions):
    draft = compose_topic(contributions)
    assert draft is not None
    return draft


def test_a_page_begins_with_its_definition_and_says_where_each_statement_comes_from():
    draft = page([NOTES, GUIDE])
    assert draft.body.startswith("# Pools\n\nA pool is a set of queues with its own concurrency.[^1]\n")
    assert draft.lead == POOL.text
    statements = [line for line in draft.body.splitlines() if line and line[0] not in "#["]
    assert all(re.search(r"\.\[\^\d\]$", line) for line in statements)
    assert "[^1]: [Guide](wiki:Guide-1) › Basics" in draft.body
    assert draft.body.count(TAKES.text) == 1


def test_a_page_does_not_depend_on_the_order_in_which_documents_came():
    third = contribution("Zebra", said("Zebras are not in any pool at all, says the book."))
    drafts = {compose_topic(order) for order in permutations([GUIDE, NOTES, third])}
    assert len(drafts) == 1


def test_what_is_said_by_one_document_stands_under_its_own_headings_and_by_several_under_their_titles():
    assert "\n## Sharing\n" in page([GUIDE]).body
    several = page([GUIDE, NOTES]).body
    assert "\n## Guide\n" in several
    assert "\n## Notes\n" in several


@pytest.mark.parametrize(
    "contributions",
    [[], [contribution("a", POOL)], [contribution("a", said("pool", 0.1), said("the pool", 0.2))]],
)
def test_a_passing_mention_makes_no_page(contributions):
    assert compose_topic(contributions) is None


def test_two_documents_that_say_one_thing_each_make_a_page():
    assert compose_topic([contribution("a", POOL), contribution("b", SIZING)]) is not None


def test_the_page_of_a_document_has_its_summary_its_sections_and_its_file():
    account = Account(
        knowledge_id="k", title="Guide", file_name="guide.md", language="en", summary="It tells of pools.",
        sections=(Section("Basics", (POOL,)), Section("Guide", (said("Pools matter."),)), Section("Empty", ())), related=("pool",),
    )  # fmt: skip
    draft = compose_document(account)
    assert draft.body == (
        "# Guide\n\nIt tells of pools.[^1]\n\n## Basics\n\nA pool is a set of queues with its own concurrency.[^2]\n\n"
        "Pools matter.[^3]\n\n[^1]: guide.md\n[^2]: guide.md › Basics\n[^3]: guide.md › Guide\n"
    )
    assert draft.related == ("pool",)


@pytest.mark.parametrize(
    "text",
    [
        "*a* _b_ `c` [d](e) <script>alert(1)</script> ~~f~~",
        "# no heading",
        "- no item",
        "1. no number",
        "> no quote",
        "=== ---",
        "a\n\nb",
        "&lt;b&gt; &amp; AT&T &#60;",
    ],
)
def test_words_are_never_marks(text):
    from markdown_it import MarkdownIt

    html = MarkdownIt("commonmark").render(escaped(text, start=True))
    assert set(re.findall(r"<(\w+)", html)) == {"p"}
    assert len(re.findall("<p>", html)) == 1
    assert unescape(re.sub(r"</?p>", "", html)).split() == text.split()


def test_a_lead_is_cut_at_a_word():
    assert shortened("word " * 100).endswith("word…")
    assert len(shortened("字" * 400)) <= 181
    assert shortened("short") == "short"


async def test_the_writer_says_that_it_is_extractive():
    writer = ExtractiveWriter()
    assert writer.method == EXTRACTIVE
    assert await writer.topic([GUIDE]) == compose_topic([GUIDE])


TITLES = Titles(
    [Target("redis", "Redis"), Target("redis-list", "Redis list"), Target("pool", "pool"), Target("模板", "模板"), Target("服务", "服务"),
     Target("doc-1", "Redis guide", sought=False), Target("xbox", "Xbox")]
)  # fmt: skip


def link(body, **options):
    return linked(body, TITLES, own=options.pop("own", "own"), **options)


def test_the_first_mention_of_a_page_becomes_a_link_and_the_longest_title_wins():
    assert (
        link("Redis lists and Redis, redis lists.")
        == "[Redis lists](wiki:redis-list) and [Redis](wiki:redis), redis lists."
    )
    assert link("所有模板与服务器，服务。") == "所有[模板](wiki:模板)与服务器，[服务](wiki:服务)。"


@pytest.mark.parametrize(
    "body",
    ["# Redis", "`Redis`", "```\nRedis\n```", "~~~\nRedis\n~~~", "[Redis](https://x)", "https://redis/Redis", "[^1]: [Redis list](x) › Redis",
     "![Redis](x.png)", "the Rediska", "Predis", r"\Redis"],
)  # fmt: skip
def test_headings_code_links_and_other_words_are_left_alone(body):
    assert link(body) == body


def test_a_page_does_not_link_to_itself_nor_twice():
    assert link("Redis Redis", own="redis") == "Redis Redis"
    assert link("[that](wiki:redis) is Redis") == "[that](wiki:redis) is Redis"


def test_linking_what_was_linked_changes_nothing():
    once = link("Redis lists in a pool. 模板", related=("xbox", "gone", "own"))
    assert link("Redis lists in a pool. 模板", related=("xbox", "gone", "own")) == once
    assert once.endswith("## See also\n\n[Xbox](wiki:xbox)\n")


def test_what_is_related_is_listed_in_front_of_the_footnotes():
    body = "# T\n\nText.[^1]\n\n[^1]: a.md\n[^2]: b.md\n"
    assert link(body, related=("xbox",), language="ru") == (
        "# T\n\nText.[^1]\n\n## См. также\n\n[Xbox](wiki:xbox)\n\n[^1]: a.md\n[^2]: b.md\n"
    )


def test_links_that_lead_nowhere_become_words():
    assert cleaned("a [b\\] c](wiki:gone) [d](wiki:redis)", {"redis"}) == "a b\\] c [d](wiki:redis)"
    assert links_in("[a](wiki:b) [c](wiki:d) [e](f)") == {"b", "d"}


def test_links_are_mapped_to_where_pages_lie():
    assert mapped("[a](wiki:b), [c](wiki:d)", {"b": "../x/b.md"}) == "[a](../x/b.md), c"


def test_a_page_of_a_megabyte_is_linked_in_a_moment():
    body = "Redis list [[[[ ``` _ " * 20_000 + "模板" * 10_000
    assert "(wiki:redis-list)" in link(body)
