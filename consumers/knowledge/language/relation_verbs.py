"""Which relation the words between two names say, in each language."""

import re
from typing import Final

BESIDE: Final = "related_to"  # nothing but standing in the same sentence
LONGEST: Final = 60  # characters between two names that a verb still binds

# A relation and the words that say it; behind a bar, the words that say it from the other side.
_ENGLISH: Final = {
    "is_a": r"(?:is|are|was)(?: \w+ly)? (?:an?|the|one of the)",
    "uses": r"uses?|using|utili[sz]es?|(?:is |are )?(?:based|built|relies) on|runs on|adopts|leverages?|employs | used by",
    "provides": r"provides?|offers?|exposes?|gives | (?:is|are) provided by|offered by",
    "supports": r"supports?|allows?|enables? | (?:is|are) supported by",
    "contains": r"contains?|includes?|consists of|comprises|such as|including | (?:is |are )?(?:part|included in|a feature) of",
    "requires": r"requires?|needs?|depends on|relies on | (?:is|are) required by",
    "extends": r"extends?|inherits from|implements|wraps | (?:is|are) (?:extended|implemented|wrapped) by",
    "replaces": r"replace[sd]?|supersedes|succeeded | (?:is|was|are) (?:replaced|superseded|succeeded) by",
    "creates": r"creates?|created|produces?|developed|invented|wrote|released|founded | (?:was |were )?(?:created|developed|written|founded|invented|released) by",
    "acquires": r"acquired?|bought|purchased|acquisition of | (?:was )?(?:acquired|bought) by",
    "calls": r"calls?|invokes?|sends? (?:\w+ )?to|publishes (?:\w+ )?to|connects? to|talks to | (?:is|are) called by",
    "stores": r"stores?|holds?|keeps?|caches? | (?:is|are) (?:stored|kept|held|cached) in",
}
_RUSSIAN: Final = {
    "is_a": r"(?<=^\ )—(?:\ это)?(?=\ $)|является",
    "uses": r"использу(?:ет|ют)|работает на|построен\w* на|основан\w* на | использу(?:ется|ются) в",
    "provides": r"предоставля(?:ет|ют)|да[её]т",
    "supports": r"поддержива(?:ет|ют)|позволя(?:ет|ют) | поддерживается",
    "contains": r"содерж(?:ит|ат)|включа(?:ет|ют)|состоит из | вход(?:ит|ят) в|часть",
    "requires": r"треб(?:ует|уют)|завис(?:ит|ят) от|нужда(?:ется|ются) в",
    "replaces": r"заменя(?:ет|ют)|заменил\w* | замен[её]н\w*",
    "creates": r"созда(?:ёт|ет|ют|л\w*)|разработал\w*|выпустил\w* | создан\w*|разработан\w*",
    "calls": r"вызыва(?:ет|ют)|зов[её]т|отправля(?:ет|ют)|пишет в|подключается к | вызывается",
    "stores": r"хран(?:ит|ят) | хран(?:ится|ятся) в|жив[её]т в|лежит в",
    "serves": r"обслужива(?:ет|ют) | обслуживается",
}
_CHINESE: Final = {
    "is_a": r"是(?!否)|属于",
    "uses": r"使用|采用|基于|依托 | 用于",
    "provides": r"提供",
    "supports": r"支持|兼容",
    "contains": r"包含|包括|含有|组成",
    "requires": r"需要|依赖|要求",
    "replaces": r"替代|取代|代替",
    "creates": r"创建|生成|构建|发布",
    "calls": r"调用|连接|接入|访问",
    "stores": r"存储|保存|存放 | 保存在|存储在|存放在",
}


def _compiled(
    verbs: dict[str, str], begin: str = "", end: str = ""
) -> tuple[tuple[re.Pattern[str], str, bool], ...]:
    found = []
    for kind, words in verbs.items():
        forward, _, turned = words.partition(" | ")
        found += [(turned, kind, True)] if turned else []
        found += [(forward, kind, False)]
    return tuple(
        (re.compile(rf"{begin}(?:{words.strip()}){end}"), kind, turned) for words, kind, turned in found
    )


_VERBS: Final = {
    "en": _compiled(_ENGLISH, r"(?<![\w-])", r"(?![\w-])"),
    "ru": _compiled(_RUSSIAN, r"(?<![\w-])", r"(?![\w-])"),
    "zh": _compiled(_CHINESE),
}
_APART = re.compile(r"[.,;:，：。；!?！？|]|\b(?:not|n't|не|but|но|while|which)\b|[不没]|→|\d+\)")


def between(words: str, language: str) -> tuple[str, bool]:
    """The relation that the words between two names say, and whether it runs from the second to the first.

    The verb nearest to the second name counts. Words that part a sentence, deny, or are too many say only `BESIDE`.
    """
    if len(words) > LONGEST or _APART.search(words):
        return BESIDE, False
    best = (-1, BESIDE, False)
    for pattern, kind, turned in _VERBS.get(language, ()):
        for match in pattern.finditer(words):
            best = max(best, (match.end(), kind, turned), key=lambda found: found[0])
    return best[1], best[2]
