"""How a question is answered from passages."""

import re

import pytest
from consumers.knowledge.answers.answering import (
    LONGEST_PART,
    MAX_PASSAGES,
    MOST_PARTS,
    Answer,
    AnswerWriter,
    ExtractiveWriter,
    Passage,
)
from consumers.knowledge.embedding.embedder import LocalEmbedder
from consumers.knowledge.reading.chunking import split
from consumers.knowledge.reading.texts import convert

POOLS = Passage(
    "pools.md",
    "# Worker pools\n\nWorker concurrency is a scheduling budget. Maintenance is excluded from the shared pool because its"
    " long-running tasks could pin elastic capacity.\n\nWhat is a pool?\n",
    0.9,
)
BROKERS = Passage(
    "brokers.md",
    "| Broker | When |\n|---|---|\n| RedisBroker | one instance |\n| RedisClusterBroker | several nodes |\n",
    0.8,
)
SANDBOX = Passage(
    "沙箱.md", "标准镜像当前包含：\n\n- Python 3.11；\n- Node.js 20；\n- jq 及基础工具；\n", 0.7
)
MAIL = Passage(
    "почта.txt", "Массовая рассылка отделена, чтобы не теснить письма. Письма доставляет SMTP.\n", 0.6
)
RECEIPT = Passage("receipt.pdf", "```\nWireless headphones 1 @ $349.99\nTOTAL $349.99\n```\n", 0.5)
PASSAGES = [POOLS, BROKERS, SANDBOX, MAIL, RECEIPT]


@pytest.fixture
def writer() -> AnswerWriter:
    return ExtractiveWriter(LocalEmbedder())


@pytest.mark.parametrize(
    ("question", "words", "passage"),
    [
        ("Why is maintenance excluded from the shared pool?", "elastic capacity", POOLS),
        ("When do I use RedisClusterBroker?", "When: several nodes", BROKERS),
        ("标准镜像包含哪个 Python 版本？", "标准镜像当前包含： Python 3.11 [1]", SANDBOX),
        ("Почему массовая рассылка отделена?", "чтобы не теснить письма", MAIL),
        ("At what price were the headphones bought?", "349.99", RECEIPT),
    ],
)
async def test_the_answer_is_the_sentence_that_fits_with_its_source(
    writer: AnswerWriter, question: str, words: str, passage: Passage
):
    answer = await writer.compose(question, PASSAGES)
    assert words in answer.text
    assert answer.citations[0].path == passage.path
    assert answer.citations[0].text == passage.text
    assert answer.method == "extractive"


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("How do I bake a chocolate cake?", "No passage answers this question."),
        ("Как вырастить помидоры на балконе?", "Ни один фрагмент не отвечает на этот вопрос."),
        ("怎样学习弹钢琴？", "没有找到能回答这个问题的段落。"),
        ("", "No passage answers this question."),
    ],
)
async def test_a_question_that_nothing_answers_is_told_so_in_its_language(
    writer: AnswerWriter, question: str, said: str
):
    assert await writer.compose(question, PASSAGES) == Answer(said, (), "extractive")
    assert await writer.compose(question, []) == Answer(said, (), "extractive")


async def test_a_question_is_no_answer_to_itself(writer: AnswerWriter):
    answer = await writer.compose("What is a pool?", PASSAGES)
    assert "What is a pool?" not in answer.text


async def test_what_only_repeats_the_question_answers_where_nothing_says_more(writer: AnswerWriter):
    record = Passage("questions.jsonl", "q: What is AutoGen?\n\nfile: paper.docx\n\nwords: AutoGen\n", 0.9)
    paper = Passage(
        "paper.docx", "AutoGen is an open-source framework that lets agents converse with each other.\n", 0.8
    )
    answer = await writer.compose("What is AutoGen?", [record, paper])
    assert answer.text == f"{paper.text.strip()} [1]"
    assert (await writer.compose("What is AutoGen?", [record])).text == "words: AutoGen [1]"


async def test_every_mark_has_its_citation_and_the_answer_stays_short(writer: AnswerWriter):
    passages = [
        Passage(f"{n}.md", f"The shared pool number {n} takes {n} jobs. " * 30, 1 - n / 50) for n in range(40)
    ]
    answer = await writer.compose("How many jobs does the shared pool take?", passages)
    marks = [int(mark) for mark in re.findall(r"\[(\d+)\]", answer.text)]
    assert sorted(set(marks)) == list(range(1, 1 + len(answer.citations)))
    assert len(marks) <= MOST_PARTS
    assert len(answer.text) <= MOST_PARTS * (LONGEST_PART + 10)
    assert {citation.path for citation in answer.citations} <= {p.path for p in passages[:MAX_PASSAGES]}


ORDERS = "id,customer_company_name,delivery_address_line,contact_email,order_total\n" + "".join(
    f'{n},Northwind Traders Branch {n},"{n} Harbour Street",{"" if n % 3 else f"{n}@northwind.example"},{1000 + 22.5 * n:.2f}\n'
    for n in range(1, 301)
)


@pytest.mark.parametrize(("branch", "total"), [(123, "3767.50"), (7, "1157.50"), (298, "7705.00")])
async def test_a_row_of_a_long_table_answers_under_the_names_of_its_columns(
    writer: AnswerWriter, branch: int, total: str
):
    text, _, _ = convert(ORDERS, "text/csv")
    chunks = [chunk.text for chunk in split(text)]
    there = next(at for at, chunk in enumerate(chunks) if f"Branch {branch} " in chunk)
    found = "\n\n".join(chunks[max(0, there - 1) : there + 2])  # as a search shows it, with its neighbours
    question = f"What is the order total of Northwind Traders Branch {branch}?"
    answer = await writer.compose(question, [Passage("orders.csv", found, 0.9), *PASSAGES])
    first = answer.text.splitlines()[0]
    assert f"customer_company_name: Northwind Traders Branch {branch} ·" in first
    assert f"order_total: {total} [1]" in first
    assert f"id: {branch} ·" in first


async def test_rows_whose_columns_are_not_known_are_told_without_names(writer: AnswerWriter):
    rows = Passage("old.csv", "| 7 | Branch 7 | 12.50 |\n| 8 | Branch 8 | 13.50 |\n", 0.9)
    answer = await writer.compose("What is the total of Branch 8?", [rows])
    assert answer.text == "8 | Branch 8 | 13.50 [1]"


async def test_the_same_question_has_the_same_answer(writer: AnswerWriter):
    question = "When do I use RedisClusterBroker?"
    assert await writer.compose(question, PASSAGES) == await writer.compose(question, PASSAGES)
