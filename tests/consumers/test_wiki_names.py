"""Names of wiki pages: the same in every run, good as addresses and as files, and no two topics under one."""

import pytest
from consumers.knowledge.wiki.names import document_slug, folder_of, key_of, page_id, slug_of, stems
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Worker pool", "worker pools"),
        ("Redis List", "redis lists"),
        ("Batch", "batches"),
        ("ENTITY", "entities"),
        ("ＭＣＰ 服务", "mcp 服务"),
        ("Überschrift", "überschrift"),
        ("Очередь задач", "очередь-задач"),
    ],
)
def test_spellings_of_one_topic_share_a_page(one, other):
    assert slug_of(one) == slug_of(other)


@pytest.mark.parametrize(
    ("one", "other"), [("C++", "C#"), ("C", "C#"), ("«Да»!", "Да"), ("a/b?", "a b"), ("index", "in dex")]
)
def test_titles_that_lose_letters_in_a_slug_are_told_apart(one, other):
    assert slug_of(one) != slug_of(other)


@pytest.mark.parametrize(
    "title", ["Redis", "news", "Windows NT series", "process", "Docker Compose", "模板", "статус"]
)
def test_a_plain_title_is_its_slug(title):
    assert slug_of(title) == title.casefold().replace(" ", "-")


@given(st.text(min_size=1, max_size=300))
def test_any_title_gives_a_name_that_files_and_addresses_take(title):
    slug = slug_of(title)
    assert slug == slug_of(title)
    assert 0 < len(slug) <= 100
    assert not set(slug) & set('/\\?#%:*"<>| \n\0')
    assert not slug.startswith(".")
    assert slug != "index"


def test_documents_of_one_title_have_pages_of_their_own():
    assert document_slug("Readme", "/a/README.md") != document_slug("Readme", "/b/README.md")
    assert len({document_slug("Readme", f"/{number}/README.md") for number in range(40_000)}) == 40_000
    assert document_slug("", "/a/x.md")
    assert document_slug("模板 指南", "/a/x.md").startswith("模板-指南-")


@pytest.mark.parametrize(
    ("source", "folder"),
    [
        ("/me/notes/a.md", "notes"),
        ("https://example.org/wiki/a", "example.org"),
        ("a.md", "documents"),
        ("/topics/a.md", "topics-documents"),
        ("/x/../a.md", "documents"),
        ("C:\\docs\\a.md", "docs"),
        ("/me/ .. /a.md", "documents"),
        ("/me/ . ./a.md", "documents"),
        ("/me/index.md/a.md", "index.md-documents"),
        (f"/me/{'𠀀' * 100}/a.md", "𠀀" * 50),
    ],
)
def test_a_document_lies_in_the_folder_it_came_from(source, folder):
    assert folder_of(source) == folder


def test_a_title_is_found_by_its_stems_and_ideographs_as_they_are_written():
    assert key_of("Worker pools") == tuple(stems("worker pool"))
    assert key_of("MCP 服务") == ("mcp 服务",)


def test_pages_of_two_bases_have_two_ids():
    assert page_id("a", "x") != page_id("b", "x") != page_id("b", "y")
