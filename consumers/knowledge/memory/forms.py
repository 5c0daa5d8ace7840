"""How sentences begin in which people speak of themselves, in English, Russian and Chinese."""

import re
from dataclasses import dataclass
from typing import Final

from contracts.memory import MemoryKind


@dataclass(frozen=True, slots=True)
class Form:
    """A form of sentence, and what it tells. A group belongs to the topic; of an `only` topic one thing holds at a time."""

    kind: MemoryKind
    topic: str
    pattern: re.Pattern[str]
    only: bool = False


def _form(kind: MemoryKind, topic: str, *ways: str, only: bool = False) -> Form:
    return Form(kind, topic, re.compile("|".join(ways), re.IGNORECASE), only)


_AM: Final = r"\bI(?:['’]m|\s+am)\s+"
_OFTEN: Final = r"(?:(?:really|absolutely|also|usually|always|generally|mostly|just|now|currently|still)\s+)*"
_OFTEN_RU: Final = (
    r"(?:(?:очень|больше|обычно|всегда|просто|особенно|тоже|сейчас|теперь|пока|давно|всего)\s+)*"
)
_KIN: Final = (
    r"(?:wife|husband|partner|sons?|daughters?|kids?|child(?:ren)?|mother|father|mom|mum|dad|parents|brothers?|sisters?"
    r"|girlfriend|boyfriend|fianc[ée]e?|family|dogs?|cats?)"
)
_KIN_RU: Final = (
    r"(?:жен[аыу]|муж[ау]?|сын\w*|доч\w*|дет(?:и|ей)|реб[её]н\w+|мам[аыу]|пап[аыу]|родител\w+|брат\w*|сестр\w+"
    r"|собак\w+|кош\w+|кот\w*|девушк\w+|парень|семь\w+)"
)
_TRADE_RU: Final = (
    r"(?:программист|разработчик|инженер|врач|учитель|преподаватель|студент|школьник|дизайнер|менеджер|аналитик|юрист"
    r"|бухгалтер|предприниматель|пенсионер|писатель|художник|музыкант|переводчик|журналист|водитель|повар)(?:ница|ка|ша)?"
)

NOT_SAID: Final = re.compile(
    r"\bI(?:\s+(?:want|need|would like|wonder)|['’]d like)(?:\s+you)?(?:\s+to)?\s+(?:know|ask|understand|see|find|get|have you)\b"
    r"|\bI\s+(?:have|had|['’]ve got|am having)\s+(?:a|an|another|one more|the following)\s+(?:question|problem|issue|error|doubt)\b"
    r"|\bI\s+(?:don['’]?t|do not)\s+(?:know|understand|see)\b|\bI(?:['’]m| am)\s+(?:not\s+sure|sorry|asking|afraid|trying)\b"
    r"|я\s+(?:хочу|хотел[аи]?)\s+(?:бы\s+)?(?:узнать|спросить|понять|уточнить)|у\s+меня\s+(?:есть\s+)?(?:вопрос|проблема|ошибка)"
    r"|я\s+не\s+(?:знаю|понимаю|уверен\w*|вижу|могу)\b|我想(?:知道|问|请问|了解)|我有(?:一?个)?(?:问题|疑问)|我不(?:知道|明白|懂|确定)"
    r"|[吗呢][?？]?$",
    re.IGNORECASE,
)
"""Sentences in the first person that ask, complain or excuse."""

REMEMBER: Final = re.compile(
    r"(?:please[,\s]+)?(?:remember|note|keep in mind)(?:\s*[:,]\s*|\s+that\s+|\s+(?=I\b|my\b))"
    r"|(?:пожалуйста[,\s]+)?(?:запомни|учти|имей в виду)(?:те)?(?:\s*[:,]\s*(?:что\s+)?|\s+(?=я\b|мо[йяеи]\b|у меня))"
    r"|(?:请|請)?(?:记住|記住)[：:，,]?",
    re.IGNORECASE,
)
"""How somebody asks for something to be remembered."""

