"""`ottla storage`: identities, log directories before and after their formatting, and what versions mean."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from ottla.admin import METADATA_VERSIONS, feature_levels, metadata_version_name, metadata_version_of
from ottla.base import parse_uuid, random_uuid, uuid_text
from tests.cli.conftest import Run

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


def settings(folder: Path) -> Path:
    path = folder / "server.properties"
    path.write_text(f"log.dirs={folder / 'a'},{folder / 'b'}\n")
    return path


@pytest.mark.parametrize("text", ["", "notanid", "../../../etc/passwd", "ü" * 22, "A" * 21, "A" * 23])
def test_what_is_no_identifier_is_refused_in_our_words(text: str) -> None:
    with pytest.raises(ValueError, match="is not a UUID: 22 characters of URL-safe base64 are expected"):
        parse_uuid(text)


def test_random_identifiers_are_ones_that_format_takes(run: Run, tmp_path: Path) -> None:
    texts = {run("storage random-uuid").out.strip() for _ in range(20)}
    assert len(texts) == 20
    for text in texts:
        parse_uuid(text)
        assert not text.startswith("-")
    assert run(f"storage format -t {texts.pop()} -c {settings(tmp_path)}").code == 0


def test_info_says_what_is_missing_what_is_there_and_whose_it_is(run: Run, tmp_path: Path) -> None:
    path = settings(tmp_path)
    before = run(f"storage info -c {path}")
    assert (before.code, before.out) == (
        1,
        f"Found problems:\n  {tmp_path / 'a'} does not exist\n  {tmp_path / 'b'} does not exist\n\n",
    )
    (tmp_path / "a").mkdir()
    half = run(f"storage info -c {path}")
    assert (half.code, half.out) == (
        1,
        f"Found log directory:\n  {tmp_path / 'a'}\n\n"
        f"Found problems:\n  {tmp_path / 'a'} is not formatted.\n  {tmp_path / 'b'} does not exist\n\n",
    )
    formatted = run(f"storage format -t {CLUSTER_ID} -c {path} --standalone")
    assert formatted.code == 0
    assert f"Formatting data directory {tmp_path / 'b'} with metadata.version 4.3-IV0.\n" in formatted.out
    after = run(f"storage info -c {path}")
    assert after.code == 0
    head = (
        f"Found log directories:\n  {tmp_path / 'a'}\n  {tmp_path / 'b'}\n\nFound metadata: {{cluster.id={CLUSTER_ID}, "
    )
    assert after.out.startswith(head) and after.out.endswith("node.id=1, version=1}\n\n")
    again = run(f"storage format -t {CLUSTER_ID} -c {path} --standalone")
    assert (again.code, again.out) == (1, "")
    assert again.err.startswith(f"Log directory {tmp_path / 'a'} is already formatted. ")
    ignored = run(f"storage format -t {CLUSTER_ID} -c {path} --standalone -g")
    assert (ignored.code, ignored.out) == (0, "All of the log directories are already formatted.\n")


def test_a_directory_of_another_cluster_is_a_problem(run: Run, tmp_path: Path) -> None:
    path = settings(tmp_path)
    assert run(f"storage format -t {CLUSTER_ID} -c {path}").code == 0
    meta = tmp_path / "b" / "meta.properties"
    meta.write_text(meta.read_text().replace(CLUSTER_ID, "AAAAAAAAAAAAAAAAAAAAAQ"))
    found = run(f"storage info -c {path}")
    assert found.code == 1
    assert f"Found problem:\n  {tmp_path / 'b'} belongs to another cluster or node: " in found.out


def test_versions_map_to_levels_and_back(run: Run) -> None:
    for name in METADATA_VERSIONS:
        assert metadata_version_name(metadata_version_of(name)) == name
    assert run("storage version-mapping -r 3.9").out == run("features version-mapping --release-version 3.9").out
    assert feature_levels("4.1", {}) == {
        "metadata.version": 27,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "transaction.version": 2,
    }


@pytest.mark.parametrize(
    ("features", "code", "said"),
    [
        ("-f transaction.version=2", 0, "transaction.version=2 has no dependencies."),
        ("-f metadata.version=30", 0, "metadata.version=30 (4.3-IV0) has no dependencies."),
        ("-f eligible.leader.replicas.version=1", 0, "    metadata.version=23 (4.0-IV1)"),
        ("-f metadata.version=99", 1, "Unknown metadata.version 99"),
        ("-f nonsense=1", 1, "Unknown feature: nonsense"),
        ("", 1, "argument --feature/-f is required"),
    ],
)
def test_dependencies_of_levels(run: Run, features: str, code: int, said: str) -> None:
    found = run(f"storage feature-dependencies {features}")
    assert found.code == code
    assert said in (found.out + found.err).splitlines()


ME, OTHER = "1@127.0.0.1:25951:JEXY6aqzQY-32P5TStzaFg", "2@127.0.0.1:25952:MvDxzVmcRsaTz33bUuRU6A"
JOINS = "controller.quorum.bootstrap.servers=127.0.0.1:25951"
STATIC = "controller.quorum.voters=1@127.0.0.1:25951"
ROLES = {"both": "broker,controller", "broker": "broker"}


def quorum_settings(folder: Path, roles: str, quorum: str) -> Path:
    """A node's configuration; a broker has no listener for the quorum."""
    listeners = ["PLAINTEXT://127.0.0.1:25950", *(["CONTROLLER://127.0.0.1:25951"] if "controller" in roles else [])]
    lines = [f"process.roles={roles}", "node.id=1", quorum, f"listeners={','.join(listeners)}"]
    lines += ["controller.listener.names=CONTROLLER", f"log.dirs={folder / 'd'}"]
    path = folder / "server.properties"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize(
    ("roles", "quorum", "flags", "kind"),
    [
        ("both", JOINS, "-N", "metadata directory"),
        ("both", JOINS, "--standalone", "dynamic metadata voter directory"),
        ("both", JOINS, "-s -f kraft.version=1", "dynamic metadata voter directory"),
        ("both", JOINS, f"-I {ME},{OTHER}", "dynamic metadata voter directory"),
        ("both", JOINS, f"--initial-controllers {OTHER}", "dynamic metadata directory"),
        ("both", STATIC, "", "metadata directory"),
        ("both", STATIC, "--no-initial-controllers", "metadata directory"),
        ("broker", JOINS, "", "metadata directory"),
    ],
)
def test_who_votes_at_first_is_said_when_formatting(
    run: Run, tmp_path: Path, roles: str, quorum: str, flags: str, kind: str
) -> None:
    found = run(f"storage format -t {CLUSTER_ID} -c {quorum_settings(tmp_path, ROLES[roles], quorum)} {flags}")
    assert found.code == 0, found.err
    assert found.out.endswith(f"Formatting {kind} {tmp_path / 'd'} with metadata.version 4.3-IV0.\n")
    assert "kraft.version" not in found.out
    snapshot = tmp_path / "d/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
    assert snapshot.exists() == kind.startswith("dynamic")
    if ME in flags:
        assert "directory.id=JEXY6aqzQY-32P5TStzaFg" in (tmp_path / "d/meta.properties").read_text()


