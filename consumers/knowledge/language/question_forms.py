"""How a sentence or heading becomes a question that it answers, in each language.

A form turns the words of the sentence around and adds none that it does not know: what cannot be asked in proper
grammar is not asked.
"""

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Form:
    """Sentences that match `pattern` answer `question`, in which the groups stand by name."""

    pattern: re.Pattern[str]
    question: str


@dataclass(frozen=True, slots=True)
class Grammar:
    """The forms of one language, the better questions first, and what makes a question worthless."""

    headings: tuple[Form, ...]
    sentences: tuple[Form, ...]
    vague: re.Pattern[str]  # words that point outside the question


def _forms(flags: int, *pairs: tuple[str, str]) -> tuple[Form, ...]:
    return tuple(Form(re.compile(pattern, flags | re.VERBOSE), question) for pattern, question in pairs)


# What English calls a thing: at most six words, none of which could be a verb or point elsewhere.
_EN_THING = r"""(?P<thing>(?!(?:It|This|That|These|Those|There|Here|They|We|You|He|She|I|One|Another|Some|Many|Most|All|Any
    |Each|Every|Such|Other|Both|None|What|Which|Who|How|When|Where|Why|If|In|On|At|For|From|With|By|To|As|But|And|So|Then
    |[A-Z][a-z]+ing\ |Below|Above|Next|First|Note|Only|Not|Our|My|Your|His|Her|Its|Their|After|Before|While|Because|Since)\b)
    (?:(?:An?|The)\ )?[\w@][\w./@’'+-]*(?:\ (?!is\b|are\b|was\b|were\b|can\b|will\b|that\b|which\b)[\w@(][\w./@’'+)-]*){0,5}?)"""
_EN_START = r"""(?:\d+[.)]?\ )?(?P<small>(?:(?:use|add|build|run|start|publish|consume|deploy|send|test|write|handle|set\ up|open|check)
    \ (?:an?|the|your)|(?:install|configure|create|connect|migrate|define|implement|import|register|upgrade|enable|disable
    |verify))\ .+)"""
_EN_ORDER = "(?:you|we|simply|just|first|follow|set|call|pass|click|open|use|run|create|add|define|configure|install|let)"

GERUNDS: Final = {
    f"{verb.removesuffix('e')}ing": verb
    for verb in [
        "install",
        "configure",
        "create",
        "add",
        "build",
        "publish",
        "consume",
        "connect",
        "deploy",
        "migrate",
        "send",
        "access",
        "test",
        "write",
        "handle",
        "manage",
        "implement",
        "define",
        "import",
        "register",
        "use",
        "upgrade",
        "enable",
        "disable",
        "verify",
    ]
} | {"running": "run", "setting up": "set up", "getting": "get"}

ENGLISH: Final = Grammar(
    headings=_forms(
        re.IGNORECASE,
        (r"(?P<all>(?:what|how|why|when|where|which|who|is|are|do|does|can|should)\ .+)\?", "{all}?"),
        (r"how\ to\ (?P<small>.+)", "How do I {small}?"),
        (r"how\ (?P<thing>.+)\ works", "How does {thing} work?"),
        (r"why\ (?P<thing>.+)\ matters", "Why does {thing} matter?"),
        (r"when\ to\ (?P<small>\w+\ .+)", "When should I {small}?"),
        (_EN_START, "How do I {small}?"),
        (rf"(?:\d+[.)]?\ )?(?P<doing>{'|'.join(GERUNDS)})\ (?P<rest>.+)", "How do I {doing} {rest}?"),
        (
            (
                r"(?P<small>(?!the\b)\w[\w\ -]+\ (?:limitations|features|settings|options|requirements|benefits|advantages|layers"
                r"|types|rules|parameters|metrics|causes|differences|fields|steps|prerequisites))"
            ),
            "What are the {small}?",
        ),
    ),
    sentences=_forms(
        0,
        (
            rf"{_EN_THING}\ (?P<be>is|are|was|were)\ (?P<rest>[a-z][^,;:()]{{8,100}}?),?\ because\ .+",
            "Why {be} {thing} {rest}?",
        ),
        (
            rf"To\ (?!be\b|do\b|this\b|achieve\b)(?P<rest>[a-z][^,;:()]{{6,90}}),\ (?={_EN_ORDER}\b).+",
            "How do I {rest}?",
        ),
        (r"You\ can\ (?P<rest>[a-z][^,;:()]{6,90}?)\ (?:by|via)\ .+", "How can I {rest}?"),
        (
            r"You\ can\ [^,;:()]+\ to\ (?!the\b|an?\b|your\b|its\b|be\b|do\b|\w+s\b)(?P<rest>[a-z]+\ [^,;:()]{6,90})\.",
            "How can I {rest}?",
        ),
        (rf"{_EN_THING}\ (?P<be>is|are)\ (?:[a-z]+ly\ )?(?:an?|one\ of)\ .{{12,}}", "What {be} {thing}?"),
        (
            rf"{_EN_THING}\ was\ (?P<did>founded|created|developed|invented|written)\ by\ .+",
            "Who {did} {thing}?",
        ),
        (
            (
                rf"{_EN_THING}\ (?P<be>was|were)\ (?P<did>founded|created|released|deprecated|removed|introduced|added|renamed)"
                r"\ (?:[^,;]*\ )?(?:in|on)\ (?:[A-Z]\w+\ )?v?\d.*"
            ),
            "When {be} {thing} {did}?",
        ),
        (
            r"When\ (?P<rest>(?:an?|the)\ [^,;:()]{6,80}s(?:\ [^,;:()]{2,40})?),\ .+",
            "What happens when {rest}?",
        ),
        (r"If\ (?P<rest>(?:an?|the)\ [^,;:()]{6,90}),\ .+", "What happens if {rest}?"),
        (
            rf"{_EN_THING}\ (?:allows|enables|lets)\ (?:you|users|developers|clients|us)\ .+",
            "What does {thing} let you do?",
        ),
        (
            rf"{_EN_THING}\ (?P<does>provide|support|offer|contain|include|require|report|control)s\ .{{12,}}",
            "What does {thing} {does}?",
        ),
    ),
    vague=re.compile(
        r"\b(?:this|these|those|it|they|them|he|she|here|above|below|following|such|former|latter)\b",
        re.IGNORECASE,
    ),
)

