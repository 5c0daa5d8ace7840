"""What a wiki reads out of documents: topics worth a page, and sentences that say something of them."""

import pytest
from consumers.knowledge.wiki.reading import Finder, Text, alike, combine, read_part
from consumers.knowledge.wiki.sense import is_topic, standing

ENGLISH = """# Redis Cluster

Redis Cluster is a way to spread the keys of one database over several servers. It was written for large loads.

## Hash slots

Every key of Redis Cluster belongs to one of 16384 hash slots. A hash slot is served by one server at a time.
Hash slots move when a server joins.
"""
RUSSIAN = """# Кластер Redis

Кластер Redis — это способ разложить ключи одной базы по нескольким серверам. Каждый ключ Кластера Redis лежит в одном слоте.
Очередь Notifications хранит уведомления до отправки. Очередь Notifications разгребает отдельный процесс.
"""
GERMAN = """# Redis Cluster

Redis Cluster ist ein Weg, die Schlüssel einer Datenbank auf mehrere Server zu verteilen. Der Redis Cluster braucht keinen Proxy.
Jeder Schlüssel im Redis Cluster liegt in genau einem Slot.
"""
CHINESE = """# 沙箱集群

沙箱集群是一组运行不可信代码的服务器。每个沙箱集群都有自己的模板。管理员可以在设置页面添加沙箱集群。
模板镜像必须提供账号。模板镜像由平台维护。
"""


def topics(text, language=None):
    return {topic.title: topic for topic in read_part([Text(text)], language=language).topics}


@pytest.mark.parametrize(
    ("text", "language", "title", "first"),
    [
        (ENGLISH, "en", "Redis Cluster", "Redis Cluster is a way"),
        (RUSSIAN, "ru", "Кластер Redis", "Кластер Redis — это способ"),
        (GERMAN, "de", "Redis Cluster", "Redis Cluster ist ein Weg"),
        (CHINESE, "zh", "沙箱集群", "沙箱集群是一组"),
    ],
    ids=["English", "Russian", "German", "Chinese"],
)
def test_a_document_speaks_of_what_it_names_and_its_best_sentence_defines_it(text, language, title, first):
    found = topics(text, language)
    assert title in found
    best = max(found[title].statements, key=lambda one: one.weight)
    assert best.text.startswith(first)


def test_statements_come_in_the_order_of_the_text_under_their_headings():
    said = topics(ENGLISH)["Hash slots"].statements
    assert [one.heading for one in said] == ["Hash slots"] * len(said)
    assert sorted(said, key=lambda one: one.place) == list(said)
    assert len(said) > 1


def test_what_topics_stand_beside_is_known():
    assert "Hash slots" in topics(ENGLISH)["Redis Cluster"].beside


def test_a_long_document_says_the_same_however_it_is_cut_into_parts():
    texts = [Text(part) for part in ENGLISH.split("\n\n")]
    whole = combine([read_part(texts)], "Redis Cluster")
    cut = combine([read_part(texts[:2], 0), read_part(texts[2:], 2)], "Redis Cluster")
    assert (
        {one.title for one in whole.topics}
        >= {"Redis Cluster", "Hash slots"}
        <= {one.title for one in cut.topics}
    )
    assert [section.heading for section in cut.sections] == [section.heading for section in whole.sections]


def test_reading_twice_reads_the_same():
    assert read_part([Text(ENGLISH)]) == read_part([Text(ENGLISH)])


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# Only a heading", "| a | b |\n|---|---|\n| 1 | 2 |", "```\ncode()\n```", "? ! …"]
)
def test_a_text_without_sentences_says_nothing(text):
    assert read_part([Text(text)]).topics == ()


@pytest.mark.parametrize(
    ("title", "kind"),
    [("full example", "term"), ("2024", "name"), ("responses contain", "term"), ("broker.publish", "code"), ("示例", "term"),
     ("messages", "term"), ("@broker.subscriber", "name"), ("пример", "term"), ("Ut", "name")],
)  # fmt: skip
def test_what_tells_nothing_is_no_topic(title, kind):
    assert not is_topic(title, kind, heading=False, count=3)


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("Redis", "name"),
        ("consumer group", "term"),
        ("task_pending_ops", "code"),
        ("沙箱集群", "term"),
        ("массовая рассылка", "term"),
    ],
)
def test_what_names_a_thing_is_a_topic(title, kind):
    assert is_topic(title, kind, heading=False, count=3)


def test_a_definition_stands_better_than_a_passing_mention_and_that_better_than_a_fragment():
    definition = standing("A pool is a set of queues with its own concurrency.", "pool", item=False)
    mention = standing("Jobs wait until some pool has a slot for them again.", "pool", item=False)
    leaning = standing("It is read by the pool that owns the queue of the job.", "pool", item=False)
    assert definition > mention > leaning > standing("pool = Pool(4)", "pool", item=False)


def test_a_title_is_found_in_other_forms_and_not_within_other_words():
    finder = Finder(["worker pool", "沙箱", "cat"])
    assert finder.named("Worker pools wait.") == ["worker pool"]
    assert finder.named("每个沙箱都有模板") == ["沙箱"]
    assert finder.named("The catalogue of pools and workers") == []


def test_sentences_in_other_words_are_not_alike():
    assert alike("A pool never takes the slots of another pool.", "A pool never takes slots of another pool!")
    assert not alike("A pool never takes slots.", "The shared pool owns no queue.")
    assert alike("模板镜像必须提供账号。", "模板镜像必须提供账号")
