# 群友。数据在 /data；设置来自环境变量。通常与 compose.yaml 一起用。
FROM python:3.12-slim AS packages
WORKDIR /build
COPY requirements.lock ./
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir --disable-pip-version-check --only-binary :all: --require-hashes -r requirements.lock

FROM python:3.12-slim
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    LANG=C.UTF-8 \
    DATA_DIR=/data \
    PORT=8080
RUN useradd --create-home --uid 10001 qunyou \
    && install -d -o qunyou -g qunyou /data
COPY --from=packages /venv /venv
WORKDIR /app
COPY pyproject.toml settings.py bot.py .env.prod ./
COPY db ./db
COPY llm ./llm
COPY persona ./persona
COPY agent ./agent
COPY learner ./learner
COPY plugins ./plugins
USER qunyou
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f\"http://127.0.0.1:{os.environ['PORT']}/api/health\", timeout=4)"]
CMD ["python", "bot.py"]
