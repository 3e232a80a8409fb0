"""Models over a fake service, as the tests of the models open them."""

from tests.llm.conftest import book, open_models

__all__ = ["book", "open_models"]
