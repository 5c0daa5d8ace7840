"""Files that are plain text, as Markdown: tables, records, notebooks, and prose as it is."""

import base64
import binascii
import csv
import io
import json
from typing import Any

from consumers.knowledge.reading.pictures import Found
from consumers.knowledge.reading.rendering import table

OUTPUT_CHARS = 4000  # of one notebook cell; what is printed in a loop says nothing more
FIELD_CHARS = 1_000_000
Converted = tuple[str, list[Found], list[str]]  # Markdown, pictures, warnings


def convert(text: str, mime: str) -> Converted:
    """What `text` of the type `mime` says. What does not keep to its type is taken as plain text, with a warning."""
    try:
        match mime:
            case "text/csv" | "text/tab-separated-values":
                return _csv(text, "\t" if mime.endswith("tab-separated-values") else None), [], []
            case "application/json":
                return _json(text), [], []
            case "application/x-ndjson":
                return "\n\n".join(_json(line) for line in text.splitlines() if line.strip()), [], []
            case "application/x-ipynb+json":
                markdown, found = _notebook(json.loads(text))
                return markdown, found, []
    except (ValueError, RecursionError, csv.Error, TypeError, KeyError, AttributeError):
        return text, [], [f"the file does not keep to its type ({mime}) and was taken as plain text"]
    return text, [], []


def _csv(text: str, delimiter: str | None) -> str:
    csv.field_size_limit(FIELD_CHARS)
    if delimiter is None:
        first = text.lstrip("\n").split("\n", 1)[0]
        delimiter = max(",;\t|", key=first.count)
    return table(list(csv.reader(io.StringIO(text), delimiter=delimiter)))


def _json(text: str) -> str:
    """One value a line; nested ones by their path, so that a line can be read by itself."""
    lines: list[str] = []
    _flatten(json.loads(text), "", lines)
    return "\n".join(lines)


def _flatten(value: Any, path: str, lines: list[str]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _flatten(item, f"{path}.{key}" if path else str(key), lines)
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for number, item in enumerate(value, 1):
            _flatten(item, f"{path}[{number}]", lines)
    else:
        said = ", ".join(map(_said, value)) if isinstance(value, list) else _said(value)
        lines.append(f"{path}: {said}" if path else said)


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _notebook(notebook: dict[str, Any]) -> tuple[str, list[Found]]:
    language = notebook.get("metadata", {}).get("kernelspec", {}).get("language", "python")
    parts: list[str] = []
    found: list[Found] = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"]).strip()
        if source:
            parts.append(source if cell["cell_type"] == "markdown" else f"```{language}\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            printed = "".join(output.get("text", data.get("text/plain", ""))).strip()
            if printed:
                parts.append(f"```\n{printed[:OUTPUT_CHARS]}\n```")
            found += [
                Found(mime, content)
                for mime in ("image/png", "image/jpeg")
                if (content := _bytes(data.get(mime)))
            ]
    return "\n\n".join(parts), found


def _bytes(encoded: Any) -> bytes:
    try:
        return base64.b64decode("".join(encoded or ""))
    except binascii.Error:
        return b""
