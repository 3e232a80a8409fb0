"""Where recall looks, as parameters of its statements."""

from __future__ import annotations

from collections.abc import Sequence

from db.memory_models import Scope

IN_SCOPE = """
    (%(anyone)s OR (m.subject_kind = 'member' AND m.subject_id = ANY(%(members)s::bigint[]))
                OR (m.subject_kind = ANY(%(others)s::text[]) AND m.subject_id = 0))
    AND (%(any_kind)s OR m.kind = ANY(%(kinds)s::text[]))
    AND m.status = ANY(%(statuses)s::text[])
    AND (%(withdrawn)s OR m.archived_why IS DISTINCT FROM 'withdrawn')
"""
"""The condition of a memory ``m`` beside its conversation."""

ScopeValue = bool | Sequence[int] | Sequence[str]


def scope_values(scope: Scope) -> dict[str, ScopeValue]:
    """Give the parameters of IN_SCOPE, and ``conversations``."""
    subjects = scope.subjects or ()
    return {
        "conversations": list(scope.conversation_ids),
        "anyone": scope.subjects is None,
        "members": [subject.user_id for subject in subjects if subject.kind == "member"],
        "others": [subject.kind for subject in subjects if subject.kind != "member"],
        "any_kind": scope.kinds is None,
        "kinds": list(scope.kinds or ()),
        "statuses": list(scope.statuses),
        "withdrawn": scope.withdrawn,
    }