@pytest.mark.parametrize(
    ("roles", "quorum", "flags", "said"),
    [
        ("both", JOINS, "", "Because controller.quorum.voters is not set on this controller, you must specify one of"),
        ("both", JOINS, f"-s -I {ME}", "not allowed with argument"),
        ("both", JOINS, "-I 1@127.0.0.1:25951", "each entry should be id@host:port:directory-id"),
        ("both", JOINS, "-s -f kraft.version=0", "Cannot set kraft.version to 0 if controller.quorum.voters is empty"),
        ("both", STATIC, "-s", "You cannot specify controller.quorum.voters and format the node with"),
        ("both", STATIC, f"-I {ME}", "You cannot specify controller.quorum.voters and format the node with"),
        (
            "both",
            STATIC,
            "-f kraft.version=1",
            "Cannot set kraft.version to 1 unless controller.quorum.voters is empty",
        ),
        ("broker", JOINS, "-s", "You can only use --standalone on a controller."),
    ],
)
def test_contradictions_about_who_votes_are_refused_before_anything_is_written(
    run: Run, tmp_path: Path, roles: str, quorum: str, flags: str, said: str
) -> None:
    found = run(f"storage format -t {CLUSTER_ID} -c {quorum_settings(tmp_path, ROLES[roles], quorum)} {flags}")
    assert (found.code, found.out) == (1, "")
    assert said in found.err
    assert not (tmp_path / "d").exists()


