"""What makes a good topic and a good sentence of a wiki. Pure judgement, in English, Russian, German and Chinese."""

import re
from typing import Final

from consumers.knowledge.language.extraction import CODE, NAME, TERM
from consumers.knowledge.language.words import STOP_WORDS, is_dense
from consumers.knowledge.wiki.names import is_written_dense, key_of, stems

SHORTEST: Final = 40  # characters of a sentence that says enough; ideographs say as much with a third
LONGEST: Final = 320

_VERBS: Final = """
allow allows announced contain contains create created consume consumes define defining describe enable enables enabling execute
fail fails following get goes handle handles happen happens import include includes make makes need needs picks provide provides
read reads release released require requires return returns run runs see select send sends set sets show shows start starts support
supports understanding accessing dealing using used use uses wakes want work works write writes wraps call calls called pass passes
based given known wakes crashes keep keeps let wait waits recommended
"""
_EMPTY: Final = """
example examples full chapter section page test tests note notes content contents data item items value values name names type types
number option options step steps table figure list line lines case cases way ways thing things part parts time day date year years
new different better best obvious complex simple special first second last next other default idea point points result results
feature features usage access application applications format formats function functions object objects response responses
pattern patterns message messages model models extension extensions exists exist create conflict nothing publish publishing post delete
update report reporting reading optional true false string integer boolean public private support class classes instance instances usage overview introduction introduction summary conclusion reference references details information problem problems
task tasks file files code user users total amount method methods key main local common single multiple document documents
пример примеры раздел глава страница шаг таблица рисунок случай способ часть время день год данные список имя тип значение вопрос
система системы работа этап описание задача результат итог общие требования пункт цель вариант секунд минут попытку раз число
beispiel kapitel abschnitt seite schritt tabelle fall teil zeit tag jahr daten liste name wert frage ergebnis
示例 步骤 章节 页面 表格 数据 问题 结果 情况 部分 时间 名称 类型 方法 选项 内容 说明 使用 更多 至少 一台 是否 形态 方式 执行 实现 验证
配置 状态 运行 生成 建议 启动 开发 功能 简介 管理 文件 需要 一个 制作 变量 支持 用户 作用 目标 要求 参数 默认 可选 必须 如果 以及 进行
相关 完成 操作 检查 修改 添加 删除 设置 创建 返回 请求 任务在 后任务 任务会 变体
"""
_EMPTY_WORDS: Final = frozenset(_EMPTY.split())
_VERB_WORDS: Final = frozenset(_VERBS.split())
_DATE_OR_NUMBER = re.compile(r"^[\d\W_]+$|^\w?\d+\w?$")
_CALL = re.compile(r"^[a-z]\w*\.[A-Za-z]|\.[A-Z]|^[a-z]+\(|^em_|_$")


def is_topic(title: str, kind: str, *, heading: bool, count: int) -> bool:
    """Whether a page could be about this. `heading`: a heading says it, too; `count`: how often it is said."""
    words = title.casefold().split()
    if not words or len(title) < 2 or title[0] in "@#" or _DATE_OR_NUMBER.match(title) or len(words) > 5:
        return False
    if all(word in _EMPTY_WORDS or word in STOP_WORDS for word in words):
        return False
    if is_written_dense(title):
        return len(title) <= 12 and (heading or len(title) > 2 or count > 3)
    if words[0] in _VERB_WORDS or words[-1] in _VERB_WORDS or (kind == TERM and words[-1].endswith("ed")):
        return False
    if kind == NAME:
        if len(title) < 3 and not title.isupper():
            return False
        return count > 1 or heading or len(words) > 1
    if kind == CODE:
        return not _CALL.search(title) and count > 1
    if len(words) == 1:
        return heading and len(title) > 3 and title not in _EMPTY_WORDS
    return len(words) < 4 or heading


_ENDS = re.compile(r"[.!。！…][\"'”»）)]*$")
_LEANING = re.compile(
    r"(?:it|this|that|these|those|they|he|she|his|her|its|their|such|however|therefore|thus|hence|also|but|and|so|or|then|here|now"
    r"|in addition|moreover|furthermore|see|for example|for instance|as a result|in this|instead|otherwise|finally|next|first|note"
    r"|это|этот|эта|эти|он|она|они|оно|его|её|их|однако|поэтому|также|но|и|а|затем|кроме того|например|см|при этом|таким образом|тогда"
    r"|dies|diese|dieser|dieses|er|sie|es|jedoch|daher|deshalb|auch|aber|und|dann|außerdem|zum beispiel|siehe|so"
    r"|这|那|它|他|但|因此|所以|另外|此外|然后|同时|例如|注意|其|该|如果|并|而)(?![a-zа-яёäöü])",
    re.IGNORECASE,
)
_ASIDE: Final = r"\s*(?:\([^()]{1,60}\)|（[^（）]{1,60}）)?\s*"
_IS = re.compile(
    _ASIDE
    + r"(?:(?:is|are|was|were|means|refers to|stands for)\b (?:an?|the|one|founded|known|made)?\b|[—–-]\s"
    r"|(?:это|является|являются|называется|означает|служит)(?!\w)|(?:ist|sind|bedeutet|bezeichnet|heißt)\b|是|指|用于|负责)",
    re.IGNORECASE,
)
_DOES = re.compile(
    _ASIDE
    + r"(?:(?:describes|represents|lets|provides|has|supports|allows|enables|offers|contains|stores|runs)\b"
    r"|(?:хранит|содержит|состоит|позволяет|обеспечивает|ставит)(?!\w)|(?:hat|bietet|enthält|besteht)\b|提供|为|支持|包含)",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"^(?:an?|the|der|die|das|ein|eine)\s+", re.IGNORECASE)
_ODD = re.compile(r"[{}<>=|\\@$]|://|\w\(|…$|\.\.\.$|[\[\]]|^\W?\d")


def standing(text: str, title: str, *, item: bool, heading: str = "") -> float:
    """How well a sentence stands in a page about `title`, from 0; without a title, how well it stands on its own."""
    dense = is_dense(text)
    length, least = len(text), SHORTEST // 3 if dense else SHORTEST
    worth = min(1.0, length / least) * (1.0 if length <= (LONGEST // 2 if dense else LONGEST) else 0.5)
    worth *= 1.0 if _ENDS.search(text) else 0.45
    worth *= 0.7 if item else 1.0
    worth *= 0.55 if _LEANING.match(text) else 1.0
    worth *= 0.6 ** min(3, len(_ODD.findall(text)))
    first = text[:1]
    if not (first.isupper() or dense or first.isdecimal() or first in "“«「"):
        worth *= 0.7
    return worth * _about(text, title, heading) if title else worth


def _about(text: str, title: str, heading: str) -> float:
    """How much a sentence is about a title: it defines it, begins with it, or stands under it."""
    start = _ARTICLE.sub("", text)
    folded, wanted = start.casefold(), title.casefold()
    about = 1.0
    if folded.startswith(wanted) or stems(start)[: len(key_of(title))] == list(key_of(title)):
        rest = start[len(title) :].lstrip("sы»”\"'`")
        about = 2.6 if _IS.match(rest) else 2.1 if _DOES.match(rest) else 1.6
    elif wanted in folded[: len(folded) // 3]:
        about = 1.25
    return about * (1.2 if heading and wanted in heading.casefold() else 1.0)
