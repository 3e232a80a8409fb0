"""What stands around the code and rots unseen: locks, the README's lines, Docker files, the CI script."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import BaseModel, Field

from plugins.admin import health
from settings import ROOT, Settings

LOCKS = ["requirements.lock", "requirements-dev.lock"]
SOURCES = ["requirements.in", "requirements-dev.in"]


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _requirements(name: str) -> list[str]:
    lines = [line.split("#")[0].strip() for line in _read(name).splitlines()]
    return [line for line in lines if line and not line.startswith("-")]


def _pins(lock: str) -> dict[str, str]:
    pins = re.findall(r"^([A-Za-z0-9][\w.-]*)==(\S+)", _read(lock), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pins}


@pytest.mark.parametrize("name", [*LOCKS, *SOURCES])
def test_no_index_and_no_address_stands_in_a_requirements_file(name: str) -> None:
    for line in _read(name).splitlines():
        assert "://" not in line
        assert not re.match(r"\s*(-i\b|--(index|extra-index|find-links|trusted))", line)


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_has_hashes(lock: str) -> None:
    entries = re.split(r"\n(?=[A-Za-z0-9])", _read(lock).strip())
    assert len(entries) > 50
    for entry in entries:
        assert re.match(r"[A-Za-z0-9][\w.-]*==\S+", entry), entry[:80]
        assert "--hash=sha256:" in entry, entry[:80]


@pytest.mark.parametrize(("source", "lock"), [("requirements.in", LOCKS[0]), ("requirements-dev.in", LOCKS[1])])
def test_the_lock_holds_what_was_asked_for(source: str, lock: str) -> None:
    pins = _pins(lock)
    for line in _requirements(source):
        asked = Requirement(line)
        assert asked.specifier.contains(pins[canonicalize_name(asked.name)]), line


def test_the_install_line_is_one_line_and_brings_its_own_starter() -> None:
    lines = _read("README.md").splitlines()
    assert lines.count("pip install -r requirements.lock && nb run") == 1
    assert lines.count("pip install -r requirements.lock; nb run") == 1
    assert lines.count("pip install -r requirements-dev.lock && pytest") == 1
    assert "nb-cli" in _pins("requirements.lock")
    assert "-r requirements.in" in _read("requirements-dev.in").splitlines()


def test_the_readme_names_only_settings_that_exist() -> None:
    known = {name.upper() for name in Settings.model_fields} | {"POSTGRES_PASSWORD"}
    named = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", _read("README.md")))
    named |= set(re.findall(r"^([A-Z_]+)=", _read("README.md"), re.MULTILINE))
    assert {"ENABLED_GROUPS", "LLM_BASE_URL", "ONEBOT_ACCESS_TOKEN"} <= named
    assert named <= known


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/architecture.md"])
def test_links_between_pages_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#\s]+)\)", _read(page))
    for link in links:
        if "://" not in link:
            assert ((ROOT / page).parent / link).exists(), link


def test_git_ignores_secrets_and_data() -> None:
    ignored = _read(".gitignore").splitlines()
    assert ".env" in ignored
    assert "/data/" in ignored
    assert ".env.prod" not in ignored


def test_the_version_is_the_one_that_the_changelog_knows() -> None:
    version = tomllib.loads(_read("pyproject.toml"))["project"]["version"]
    assert version == health.VERSION
    assert f"## [{version}]" in _read("CHANGELOG.md")


class Service(BaseModel):
    """A service of compose.yaml, as far as it matters here."""

    image: str = ""
    build: str = ""
    environment: dict[str, str] = Field(default_factory=dict)
    env_file: list[str] = Field(default_factory=list)
    ports: list[str] = Field(default_factory=list)
    volumes: list[str] = Field(default_factory=list)
    depends_on: dict[str, dict[str, str]] = Field(default_factory=dict)
    healthcheck: dict[str, object] | None = None


class Compose(BaseModel):
    """compose.yaml."""

    services: dict[str, Service]
    volumes: dict[str, object]


@pytest.fixture(scope="module")
def compose() -> Compose:
    """The parsed compose file."""
    return Compose.model_validate(yaml.safe_load(_read("compose.yaml")))


def test_compose_sets_only_settings_that_exist(compose: Compose) -> None:
    bot = compose.services["bot"]
    assert {name.lower() for name in bot.environment} <= set(Settings.model_fields)
    plain = {name.lower(): re.sub(r"\$\{\w+:\?[^}]*\}", "abc", value) for name, value in bot.environment.items()}
    settings = Settings.model_validate(plain)
    assert settings.host == "0.0.0.0"
    assert settings.onebot_access_token == "abc"
    assert settings.database_url == "postgresql://qunyou:abc@db:5432/qunyou"


def test_compose_refuses_to_start_without_its_secrets(compose: Compose) -> None:
    assert compose.services["bot"].environment["ONEBOT_ACCESS_TOKEN"].startswith("${ONEBOT_ACCESS_TOKEN:?")
    assert compose.services["db"].environment["POSTGRES_PASSWORD"].startswith("${POSTGRES_PASSWORD:?")


def test_compose_waits_for_what_can_be_waited_for(compose: Compose) -> None:
    for name, service in compose.services.items():
        for other, how in service.depends_on.items():
            if how["condition"] == "service_healthy":
                assert compose.services[other].healthcheck or compose.services[other].build == ".", name
    assert compose.services["bot"].depends_on["db"] == {"condition": "service_healthy"}


def test_compose_keeps_data_in_named_volumes(compose: Compose) -> None:
    mounts = [volume.split(":") for service in compose.services.values() for volume in service.volumes]
    assert {name for name, _ in mounts} == set(compose.volumes)
    targets = {target for _, target in mounts}
    assert compose.services["bot"].environment["DATA_DIR"] in targets
    assert "/var/lib/postgresql" in targets


def test_compose_opens_ports_to_this_machine_only(compose: Compose) -> None:
    ports = [port for service in compose.services.values() for port in service.ports]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def _dockerfile() -> list[list[str]]:
    text = _read("Dockerfile").replace("\\\n", " ")
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def test_the_image_holds_every_room_and_file_it_needs() -> None:
    copied = {part for words in _dockerfile() if words[0] == "COPY" and "--from" not in words[1] for part in words[1:-1]}
    packages = tomllib.loads(_read("pyproject.toml"))["tool"]["importlinter"]["root_packages"]
    wanted = {f"{name}.py" if (ROOT / f"{name}.py").exists() else name for name in packages}
    assert wanted | {"bot.py", "settings.py", "pyproject.toml", ".env.prod", "requirements.lock"} == copied
    for name in copied:
        assert (ROOT / name).exists(), name


def test_the_image_runs_without_root_and_says_whether_it_is_healthy() -> None:
    words = _dockerfile()
    names = [line[0] for line in words]
    user = next(line[1] for line in words if line[0] == "USER")
    assert user not in {"root", "0"}
    assert names.index("USER") < names.index("CMD")
    check = next(line for line in words if line[0] == "HEALTHCHECK")
    command = json.loads(" ".join(check[check.index("CMD") + 1 :]))
    assert "/api/health" in command[-1]
    compile(command[-1], "HEALTHCHECK", "exec")
    assert ["VOLUME", "/data"] in words


def test_what_the_image_copies_is_sent_to_the_builder() -> None:
    allowed = {line[1:] for line in _read(".dockerignore").splitlines() if line.startswith("!")}
    copied = {part for words in _dockerfile() if words[0] == "COPY" and "--from" not in words[1] for part in words[1:-1]}
    assert allowed == copied


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_the_ci_script_is_bash_and_may_be_run(tmp_path: Path) -> None:
    script = ROOT / ".ci" / "run"
    assert script.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")
    listed = subprocess.run(
        ["git", "ls-files", "-s", ".ci/run"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=30
    )
    assert listed.returncode != 0 or not listed.stdout or listed.stdout.startswith("100755")
    assert subprocess.run(["bash", "-n", str(script)], cwd=tmp_path, check=False, timeout=30).returncode == 0
