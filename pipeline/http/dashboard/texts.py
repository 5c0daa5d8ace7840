"""What the dashboard says, in the reader's language: sentences by a key, numbers, ages and moments."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pipeline.clock import DAY_MS

Text = str | tuple[str, ...]
"""A sentence, or its plural forms chosen by `n`."""

FOLDER: Final = Path(__file__).parent / "words"

SECOND: Final = 1000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE


@dataclass(frozen=True, slots=True)
class Language:
    """One language. Called with a key and what the sentence is about; an unknown key is a KeyError."""

    code: str
    name: str
    texts: Mapping[str, Text]
    form: Callable[[int], int]
    group: str
    """What parts thousands."""
    months: tuple[str, ...]

    def __call__(self, key: str, **about: Any) -> str:
        text = self.texts[key]
        if isinstance(text, tuple):
            text = text[self.form(int(about["n"]))]
        if not about:
            return text
        said = {name: self.number(v) if isinstance(v, int) else v for name, v in about.items()}
        return text.format_map(said)

    def sentence(self, key: str, params: Mapping[str, Any], now: int) -> str:
        """Return a sentence about lengths of time (`…_ms`) and a moment (`until`), in words; `key` has a form for `more`."""
        about = dict(params)
        if about.pop("more", False) and self.has(f"{key}_more"):
            key = f"{key}_more"
        for name in [name for name in about if name.endswith("_ms")]:
            about[name.removesuffix("_ms")] = self.age(about.pop(name))
        if "until" in about:
            left = int(about["until"]) - now
            about["until"] = self("in", age=self.age(left)) if left > 0 else self("due")
        return self(key, **about)

    def has(self, key: str) -> bool:
        """Whether there is such a sentence: a code that came from elsewhere may be newer than this dashboard."""
        return key in self.texts

    def code_of(self, group: str, code: str) -> str:
        """Return the words for a code, the code itself where there are none."""
        key = f"{group}.{code}"
        return self(key) if key in self.texts else code

    def refusal(self, code: str, error: str) -> str:
        """Return why something was refused: as it was said, in English, or what its code means."""
        return error if self.code == "en" or not self.has(f"refusal.{code}") else self(f"refusal.{code}")

    def number(self, value: float) -> str:
        """Return a count with its thousands parted."""
        return f"{value:,.0f}".replace(",", self.group)

    def percent(self, share: float) -> str:
        """Return a share of 0 … 1."""
        return f"{share * 100:.0f}\u00a0%" if self.code == "ru" else f"{share * 100:.0f}%"

    def age(self, milliseconds: float) -> str:
        """Return a length of time as a person says it, to two units."""
        ms = max(0, round(milliseconds))
        if ms < 90 * SECOND:
            return self._part(round(ms / SECOND), "s")
        if ms < 90 * MINUTE:
            return self._part(ms // MINUTE, "min")
        if ms < 2 * DAY_MS:
            minutes = ms % HOUR // MINUTE
            hours = self._part(ms // HOUR, "h")
            return f"{hours} {self._part(minutes, 'min')}" if ms < 10 * HOUR and minutes else hours
        return self._part(ms // DAY_MS, "d")

    def span(self, milliseconds: float) -> str:
        """Return a measured length of time: short ones to the millisecond."""
        if milliseconds < SECOND:
            return self._part(round(milliseconds), "ms")
        if milliseconds < 10 * SECOND:
            seconds = f"{milliseconds / SECOND:.1f}"
            return f"{seconds.replace('.', ',') if self.code == 'ru' else seconds}\u00a0{self('unit.s')}"
        return self.age(milliseconds)

    def size(self, count: int) -> str:
        """Return bytes in the unit that suits them."""
        value, unit = float(count), "b"
        for larger in ("kb", "mb", "gb"):
            if value < 1000:
                break
            value, unit = value / 1000, larger
        text = f"{value:.1f}" if 0 < value < 10 and unit != "b" else f"{value:.0f}"
        return f"{text.replace('.', ',') if self.code == 'ru' else text}\u00a0{self('unit.' + unit)}"

    def moment(self, milliseconds: int, *, seconds: bool = True) -> str:
        """Return a moment in UTC."""
        at = datetime.fromtimestamp(milliseconds / 1000, UTC)
        clock = at.strftime("%H:%M:%S" if seconds else "%H:%M")
        return f"{at.day}\u00a0{self.months[at.month - 1]}, {clock}\u00a0UTC"

    def _part(self, count: int, unit: str) -> str:
        return f"{count}\u00a0{self('unit.' + unit)}"


def _english(n: int) -> int:
    return 0 if n == 1 else 1


def _russian(n: int) -> int:
    if n % 10 == 1 and n % 100 != 11:
        return 0
    return 1 if 2 <= n % 10 <= 4 and not 12 <= n % 100 <= 14 else 2


_MONTHS_EN: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS_RU: Final = ("янв", "фев", "мар", "апр", "мая", "июн", "июл", "авг", "сен", "окт", "ноя", "дек")


def read(code: str) -> Mapping[str, Text]:
    """Return what is said in a language: a file of lines ``key = text``, or ``key = form | form | form``."""
    lines = (FOLDER / f"{code}.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.partition(" = ") for line in lines if line and not line.startswith("#"))
    texts = {key: tuple(text.split(" | ")) for key, _, text in pairs}
    return MappingProxyType({key: forms if len(forms) > 1 else forms[0] for key, forms in texts.items()})


LANGUAGES: Final[Mapping[str, Language]] = MappingProxyType(
    {
        "en": Language("en", "English", read("en"), _english, ",", _MONTHS_EN),
        "ru": Language("ru", "Русский", read("ru"), _russian, "\u202f", _MONTHS_RU),
    }
)


def language(chosen: str | None, accepted: str) -> Language:
    """Return the language that was chosen, else the first we know of those that a browser accepts, else English."""
    if chosen is not None and chosen in LANGUAGES:
        return LANGUAGES[chosen]
    for part in accepted.split(","):
        if (code := part.strip()[:2].lower()) in LANGUAGES and ";q=0" not in part.replace("q=0.", ""):
            return LANGUAGES[code]
    return LANGUAGES["en"]


_UNSEEN: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Return a text whose control characters, and those that turn the direction of writing, are seen instead of obeyed."""
    return _UNSEEN.sub(_seen, text)


def _seen(found: re.Match[str]) -> str:
    code = ord(found.group())
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else f"⟨U+{code:04X}⟩"
