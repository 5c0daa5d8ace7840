"""What a text is about, word by word: its language, and its words without endings and without those that tell nothing."""

import re
from typing import Final

from consumers.knowledge.language.terms import index_terms
from consumers.knowledge.reading.markdown import Kind, lines

SAMPLE: Final = 4_000  # characters that are looked at to name the language
TELLING: Final = 60  # Latin letters from which on languages can be told apart; less is taken for English
OTHER: Final = "und"  # as ISO 639 says: not determined, and not English
SMALL_WORDS: Final = 0.1  # share of small words that makes a text English

_STOP_WORDS: Final = """
a about above after again all also although always am an and another any are as at be because been before being below
between both but by can cannot could did do does doing done down during each either else ever every few for from
further get gets given had has have having he her here hers him his how however i if in instead into is it its itself
just let like made make makes many may me might more most much must my near need never no nor not now of off often on
once one only onto or other our out over own per perhaps please quite rather same shall she should since so some still
such than that the their them then there therefore these they this those though through thus to too under until up upon
us use used uses using very via was we well were what when where whether which while who whom whose why will with
within without would yet you your etc e.g i.e

и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по только ее мне было вот от меня еще нет о
из ему теперь когда даже ну вдруг ли если уже или ни быть был него до вас нибудь опять уж вам ведь там потом себя
ничего ей может они тут где есть надо ней для мы тебя их чем была сам чтоб без будто чего раз тоже себе под будет ж
тогда кто этот того потому этого какой совсем ним здесь этом один почти мой тем чтобы нее сейчас были куда зачем всех
никогда можно при наконец два об другой хоть после над больше тот через эти нас про всего них какая много разве три
эту моя впрочем свою этой перед иногда лучше чуть том нельзя такой им более всегда конечно всю между это также который
которая которое которые которых которого которой каждый сколько почему какие какое является являются нужно должен
должна должны либо лишь пока свой своя свое свои т.е т.д т.п

der die das und ist ein eine einer nicht mit von zu den dem des im auf für als auch sich wie werden wird oder bei
le la les des du de un une et est dans pour que qui sur pas par avec ce cette sont au aux ou il elle
el los las del y en que es una por con para se su no al lo como más o sus
"""
FUNCTION_CHARS: Final = frozenset("的了什吗呢吧么哪怎这那些与和及或请您你我们它他她")  # part of no term
_SOFT_CHARS: Final = FUNCTION_CHARS | frozenset(
    "是在有为以于从到对把被让给向将会能可要应该则等其之所就都也还很不没个中上下时用该如何什多少"
)

LATIN: Final = "latin"
_SMALL_ENGLISH: Final = (
    "the and of to is are for with that this it on by as be from or not you if when which has have"
)
_SMALL_ENGLISH_WORDS: Final = frozenset(_SMALL_ENGLISH.split())
_LATIN_WORD = re.compile("[a-z\u00e0-\u024f]+")
_DENSE = re.compile(r"[\u0e00-\u0eff\u2e80-\u9fff\uac00-\ud7af]")
_SCRIPTS: Final = (  # weight: an ideograph says more than a letter, and Latin names stand in every text
    (LATIN, re.compile("[A-Za-z\u00c0-\u024f]"), 1),
    ("ja", re.compile("[\u3040-\u30ff]"), 4),
    ("zh", re.compile("[\u3400-\u9fff]"), 3),
    ("ko", re.compile("[\uac00-\ud7af]"), 3),
    ("ru", re.compile("[\u0400-\u04ff]"), 2),
    ("ar", re.compile("[\u0600-\u06ff]"), 2),
)
_RUSSIAN_ENDING = re.compile(
    "(?:(?:ир)?овани[еяю]|ость|ости|ами|ями|ого|его|ому|ему|ыми|ими|ются|ется|ться|ить|ать|ять|еть|ует|уют|ает|ают"
    "|ая|яя|ую|юю|ои|еи|ыи|ии|ое|ее|ые|ие|ых|их|ах|ях|ам|ям|ов|ев|ом|ем|ия|ию|ть|ит|ят|ет|ут|ют|на|но|ны"
    "|а|я|у|ю|ы|и|е|о|ь)$"
)
_ENGLISH_ENDING = re.compile("(?:ations?|ings?|ically|ies|ied|edly|eds?|es|ers?|ly|s|e|y)$")
_STEM: Final = 4  # letters that are always left


def _fold(word: str) -> str:
    return next(iter(index_terms(word)), "")


STOP_WORDS: Final = frozenset(word for raw in _STOP_WORDS.split() for word in (raw, _fold(raw)))


def language_of(text: str) -> str:
    """The language of a text, told by its script: ja, zh, ko, ru, ar, and for Latin letters en or `OTHER`."""
    sample = " ".join(line.text for line in lines(text[:SAMPLE]) if line.kind is not Kind.CODE)
    script, letters = _prevailing(sample)
    if script != LATIN:
        return script
    return OTHER if letters >= TELLING and not _is_english(sample) else "en"


def script_of(text: str) -> str:
    """The script of a sentence: `latin`, or the language that is written in it. Cheaper than its language."""
    return _prevailing(text)[0]


def _prevailing(text: str) -> tuple[str, int]:
    weights = {name: weight * len(script.findall(text)) for name, script, weight in _SCRIPTS}
    if weights["ja"] > 0.15 * weights["zh"]:
        weights["ja"] += weights["zh"]
    name = max(weights, key=lambda name: weights[name])
    return name, weights[name]


def _is_english(text: str) -> bool:
    """Whether the small words are English ones: they are a quarter of any English text, and of no other."""
    words = _LATIN_WORD.findall(text.casefold())
    return sum(word in _SMALL_ENGLISH_WORDS for word in words) > SMALL_WORDS * len(words)


def is_dense(text: str) -> bool:
    """Whether a script without spaces prevails."""
    return 2 * len(_DENSE.findall(text)) > len(re.findall(r"[^\W\d_]", text))


def terms(text: str) -> list[str]:
    """The words that tell what a text is about, in order, with repetitions: stems, and pairs of ideographs."""
    return [stem(term) for term in index_terms(text) if _tells(term)]


def stem(word: str) -> str:
    """A folded word without the ending that changes with its place in a sentence."""
    if len(word) <= _STEM or not word.isalpha():
        return word
    ending = _ENGLISH_ENDING if word.isascii() else _RUSSIAN_ENDING
    return word[:_STEM] + ending.sub("", word[_STEM:])


def _tells(term: str) -> bool:
    if not _DENSE.match(term):
        return term not in STOP_WORDS and (len(term) > 1 or term.isdecimal())
    return (
        len(term) > 1
        and term.isalnum()
        and not FUNCTION_CHARS.intersection(term)
        and not _SOFT_CHARS.issuperset(term)
    )
