"""The schemas that services are sent: strict ones, of words that JSON Schema knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from pydantic import BaseModel

from db.models import Json
from learner.claim_answers import ClaimsAnswer
from learner.topic_answers import AssignmentAnswer, SummaryAnswer
from llm.structured import plan

KNOWN = {
    "$defs", "$ref", "type", "properties", "required", "additionalProperties", "items", "enum", "description",
    "minimum", "maximum", "minItems", "maxItems",
}  # fmt: skip


def words(node: Json) -> Iterator[str]:
    """The keywords of a schema, names of fields left out."""
    if isinstance(node, Mapping):
        for key, inner in node.items():
            yield key
            named = key in {"properties", "$defs"} and isinstance(inner, Mapping)
            for part in inner.values() if named and isinstance(inner, Mapping) else [inner]:
                yield from words(part)


@pytest.mark.parametrize("schema", [AssignmentAnswer, SummaryAnswer, ClaimsAnswer])
def test_a_strict_service_understands_the_whole_schema(schema: type[BaseModel]) -> None:
    call = plan("task", schema, "json_schema")
    assert call.strict
    assert set(words(call.schema)) <= KNOWN