def test_no_id_begins_with_a_dash_or_means_something_of_its_own() -> None:
    given = iter(
        [bytes(16), bytes(15) + bytes([99]), bytes([0xF8]) + bytes(15), bytes([0xFB]) * 16, bytes(14) + b"\x01\x00"]
    )

    class Scripted(Random):
        def randbytes(self, n: int) -> bytes:
            return next(given)

    assert random_uuid(Scripted()) == bytes(14) + b"\x01\x00"
    assert not any(uuid_text(random_uuid(Random(seed))).startswith("-") for seed in range(500))


NOT_SCRAM = {
    "x": "Failed to find equals sign in SCRAM argument",
    "SCRAM-SHA-1=[name=al,password=x]": "The add-scram mechanism SCRAM-SHA-1 is not supported.",
    "SCRAM-SHA-256=name=al": "Expected configuration string to start with [",
    "SCRAM-SHA-256=[name=al": "Expected configuration string to end with ]",
    "SCRAM-SHA-256=[password=x]": "You must supply 'name' to add-scram",
    "SCRAM-SHA-256=[name=,password=x]": "You must supply 'name' to add-scram",
    "SCRAM-SHA-256=[name=al]": "You must supply one of 'password' or 'saltedpassword' to add-scram",
    "SCRAM-SHA-256=[name=al,password=]": "You must supply one of 'password' or 'saltedpassword' to add-scram",
    "SCRAM-SHA-256=[name=al,saltedpassword=eA==]": "You must supply 'salt' with 'saltedpassword' to add-scram",
    "SCRAM-SHA-256=[name=al,password=x,saltedpassword=eA==]": "You must supply only one of",
    "SCRAM-SHA-256=[name=al,password=x,iterations=1]": "must be >= 4096 for add-scram using SCRAM_SHA_256",
    "SCRAM-SHA-512=[name=al,password=x,iterations=100000]": "must be <= 16384 for add-scram using SCRAM_SHA_512",
    "SCRAM-SHA-256=[name=al,password=x,iterations=z]": "Failed to parse iterations count: z",
    "SCRAM-SHA-256=[name=al,password=x,foo=1]": "Unknown SCRAM configurations: foo",
    "SCRAM-SHA-256=[name=al,password=x,salt=!!]": "Failed to decode given salt",
    "SCRAM-SHA-256=[name=al,s3cret]": "No equals sign found in a SCRAM component",
}


@pytest.mark.parametrize("credential", NOT_SCRAM)
def test_a_first_user_that_cannot_be_is_refused_in_kafkas_words(run: Run, tmp_path: Path, credential: str) -> None:
    found = run(f"storage format -t {CLUSTER_ID} -c {settings(tmp_path)} --add-scram {credential}")
    assert found.code == 1 and NOT_SCRAM[credential] in found.err
    assert "s3cret" not in found.err and not (tmp_path / "a").exists()


def test_first_users_stand_in_the_metadata_and_nothing_of_their_passwords_is_shown(run: Run, tmp_path: Path) -> None:
    path = settings(tmp_path)
    users = "--add-scram SCRAM-SHA-256=[name=al,password=s3cret] --add-scram SCRAM-SHA-512=[name=al,password=s3cret]"
    found = run(f"storage format -t {CLUSTER_ID} -c {path} {users}")
    assert found.code == 0, found.err
    assert "UserScramCredentialRecord(name='al', mechanism=1, salt=[hidden], storedKey=[hidden]" in found.out
    assert "s3cret" not in found.out
    dumped = run(f"dump-log --cluster-metadata-decoder --files {tmp_path / 'a' / 'bootstrap.checkpoint'}")
    assert '"name":"al","mechanism":2,"salt":"[hidden]","storedKey":"[hidden]","serverKey":"[hidden]"' in dumped.out
    old = run(f"storage format -t {CLUSTER_ID} -c {path} -g -r 3.4 {users}")
    assert "SCRAM is only supported in metadata.version 3.5-IV2 or later." in old.err
