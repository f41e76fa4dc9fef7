"""Values of a broker's properties that stand elsewhere (KIP-421): found, hidden, and an error where they are not there."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from ottla.base import ConfigError
from ottla.config import BrokerConfig, ProviderError, TopicConfig, placeholders, providers_of

KINDS = "org.apache.kafka.common.config.provider."
PROVIDERS = "\n".join(
    (
        "config.providers=file,env,dir",
        *(
            f"config.providers.{name}.class={KINDS}{kind}ConfigProvider"
            for name, kind in {"file": "File", "dir": "Directory", "env": "EnvVar"}.items()
        ),
        "",
    )
)


def secrets(folder: Path, text: str = "key=hunter2\nparts=7\n") -> Path:
    path = folder / "secrets.properties"
    path.write_text(text)
    return path


def test_values_are_looked_up_in_files_folders_and_the_environment(tmp_path: Path) -> None:
    path = secrets(tmp_path)
    text = (
        f"ssl.key.password=${{file:{path}:key}}\nsuper.users=User:a;${{env:MORE}}\n"
        f"ssl.truststore.password=${{dir:{tmp_path}:{path.name}}}\nnum.partitions=${{file:{path}:parts}}\n"
    )
    config = BrokerConfig.load(PROVIDERS + text, environment={"MORE": "User:b"})
    assert config.static["ssl.key.password"] == "hunter2"
    assert config.static["super.users"] == "User:a;User:b"
    assert config.static["ssl.truststore.password"] == path.read_text()
    assert config.settings.num_partitions == 7
    assert not any("unknown" in each or "config.providers" in each for each in config.warnings)


def test_providers_may_come_from_the_environment() -> None:
    environment = {
        "KAFKA_CONFIG_PROVIDERS": "env",
        "KAFKA_CONFIG_PROVIDERS_ENV_CLASS": f"{KINDS}EnvVarConfigProvider",
        "KAFKA_SSL_KEY_PASSWORD": "${env:PASS}",
        "PASS": "hunter2",
    }
    assert BrokerConfig.load("", environment=environment).static["ssl.key.password"] == "hunter2"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("${file:/nowhere/s.properties:key}", "Could not read properties from file /nowhere/s.properties"),
        ("${file:FILE:other}", "FILE:other} is not there"),
        ("${env:OTHER}", "${env:OTHER} is not there"),
        ("${dir:/nowhere:key}", "${dir:/nowhere:key} is not there"),
    ],
)
def test_what_is_not_there_is_an_error_that_names_it(tmp_path: Path, value: str, words: str) -> None:
    path = str(secrets(tmp_path))
    with pytest.raises(ConfigError) as raised:
        BrokerConfig.load(f"{PROVIDERS}ssl.key.password={value.replace('FILE', path)}")
    assert words.replace("FILE", path) in str(raised.value)
    assert str(raised.value).startswith("ssl.key.password: ")


def test_what_was_looked_up_is_shown_to_nobody(tmp_path: Path) -> None:
    path = secrets(tmp_path, "host=internal-name\nhours=42\n")
    text = f"{PROVIDERS}broker.rack=${{file:{path}:host}}\nlog.retention.ms=${{file:{path}:hours}}"
    config = BrokerConfig.load(text)
    (rack,) = config.entries(["broker.rack"])
    assert rack.value is None and rack.sensitive and [each.value for each in rack.synonyms] == [None]
    (retention,) = TopicConfig({}, config).entries(["retention.ms"])
    assert retention.value is None and retention.sensitive
    assert retention.synonyms[0].value is None and retention.synonyms[0].name == "log.retention.ms"
    (own,) = TopicConfig({"retention.ms": "5"}, config).entries(["retention.ms"])
    assert own.value == "5" and "42" not in str(own)


def test_an_error_about_a_value_that_was_looked_up_does_not_show_it(tmp_path: Path) -> None:
    path = secrets(tmp_path)
    with pytest.raises(ConfigError) as raised:
        BrokerConfig.load(f"{PROVIDERS}num.partitions=${{file:{path}:key}}")
    assert "hunter2" not in f"{raised.value} {raised.value.value} {raised.value.__cause__}"
    assert "num.partitions" in str(raised.value)


def test_a_file_that_is_no_properties_shows_nothing_of_itself(tmp_path: Path) -> None:
    path = secrets(tmp_path, "key=hunter2\\u00zz\n")
    with pytest.raises(ConfigError) as raised:
        BrokerConfig.load(f"{PROVIDERS}ssl.key.password=${{file:{path}:key}}")
    assert "hunter2" not in str(raised.value) and "not written as properties are" in str(raised.value)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="is no regular file"):
        BrokerConfig.load(f"{PROVIDERS}ssl.key.password=${{file:{tmp_path}/pipe:key}}")


def test_a_provider_that_is_not_configured_leaves_the_text() -> None:
    assert BrokerConfig.load("broker.rack=${file:/x:y}").static["broker.rack"] == "${file:/x:y}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("config.providers=vault", "config.providers.vault.class"),
        ("config.providers=v\nconfig.providers.v.class=com.example.Vault", "com.example.Vault"),
        (
            f"config.providers=e\nconfig.providers.e.class={KINDS}EnvVarConfigProvider\nconfig.providers.e.param.allowlist.pattern=(",
            "not a regular expression",
        ),
        (
            f"config.providers=f\nconfig.providers.f.class={KINDS}FileConfigProvider\nconfig.providers.f.param.allowed.paths=/nowhere",
            "Path does not exist",
        ),
    ],
)
def test_providers_that_cannot_be_are_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        BrokerConfig.load(text)
    assert words in str(raised.value)


def test_a_dynamic_password_may_stand_elsewhere_and_nothing_else_may(tmp_path: Path) -> None:
    config = BrokerConfig.load(PROVIDERS)
    place = f"${{file:{secrets(tmp_path)}:key}}"
    key = "listener.name.ssl.ssl.key.password"
    changed = config.with_dynamic(default={}, own={key: place, "listener.name.ssl.ssl.keystore.location": place})
    assert changed.dynamic[key] == "hunter2"
    assert changed.dynamic["listener.name.ssl.ssl.keystore.location"] == place
    gone = config.with_dynamic(default={}, own={key: "${env:GONE}"})
    assert key not in gone.dynamic and "${env:GONE} is not there" in gone.warnings[0]
    with pytest.raises(ConfigError, match="is not there"):
        config.look_up({key: "${env:GONE}"})


def lookup(kind: str, place: str, **settings: str) -> str | None:
    """What a provider finds whose settings the operator has given."""
    given = {"config.providers": "p", "config.providers.p.class": f"{KINDS}{kind}ConfigProvider"}
    given |= {f"config.providers.p.param.{name.replace('_', '.')}": value for name, value in settings.items()}
    environment = {"OPEN_A": "open", "CLOSED": "closed", "XOPEN_A": "closed", "OPEN_A\nX": "closed"}
    [found] = placeholders({"key": f"${{p:{place}}}"})
    return providers_of(given, environment).lookup(found)


def test_allowed_paths_hold_whatever_way_a_path_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, outside = tmp_path / "in", tmp_path / "in-other"
    for each in (inside, outside):
        each.mkdir()
        (each / "s.properties").write_text(f"key={each.name}\n")
    (inside / "link").symlink_to(outside)
    (inside / "file").symlink_to(outside / "s.properties")
    (inside / "loop").symlink_to(inside / "loop")
    (outside / "back").symlink_to(inside)
    monkeypatch.chdir(inside)
    allowed = {"allowed_paths": str(inside)}
    for path in (
        f"{inside}/s.properties",
        f"{outside}/back/s.properties",
        "s.properties",
        f"{inside}/link/../in/s.properties",
    ):
        assert lookup("File", f"{path}:key", **allowed) == "in", path
    closed = [
        *(
            f"{outside}/s.properties",
            f"{inside}/../in-other/s.properties",
            f"{inside}/link/s.properties",
            f"{inside}/file",
        ),
        *(
            "../in-other/s.properties",
            "/etc/passwd",
            "/proc/self/environ",
            f"{inside}/loop",
            f"{inside}\0",
            "\ud800",
            "x" * 5000,
        ),
    ]
    for path in closed:
        with contextlib.suppress(ProviderError):
            assert lookup("File", f"{path}:key", **allowed) is None, path
    assert lookup("Directory", f"{inside}:s.properties", **allowed) == "key=in\n"
    for folder, name in (
        (outside, "s.properties"),
        (inside, "file"),
        (inside / "link", "s.properties"),
        (inside, "../in-other"),
    ):
        assert lookup("Directory", f"{folder}:{name}", **allowed) is None, (folder, name)
    for name in ("a/../../in-other/s.properties", "/etc/passwd", "..", "loop", "\0", "x" * 5000):
        with contextlib.suppress(ProviderError):
            assert lookup("Directory", f"{inside}:{name}", **allowed) is None, name


def test_the_environment_is_open_as_far_as_the_pattern_says() -> None:
    assert lookup("EnvVar", "OPEN_A", allowlist_pattern="OPEN_.") == "open"
    for name in ("CLOSED", "XOPEN_A", "OPEN_A\nX", ""):
        assert lookup("EnvVar", name, allowlist_pattern="OPEN_.") is None, name
    assert lookup("EnvVar", "path:OPEN_A") is None
