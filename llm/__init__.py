"""Chat models by role, structured calls, usage and budgets."""

import os

# LangChain would report every prompt to a tracing service where the machine's environment says so: chats stay here.
for _name in ("LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2", "LANGSMITH_TRACING", "LANGCHAIN_TRACING"):
    os.environ[_name] = "false"