_RU_THING = r"(?P<thing>(?!(?:Это|Этот|Эта|Эти|Он|Она|Оно|Они|Мы|Вы|Там|Тут|Здесь|Так|Всё|Все|Если|При|Для)\b)[\w«»./@-]+(?:\ [\w«»./@-]+){0,3}?)"

RUSSIAN: Final = Grammar(
    headings=_forms(
        re.IGNORECASE,
        (
            r"(?P<all>(?:что|как|почему|зачем|когда|где|кто|какой|какая|какие|сколько|можно\ ли)\ .+?)\??",
            "{all}?",
        ),
    ),
    sentences=_forms(
        0,
        (r"(?P<rest>[А-ЯЁ][^,;:()—]{20,100}),\ (?:потому\ что|так\ как|поскольку)\ .+", "Почему {rest}?"),
        (r"(?P<rest>[А-ЯЁ][^,;:()—]{20,100}),\ чтобы\ .+", "Зачем {rest}?"),
        (r"Чтобы\ (?P<rest>[а-яё]+(?:ть|ти|чь|ться|тись)\b[^,;:()]{4,80}),\ .+", "Как {rest}?"),
        (rf"{_RU_THING}\ —\ это\ .{{12,}}", "Что такое {thing}?"),
        (rf"{_RU_THING}\ —\ (?!это\b|не\b)[а-яё].{{20,}}", "Что такое {thing}?"),
        (rf"{_RU_THING}\ позволя(?:ет|ют)\ .+", "Что позволяет сделать {thing}?"),
        (
            r"Для\ (?P<rest>[^,;:()]{3,60}?)\ (?P<use>использу[её]тся|используют|нужен|нужна|нужно|нужны)\ .+",
            "Что {use} для {rest}?",
        ),
        (r"Если\ (?P<rest>[^,;:()]{8,90}),\ .+", "Что будет, если {rest}?"),
    ),
    vague=re.compile(
        r"\b(?:эт(?:о|от|а|и|ого|ой|их|им|ому)|он|она|они|его|её|ее|их|ниже|выше|следующ\w+|данн\w+|здесь|там|тут)\b",
        re.IGNORECASE,
    ),
)

_ZH_THING = (
    r"(?P<thing>(?![这那它他她其此本该但而且所以因为如果当若即不没])[^，。；：！？、（）()“”\"'是]{2,24}?)"
)

CHINESE: Final = Grammar(
    headings=_forms(
        0,
        (
            r"(?:\d+[.、）)]?\ *)?(?P<all>[^？?]*(?:什么|哪些|如何|怎么|怎样|为何|谁|多少|哪个|是否)[^？?]*)[？?]?",
            "{all}？",
        ),
        (r"(?P<all>.{2,40})[？?]", "{all}？"),
        (
            r"(?P<all>.{3,30}(?:特性|步骤|方式|建议|事项|限制|优势|类型|要求|参数|字段|原因|区别|功能))",
            "{all}有哪些？",
        ),
        (r"(?P<all>.{3,30}(?:流程|原理|架构|机制))", "{all}是怎样的？"),
    ),
    sentences=_forms(
        0,
        (
            r"(?P<rest>[^，。；：（）]{8,50})，(?:因为|以便|以免|避免|防止|以防)[^，。]{2,}.*",
            "为什么{rest}？",
        ),
        (r"由于[^，。；：]{3,40}，(?P<rest>[^，。；：]{6,40})[，。].*", "为什么{rest}？"),
        (
            rf"{_ZH_THING}(?P<does>支持|提供|包含|包括|分为|有)\ ?(?:[两三四五六七八九十]|多|\d+)\ ?(?P<unit>[种个类项条层步])(?P<rest>[^，。；：（）]{{2,30}})[，。；：（].*",
            "{thing}{does}哪几{unit}{rest}？",
        ),
        (r"(?:[^，。]{2,20}，)?支持的(?P<rest>[^，。；：的]{2,10})[：:].*", "支持哪些{rest}？"),
        (
            rf"{_ZH_THING}(?<![不而还就都只但可或要也仍总算既若如于再的])是(?!否|因|由|为|在|可).{{8,}}",
            "{thing}是什么？",
        ),
        (r"要(?P<rest>(?!求|是|么)[^，。；：（）]{4,30})，(?:请|需|先|可|必须|在).*", "如何{rest}？"),
        (
            r"(?:如果|若)(?P<rest>(?:希望|想|需要|要|[你您]|误)[^，。；：（）]{4,40})，.{4,}",
            "如果{rest}，该怎么做？",
        ),
        (r"(?:如果|若)(?P<rest>[^，。；：（）]{5,40})，.{4,}", "如果{rest}，会怎样？"),
        (r"当(?P<rest>(?!前|然)[^，。；：（）]{5,40})时，.{4,}", "当{rest}时会发生什么？"),
    ),
    vague=re.compile("[这那它]|以下|上述|如下|本文|本页|下面|上面|此[处外类]|其[它他中]"),
)

GRAMMARS: Final = {"en": ENGLISH, "ru": RUSSIAN, "zh": CHINESE}
