"""``/api/embedding``: which vectors there are, and how far they are."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, Field

from llm.embedding.types import State
from plugins.admin.access import View
from plugins.admin.errors import ChineseRoute

router = APIRouter(route_class=ChineseRoute, prefix="/embedding", tags=["向量"])


class EmbeddingReport(BaseModel):
    """The embedding in use, and how many texts have a vector of it."""

    state: State = Field(description="off：没有向量；starting：还没用到；ok；down：没有正常回答")
    model: str
    dim: int | None = Field(description="维数；还不知道为 null")
    memories_total: int
    memories_done: int
    messages_total: int
    messages_done: int
    detail: str = Field(description="说明，中文")


@router.get("", summary="向量模型的状态和进度")
async def read_embedding(view: View) -> EmbeddingReport:
    """Tell which embedding model is in use, whether it answers, and how far the background is with it."""
    return EmbeddingReport.model_validate(await view.embeddings.probe(), from_attributes=True)
