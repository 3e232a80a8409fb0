"""Made-up groups and chat with a fixed seed: the same seed gives the same words, numbers and order."""
