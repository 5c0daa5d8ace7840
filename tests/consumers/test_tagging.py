"""Which of the given tags a text is about."""

import pytest
from consumers.knowledge.embedding.embedder import LocalEmbedder
from consumers.knowledge.embedding.tagging import MAX_TAGS, MAX_TEXT, SURE, Tag, match_tags

REDIS = Tag("1", "Redis", "In-memory data store, streams, lists and publish/subscribe")
DATABASES = Tag("2", "Databases", "Schema migrations, SQL, PostgreSQL")
SANDBOX = Tag("3", "沙箱", "代码执行的隔离环境、镜像和模板")
MAIL = Tag("4", "Почта", "Электронная почта и рассылки писем")
UNRELATED = [
    Tag("5", "Cooking", "Recipes, food and kitchens"),
    Tag("6", "Спорт", "Футбол, хоккей и чемпионаты"),
    Tag("7", "天气", "气温、下雨、预报"),
]
TAGS = [*UNRELATED, REDIS, DATABASES, SANDBOX, MAIL]

STREAMS = "# Redis Streams\n\nRedis keeps a stream of messages in memory. Consumers of a Redis stream read new messages in groups."
MIGRATION = (
    "# Failed migrations\n\nWhen a schema migration fails, PostgreSQL rolls the SQL statements back and the database stays"
    " at its previous version. Run the migration again.\n"
)
TEMPLATE = "# 沙箱模板\n\n沙箱模板由镜像构建，代码在隔离的沙箱里执行。管理员注册沙箱模板和镜像。"
LETTERS = "# Массовая рассылка\n\nЭлектронная почта: письма с приглашением уходят сразу, массовая рассылка писем идёт фоном."


@pytest.fixture
def embedder() -> LocalEmbedder:
    return LocalEmbedder()


@pytest.mark.parametrize(
    ("text", "tag"), [(STREAMS, REDIS), (MIGRATION, DATABASES), (TEMPLATE, SANDBOX), (LETTERS, MAIL)]
)
async def test_only_the_tag_that_fits_is_sure(embedder: LocalEmbedder, text: str, tag: Tag):
    matches = await match_tags(text, TAGS, embedder)
    assert [match.tag for match in matches if match.confidence >= SURE] == [tag]
    assert all(match.confidence < 0.3 for match in matches if match.tag in UNRELATED)


async def test_every_given_tag_and_no_other_is_weighed(embedder: LocalEmbedder):
    matches = await match_tags(STREAMS, TAGS, embedder)
    assert {match.tag.id for match in matches} == {tag.id for tag in TAGS}
    confidences = [match.confidence for match in matches]
    assert confidences == sorted(confidences, reverse=True)
    assert all(0 <= confidence <= 1 for confidence in confidences)


async def test_without_text_or_tags_there_is_nothing_to_match(embedder: LocalEmbedder):
    assert await match_tags("", TAGS, embedder) == ()
    assert await match_tags(STREAMS, [], embedder) == ()


async def test_a_long_text_and_a_long_list_are_cut(embedder: LocalEmbedder):
    many = [Tag(str(n), f"Tag {n}") for n in range(MAX_TAGS)] + [REDIS]
    matches = await match_tags("Nothing to see. " * (MAX_TEXT // 16) + STREAMS, many, embedder)
    assert len(matches) == MAX_TAGS
    assert REDIS not in {match.tag for match in matches}
