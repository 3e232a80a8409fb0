"""Sees at start whether a PostgreSQL is fit for us, and says in one sentence what is wrong."""

from __future__ import annotations


class DatabaseProblem(Exception):
    """The database cannot serve us; the text is one Chinese sentence that says why and how to mend it."""
