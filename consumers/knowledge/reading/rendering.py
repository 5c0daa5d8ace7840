"""What kreuzberg reads, as Markdown that a person, an index and a model can use."""

import re
from collections import Counter
from typing import Any

HEAD = re.compile(r"<head\b", re.IGNORECASE)
HEAD_END = re.compile(r"</head\s*>|<body\b", re.IGNORECASE)
METADATA = re.compile(
    r"<title[^>]{0,200}>[^<]{0,2000}(?:</title\s*>|\Z)|<(?:meta|link|base)\b[^>]{0,4000}>", re.IGNORECASE
)
UNSPOKEN = re.compile(r"<(script|style|svg|noscript|template)\b", re.IGNORECASE)
TITLE = re.compile(r"<title[^>]{0,200}>([^<]{1,500})</title", re.IGNORECASE)
PICTURE = re.compile(r"\\?!\[([^\[\]\n]{0,500})\]\([^)\n]{0,2000}\)")
LINK = re.compile(r"(?<!!)\[([^\[\]\n]{1,500})\]\([^)\n]{0,2000}\)")
ESCAPED = re.compile(r"\\([#!.~\-+=_*>\[\](){}<&])")
PADDING = re.compile(r"[ \t]{2,}")
RULE = re.compile(r"\|(?:\s*:?-+:?\s*\|)+")
BLANK_LINES = re.compile(r"\n{3,}")
DEEPEST = 50  # elements within each other; at 64 the converter leaves out, without a word, what lies deeper
TAG = re.compile(r"<!--|<(/?)([a-z][a-z0-9]*)\b[^<>]{0,4000}>", re.IGNORECASE)
VOID = re.compile("area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr")
INLINE = re.compile("a|abbr|b|bdi|bdo|big|cite|code|em|font|i|mark|q|s|small|span|strong|sub|sup|tt|u")
ENDED_BY_THE_NEXT = re.compile("p|li|dt|dd|tr|td|th|option")


def kreuzberg_config(**options: Any) -> Any:
    """No cache, no OCR, no archives in archives: what a child process with limits shall do for one file."""
    import kreuzberg

    config: Any = kreuzberg.ExtractionConfig(use_cache=False, enable_quality_processing=False, **options)
    config.disable_ocr = True
    config.max_archive_depth = 0
    return config


def html_to_markdown(html: str) -> str:
    """The words and the structure of a page, without its head, its links' addresses and its pictures."""
    import kreuzberg

    config = kreuzberg_config(
        output_format="markdown",
        html_options={
            "extract_metadata": False,
            "escape_misc": False,
            "strip_tags": ["a", "img", "svg", "picture"],
            "preprocessing": {
                "enabled": True,
                "preset": "aggressive",
                "remove_navigation": True,
                "remove_forms": True,
            },
        },
    )
    result = kreuzberg.extract_bytes_sync(_shallow(without_head(html)).encode(), "text/html", config)
    return tidy(result.content)


def html_title(html: str) -> str | None:
    import html as entities

    found = TITLE.search(html)
    return " ".join(entities.unescape(found[1]).split()) if found else None


def without_head(html: str) -> str:
    """Without metadata, which would come back as a preamble, and without what a reader never sees."""
    if (head := HEAD.search(html)) and (end := HEAD_END.search(html, head.end())):
        html = html[: head.start()] + html[end.start() if end[0].lower() == "<body" else end.end() :]
    return METADATA.sub("", _without_unspoken(html))


def _shallow(html: str) -> str:
    """With an end for each element that the next one ends, and without the tags of those that lie too deep: their
    words then belong to the deepest one that is left.
    """
    kept: list[str] = []
    opened: list[str] = []
    counts: Counter[str] = Counter()
    at = commented = 0
    for tag in TAG.finditer(html):
        if tag.start() < commented:
            continue
        if tag[2] is None:
            commented = html.find("-->", tag.end())
            if commented < 0:
                break
            continue
        name = tag[2].lower()
        if VOID.fullmatch(name) or tag[0].endswith("/>"):
            continue
        depth = len(opened)
        if not tag[1]:
            if opened and opened[-1] == name and ENDED_BY_THE_NEXT.fullmatch(name):
                depth -= 1
                kept += (html[at : tag.start()], f"</{name}>" if depth < DEEPEST else "")
                at = tag.start()
            else:
                opened.append(name)
                counts[name] += 1
        elif counts[name]:
            while (last := opened.pop()) != name:
                counts[last] -= 1
            counts[name] -= 1
            depth = len(opened)
        if depth >= DEEPEST:
            kept += (html[at : tag.start()], "" if INLINE.fullmatch(name) else "<br>")
            at = tag.end()
    return "".join((*kept, html[at:]))


def _without_unspoken(html: str) -> str:
    """In one pass: an element that is never closed hides all that follows, as in a browser."""
    kept, at = [], 0
    while opened := UNSPOKEN.search(html, at):
        kept.append(html[at : opened.start()])
        closed = re.compile(rf"</{opened[1]}\s{{0,20}}>", re.IGNORECASE).search(html, opened.end())
        if closed is None:
            return "".join(kept)
        at = closed.end()
    return "".join((*kept, html[at:]))


def tidy(markdown: str) -> str:
    """Without escapes, addresses and padding, which cost room in a chunk and say nothing."""
    text = LINK.sub(r"\1", PICTURE.sub(r"\1", markdown))
    return BLANK_LINES.sub("\n\n", "\n".join(_tidy_lines(text))).strip()


def _tidy_lines(text: str) -> list[str]:
    lines: list[str] = []
    in_table = fenced = False
    for raw in text.split("\n"):
        fenced ^= raw.startswith("```")
        if fenced or "$" in raw:  # code, and formulas, whose backslashes mean something
            lines.append(raw)
            continue
        line = ESCAPED.sub(r"\1", raw).rstrip()
        if not line.startswith("|"):
            in_table = False
        elif RULE.fullmatch(line) and lines and lines[-1].startswith("|"):
            in_table = True
            lines[-1] = PADDING.sub(" ", lines[-1])
            line = "| --- " * (line.count("|") - 1) + "|"
        lines.append(PADDING.sub(" ", line) if in_table else line)
    return lines


def table(rows: list[list[str]]) -> str:
    """A Markdown table; a cell's own lines and bars are made harmless, short rows are filled up."""
    width = max(map(len, rows), default=0)
    lines = [
        "| "
        + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in row + [""] * (width - len(row)))
        + " |"
        for row in rows
        if any(cell.strip() for cell in row)
    ]
    if not lines or not width:
        return ""
    return "\n".join(_tidy_lines("\n".join([lines[0], "| --- " * width + "|", *lines[1:]])))
