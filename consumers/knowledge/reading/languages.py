"""Which language a text is in, cheaply: by its script, else by kreuzberg's trigrams."""

import re

from consumers.knowledge.reading.rendering import kreuzberg_config

SAMPLE_CHARS = 4000
FEWEST_LETTERS = 12
SCRIPTS = {
    "ja": re.compile("[\u3040-\u30ff]"),
    "ko": re.compile("[\uac00-\ud7af]"),
    "zh": re.compile("[\u4e00-\u9fff]"),
}
LEAST_OF_SCRIPT = 0.1  # of the letters: kana are a part of Japanese, and English words a part of most texts
BY_ENCODING = {
    "cp932": "ja",
    "euc_jp": "ja",
    "iso2022_jp": "ja",
    "euc_kr": "ko",
    "gb18030": "zh",
    "big5": "zh",
}
TWO_LETTERS = dict(
    re.findall(
        r"(\w{3}):(\w\w)",
        "afr:af aka:ak amh:am ara:ar aze:az bel:be ben:bn bul:bg cat:ca ces:cs cmn:zh dan:da deu:de ell:el eng:en"
        " epo:eo est:et fin:fi fra:fr guj:gu heb:he hin:hi hrv:hr hun:hu hye:hy ind:id ita:it jav:jv jpn:ja kan:kn"
        " kat:ka khm:km kor:ko lat:la lav:lv lit:lt mal:ml mar:mr mkd:mk mya:my nep:ne nld:nl nob:no ori:or pan:pa"
        " pes:fa pol:pl por:pt ron:ro rus:ru sin:si slk:sk slv:sl sna:sn spa:es srp:sr swe:sv tam:ta tel:te tgl:tl"
        " tha:th tuk:tk tur:tr ukr:uk urd:ur uzb:uz vie:vi yid:yi zul:zu",
    )
)


def detect(text: str, encoding: str = "utf-8") -> str | None:
    """An ISO 639 code, None where the text is too short or too mixed to tell. `encoding` is a hint of its origin."""
    import kreuzberg

    middle = max(0, len(text) // 2 - SAMPLE_CHARS // 2)
    sample = text[:SAMPLE_CHARS] + "\n" + text[middle : middle + SAMPLE_CHARS]
    letters = sum(map(str.isalpha, sample))
    if encoding in BY_ENCODING:
        return BY_ENCODING[encoding]
    for language, script in SCRIPTS.items():
        if len(script.findall(sample)) > max(1, LEAST_OF_SCRIPT * letters):
            return language
    if letters < FEWEST_LETTERS:
        return None
    config = kreuzberg_config(language_detection=kreuzberg.LanguageDetectionConfig(enabled=True))
    found = kreuzberg.extract_bytes_sync(sample.encode(), "text/plain", config).detected_languages
    return TWO_LETTERS.get(found[0], found[0]) if found else None
