"""Remembering: claims with evidence go in, what fits a question comes out. Agent and learner share it."""
