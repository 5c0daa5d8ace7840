"""Which questions a piece of a document answers."""

import pytest
from consumers.knowledge.language.questioning import LONGEST, MOST, Source, generate_questions
from hypothesis import given
from hypothesis import strategies as st


def asked(text: str, heading: tuple[str, ...] = (), *, count: int = 5) -> tuple[str, ...]:
    return generate_questions([Source(text, heading)], count=count)[0]


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Redis is an open-source, in-memory data structure store.", "What is Redis?"),
        ("A worker pool is a set of queues with its own limit.", "What is a worker pool?"),
        (
            "To consume messages in batches from a list, follow these steps:",
            "How do I consume messages in batches from a list?",
        ),
        (
            "You can encode data in the channel name by using a pattern.",
            "How can I encode data in the channel name?",
        ),
        (
            (
                "The shared pool is quiet. Maintenance is excluded from the shared pool because its tasks run long, and such"
                " maintenance may wait."
            ),
            "Why is maintenance excluded from the shared pool?",
        ),
        ("When a migration fails, the application still starts.", "What happens when a migration fails?"),
        ("The old format was deprecated in 0.6 and removed in 0.7.", "When was the old format deprecated?"),
        ("Microsoft was founded by Bill Gates and Paul Allen.", "Who founded Microsoft?"),
        ("Лейн — это группа очередей одного характера.", "Что такое лейн?"),
        ("Чтобы настроить воркер, задайте параллелизм в переменной окружения.", "Как настроить воркер?"),
        (
            "Массовая рассылка отделена от транзакционной почты, чтобы не задержать письма.",
            "Зачем массовая рассылка отделена от транзакционной почты?",
        ),
        (
            "Если воркер упал во время задачи, задача вернётся в очередь.",
            "Что будет, если воркер упал во время задачи?",
        ),
        ("内置模型是系统级别的模型配置，对所有空间可见。", "内置模型是什么？"),
        ("系统支持两种方式添加内置模型：配置文件和数据库。", "系统支持哪几种方式添加内置模型？"),
        ("建议使用小于 10000 的空间编号，避免冲突。", "为什么建议使用小于 10000 的空间编号？"),
        ("如果模板构建失败并且没有重试，系统会原地重建模板。", "如果模板构建失败并且没有重试，会怎样？"),
    ],
)
def test_a_sentence_answers_the_question_it_is_turned_into(text: str, question: str):
    assert asked(text) == (question,)


@pytest.mark.parametrize(
    ("heading", "text", "question"),
    [
        ("What is a lease?", "The time for which a delivery is ours.", "What is a lease?"),
        ("How to install the server", "Run the installer of the package.", "How do I install the server?"),
        ("Why chunking matters", "It drives the quality of retrieval.", "Why does chunking matter?"),
        ("2. Start a dev cluster", "Run the command in a terminal.", "How do I start a dev cluster?"),
        ("Implementing Redis RPC", "The steps are easy for everyone.", "How do I implement Redis RPC?"),
        ("Как запустить сервер", "Выполните команду в терминале.", "Как запустить сервер?"),
        ("如何添加内置服务", "通过数据库直接插入服务即可。", "如何添加内置服务？"),
        ("标准模板包含什么", "镜像、工具和工作目录都在里面。", "标准模板包含什么？"),
    ],
)
def test_a_heading_asks_of_what_stands_under_it(heading: str, text: str, question: str):
    assert asked(text, ("Guide", heading))[0] == question


@pytest.mark.parametrize(
    "text",
    [
        "It is a good idea to wait for the others.",
        "This is an example of what was described above.",
        "Lorem ipsum dolor sit amet, consetetur sadipscing elitr.",
        "One notable limitation is a lack of persistence in memory.",
        "这是一个示例，用于说明上面的内容。",
        "Die Katze ist ein Tier, das auf dem Sofa schläft und von Mäusen träumt, solange es draußen regnet.",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "```\nx is a variable\n```",
        "",
    ],
)
def test_what_cannot_be_asked_properly_is_not_asked(text: str):
    assert asked(text) == ()


def test_no_question_is_asked_twice_and_never_more_than_wanted():
    text = " ".join(f"Part{n} is a piece of the engine." for n in range(30))
    sources = [Source(text), Source(text)]
    first, second = generate_questions(sources, count=4)
    assert len(first) == len(second) == 4
    assert not set(first) & set(second)
    assert len(asked(text, count=100)) == MOST
    assert asked(text, count=0) == ()


def test_a_heading_asks_of_its_first_piece_only_also_over_the_border_of_a_batch():
    heading = ("What is a lease?",)
    pieces = [Source("The time of a delivery.", heading), Source("It is renewed.", heading)]
    assert generate_questions(pieces, count=3) == (("What is a lease?",), ())
    assert generate_questions(pieces[1:], count=3, before=pieces[0]) == ((),)


def test_a_sentence_before_a_list_asks_of_the_piece_where_the_list_stands():
    intro = Source("To install the server, follow these steps:")
    steps = Source("- Download the package.\n- Run the installer.")
    question = ("How do I install the server?",)
    assert generate_questions([intro, steps], count=3) == ((), question)
    assert generate_questions([steps], count=3, before=intro) == (question,)
    assert generate_questions([intro], count=3, after=steps) == ((),)
    assert generate_questions([intro], count=3) == (question,)


@given(
    st.lists(
        st.builds(Source, st.text(max_size=200), st.lists(st.text(max_size=30), max_size=2).map(tuple)),
        max_size=4,
    )
)
def test_any_text_gives_one_bounded_answer_a_piece_and_always_the_same(sources: list[Source]):
    questions = generate_questions(sources, count=3)
    assert len(questions) == len(sources)
    assert all(len(each) <= 3 and all(len(question) <= LONGEST for question in each) for each in questions)
    assert generate_questions(sources, count=3) == questions