FORMS: Final = (
    _form(
        MemoryKind.INSTRUCTION,
        "answers",
        r"^(?:please[,\s]+)?(?:from now on[,\s]+)?(?:always|never|don['’]?t|do not)\s+(?:answer|reply|respond|write|use|call|address)\b",
        r"^(?:please[,\s]+)?(?:answer|reply|respond|write|speak)\s+(?:to\s+)?(?:me\s+)?(?:only\s+|always\s+)?(?:in|with|briefly|shortly)\b",
        r"^(?:пожалуйста[,\s]+)?(?:всегда|никогда не|больше не|не)\s+(?:отвечай|пиши|используй|называй|обращайся|говори)(?:те)?\b",
        r"^(?:пожалуйста[,\s]+)?(?:отвечай|пиши|говори|обращайся)(?:те)?\s+(?:со мной\s+|мне\s+|ко мне\s+)?(?:только\s+)?(?:на|по|кратко|коротко|подробно)\b",
        r"^请?(?:总是|一直|以后|都)*用.{1,8}(?:回答|回复|写)",
    ),
    _form(
        MemoryKind.PROFILE,
        "name",
        r"\bmy\s+name\s+is\b|\bcall\s+me\s+\w|\bI(?:['’]m|\s+am)\s+called\b",
        r"\bменя\s+зовут\b|\bзовите\s+меня\b|\bмо[её]\s+имя\b|\bназывай(?:те)?\s+меня\b",
        r"我叫|我的名字[是叫]|我姓",
        only=True,
    ),
    _form(
        MemoryKind.PROFILE,
        "birthday",
        r"\bmy\s+birthday\s+is\b|\bI\s+was\s+born\s+(?:on|in)\s+(?:\w+\s+)?\d",
        r"\bмой\s+день\s+рождения\b|\bя\s+родил(?:ся|ась)\s+(?:в\s+)?\d",
        r"我的生日",
        only=True,
    ),
    _form(
        MemoryKind.PROFILE,
        "age",
        _AM + r"\d{1,3}(?:\s+years\s+old\b|[.!]?$)",
        r"\bмне\s+\d{1,3}\s+(?:лет|год)",
        r"我今年?\d{1,3}岁",
        only=True,
    ),
    _form(
        MemoryKind.PROFILE,
        "contact",
        r"\bmy\s+(e-?mail|phone(?:\s+number)?|telegram|address|time\s?zone)(?:\s+address)?\s+is\b",
        r"\bмо[йяи]\s+(?:почта|e-?mail|имейл|телефон|телеграм|адрес|часовой\s+пояс|номер\s+телефона)\b",
        r"我的(?:邮箱|电话|地址|时区)是",
    ),
    _form(
        MemoryKind.FACT,
        "home",
        rf"\bI\s+{_OFTEN}(?:live|reside|(?:have\s+)?moved)\s+(?:in|to|near|at)\b|{_AM}{_OFTEN}(?:based|living)\s+in\b",
        rf"\bя\s+{_OFTEN_RU}(?:живу|проживаю|переехал[аи]?)\b",
        r"我(?:现在|目前)?(?:住在|搬到)",
        only=True,
    ),
    _form(
        MemoryKind.FACT,
        "origin",
        rf"{_AM}(?:originally\s+)?from\s+[A-Z]|\bI\s+(?:come\s+from|was\s+born\s+in|grew\s+up\s+in)\b",
        r"\bя\s+(?:родом\s+)?из\s+[А-ЯЁA-Z]|\bя\s+(?:родил(?:ся|ась)|выросл?[аи]?)\s+в\b",
        r"我来自",
        only=True,
    ),
    _form(
        MemoryKind.FACT,
        "health",
        rf"{_AM}(?:an?\s+)?(?:allergic|vegan|vegetarian|diabetic)\b|\bI\s+(?:can['’]?t|cannot|don['’]?t|do not|never)\s+(?:eat|drink)\b",
        r"\bу\s+меня\s+аллерги|\bя\s+не\s+(?:ем|пью)\b|\bмне\s+нельзя\b|\bя\s+(?:[—–-]\s*)?(?:веган|вегетариан|диабетик)",
        r"我对.{1,12}过敏|我不(?:吃|喝)|我吃素",
    ),
    _form(
        MemoryKind.FACT,
        "family",
        rf"\bmy\s+{_KIN}(?:['’]s|\s+(?:is|are|was|has|have|likes?|works?|lives?|stud\w+|speaks?|and))\b",
        rf"\bI\s+(?:have|['’]ve\s+got)\s+(?:\w+\s+){{0,3}}{_KIN}\b|{_AM}(?:married|engaged|divorced|single)\b",
        rf"\bмо(?:й|я|и|ю|его|ей)\s+{_KIN_RU}\b|\bу\s+меня\s+(?:\w+\s+){{0,3}}{_KIN_RU}\b|\bя\s+(?:женат|замужем|разведен)",
        r"我的?(?:妻子|丈夫|老婆|老公|儿子|女儿|孩子|妈妈|爸爸|父母|哥哥|姐姐|弟弟|妹妹|狗|猫)|我有.{0,4}(?:孩子|儿子|女儿|狗|猫)|我结婚",
    ),
    _form(
        MemoryKind.FACT,
        "work",
        rf"\bI\s+{_OFTEN}work\s+(?:at|for|as|in|on|with|from)\b|{_AM}{_OFTEN}working\s+(?:at|for|as)\b",
        r"\b(?:my|our)\s+(?:job|profession|company|employer|team|boss|office|department|position)\s+(?:is|are|has|uses?|was)\b",
        rf"{_AM}an?\s+(?!bit\b|little\b|lot\b|fan\b)(?:[\w-]+\s+){{0,4}}(?:engineer|developer|programmer|doctor|teacher|student|designer"
        r"|manager|analyst|lawyer|accountant|nurse|scientist|researcher|writer|artist|musician|professor|consultant|founder|driver)\b",
        rf"\bя\s+{_OFTEN_RU}(?:работаю|служу|тружусь)\b|\bя\s*[—–-]\s*\w|\bя\s+(?:\w+\s+)?{_TRADE_RU}\b",
        r"\b(?:моя|мой|наша|наш)\s+(?:профессия|должность|работа|компания|работодатель|команда|отдел|начальник)\b",
        r"我在.{1,20}(?:工作|上班)|我的(?:工作|职业|公司)是|我是(?:一名|一个|一位|名|个)",
    ),
    _form(
        MemoryKind.FACT,
        "languages",
        rf"\bI\s+{_OFTEN}speak\s+[A-Z]|\bmy\s+(?:native|first|mother)\s+(?:language|tongue)\s+is\b",
        rf"\bя\s+{_OFTEN_RU}(?:говорю\s+на|владею)\b|\bмой\s+родной\s+язык\b",
        r"我会(?:说|讲)|我的母语",
    ),
    _form(
        MemoryKind.PREFERENCE,
        "favourite",
        r"\bmy\s+favou?rite\s+(\w+(?:\s+\w+)?)\s+(?:is|are)\b",
        r"\bмо[йяеёи]\s+любим\w+\s+(\w+)",
        r"我最喜欢的(.{1,6}?)是",
        only=True,
    ),
    _form(
        MemoryKind.PREFERENCE,
        "likes",
        rf"\bI\s+(?:(?:do\s+not|don['’]?t)\s+)?{_OFTEN}(?:like|love|prefer|enjoy|adore|hate|dislike)\b(?!\s+(?:your|this|that|it|you)\b)",
        r"\bI\s+(?:can['’]?t|cannot)\s+stand\b|\bI(?:['’]d|\s+would)\s+rather\b",
        rf"\bя\s+(?:не\s+)?{_OFTEN_RU}(?:люблю|предпочитаю|обожаю|ненавижу|терпеть\s+не\s+могу)\b",
        rf"\bмне\s+(?:не\s+)?{_OFTEN_RU}(?:не\s+)?нравит?ся\b|\bмне\s+(?:не\s+)?{_OFTEN_RU}нравятся\b",
        r"我(?:很|非常|最|更|不|特别|真的|比较)*(?:喜欢|爱|讨厌|偏爱|习惯)",
    ),
    _form(
        MemoryKind.GOAL,
        "plans",
        rf"\bI\s+{_OFTEN}(?:plan|intend|hope|dream)\s+(?:to|on|of)\b|\bmy\s+(?:goal|plan|dream)\s+is\b",
        rf"{_AM}{_OFTEN}(?:planning|preparing|training|saving)\s+(?:to|for)\b|\bI\s+want\s+to\s+(?:learn|become|move|buy|visit|travel)\b",
        rf"\bя\s+{_OFTEN_RU}(?:планирую|собираюсь|мечтаю|готовлюсь|коплю)\b|\bмоя\s+(?:цель|мечта)\b",
        r"\bя\s+хочу\s+(?:научиться|стать|переехать|купить|выучить|поехать)\b",
        r"我(?:计划|打算|准备|的目标|的梦想|想(?:学|去|成为|买))",
    ),
    _form(
        MemoryKind.FACT,
        "doings",
        rf"\bI\s+{_OFTEN}(?:use|own|drive|play|study|studied|teach|collect|run|manage)\s+\w|{_AM}{_OFTEN}(?:using|learning|studying|reading)\s+\w",
        rf"\bя\s+{_OFTEN_RU}(?:использую|пользуюсь|учусь|учу|изучаю|играю|езжу|преподаю|занимаюсь|руковожу|читаю)\b",
        r"我(?:正在|在|平时|一直)?(?:用|使用|学习|学|玩|读)",
    ),
)
"""The first that fits tells what a sentence is."""
