"""What a knowledge base wants done with its documents."""

from pydantic import BaseModel, ConfigDict, Field


class KnowledgeBaseSettings(BaseModel):
    """Stored with the base as JSON. A stage that is switched off opens no slots."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    read_pictures: bool = True
    ask_questions: bool = True
    question_count: int = Field(3, ge=1, le=10)
    extract_graph: bool = True
    auto_tag: bool = False
