"""Which messages the learner may stand on: one condition, in every statement that reads or counts them."""

from __future__ import annotations

LEARNABLE = """
    m.kind = 'message' AND m.text <> '' AND m.withdrawn_at IS NULL AND NOT (m.is_self OR m.is_robot OR m.is_command)
    AND NOT EXISTS (SELECT FROM members p WHERE p.conversation_id = m.conversation_id AND p.user_id = m.sender_id AND p.is_robot)
    AND NOT EXISTS (SELECT FROM unlearned u WHERE u.conversation_id = m.conversation_id AND u.user_id = m.sender_id)
"""
"""Of a message ``m``: said in words, not withdrawn, by a person who may be learned from, and no command."""
