"""What can go wrong with a model. Texts are Chinese, fit for the log and the page, and never hold a key."""

from __future__ import annotations


class ModelError(Exception):
    """A model call did not give a usable answer. ``reason`` is one Chinese sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ModelUnavailable(ModelError):
    """The service did not answer usably: retries and the fallback model are exhausted."""


class BudgetExhausted(ModelError):
    """The conversation used up its model calls, or the learner its tokens, of today; nothing was sent to the service."""


class ContextTooLong(ModelError):
    """The request is longer than the model's context; a shorter one may pass."""


class StructuredFailed(ModelError):
    """A structured call's answer did not fit its schema, also after one repair attempt."""


class ModelRefused(ModelError):
    """The service refused the request (4xx): wrong key, unknown model, bad parameter. Carries its own words."""


class EmbeddingUnavailable(ModelError):
    """Texts have no vectors now: the service is away or gave nothing usable. Recall goes on without them."""
