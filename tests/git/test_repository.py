"""GitPython behind the seal: nothing of the user's reaches git, and no name becomes an option."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pseries.errors import GitFailed, UpstreamInvalid
from pseries.git import pack
from pseries.git.pack import File
from pseries.git.repository import Repository, Tag, checked_address, checked_id, checked_name

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.create(tmp_path / "r.git")


def tagged(repository: Repository, name: str, data: bytes = b"a") -> str:
    files = iter([File("a.py", executable=False, size=len(data), chunks=(data,))])
    record = f"record of {name}\n".encode()
    tag = pack.write(repository.git_dir, files, tag=name, subject=name, record=lambda: record)
    repository.set_tag(name, tag)
    return tag


def git(folder: Path, *arguments: str) -> str:
    executable = shutil.which("git")
    assert executable is not None
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    done = subprocess.run(
        [executable, *who, *arguments],
        cwd=folder, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    git(folder, "init", "--quiet")
    for number in (1, 2, 3):
        (folder / "a.py").write_text(f"a = {number}\n")
        git(folder, "add", "a.py")
        git(folder, "commit", "--quiet", "-m", f"number {number}")
        git(folder, "tag", f"v{number}")
    git(folder, "tag", "-a", "-m", "annotated", "v3-annotated")
    return folder


def test_tags_come_back_as_they_were_written(repository: Repository) -> None:
    assert repository.tags("pseries/") == ()
    tagged(repository, "pseries/1.0")
    tagged(repository, "pseries/2.0+cu1", b"b")
    first, second = repository.tags("pseries/")
    assert (first.name, first.message) == ("pseries/1.0", "record of pseries/1.0\n")
    assert first == repository.tags("pseries/1.0")[0]
    assert second.name == "pseries/2.0+cu1"
    assert git(repository.git_dir, "rev-parse", "pseries/1.0^{tree}") == first.tree
    assert git(repository.git_dir, "rev-parse", "pseries/1.0^{commit}") == first.commit
    assert repository.tags("pseries/1") == ()


def test_a_tag_moves_and_goes(repository: Repository) -> None:
    tagged(repository, "pseries/1.0")
    tagged(repository, "pseries/1.0", b"b")
    assert len(repository.tags("pseries/")) == 1
    repository.delete_tag("pseries/1.0")
    assert repository.tags("pseries/") == ()
    with pytest.raises(GitFailed, match="not found"):
        repository.delete_tag("pseries/1.0")


def test_a_repository_is_made_whole_and_bare(tmp_path: Path) -> None:
    made = Repository.create(tmp_path / "deep" / "x.git")
    assert sorted(path.name for path in made.git_dir.parent.iterdir()) == ["x.git"]
    assert git(made.git_dir, "rev-parse", "--is-bare-repository") == "true"
    assert git(made.git_dir, "config", "gc.auto") == "0"
    assert not (made.git_dir / "hooks").exists()
    assert made.git_dir.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_one_tag_is_fetched_without_its_history(
    repository: Repository, source: Path, scheme: str
) -> None:
    commit, tree = repository.fetch(f"{scheme}{source}", "v3")
    assert commit == git(source, "rev-parse", "v3")
    assert tree == git(source, "rev-parse", "v3^{tree}")
    assert git(repository.git_dir, "rev-list", "--count", commit) == "1"
    assert repository.fetch(f"{scheme}{source}", "v3-annotated") == (commit, tree)
    repository.forget_fetched()
    assert git(repository.git_dir, "for-each-ref") == ""


def test_a_tag_that_is_not_there_is_said_so(repository: Repository, source: Path) -> None:
    with pytest.raises(GitFailed, match="couldn't find remote ref refs/tags/v9"):
        repository.fetch(str(source), "v9")


def test_a_hostile_source_runs_nothing(
    repository: Repository, source: Path, tmp_path: Path
) -> None:
    trap = tmp_path / "sprung"
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\ntouch {trap}\nexec "$@"\n')
    program.chmod(0o755)
    hooks = source / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-upload-pack", "pre-upload-pack", "post-checkout", "reference-transaction"):
        shutil.copy(program, hooks / hook)
    for key in ("uploadpack.packObjectsHook", "core.fsmonitor", "core.sshCommand", "core.pager",
                "core.gitProxy", "credential.helper", "uploadpack.hideRefs"):  # fmt: skip
        git(source, "config", key, str(program))
    (source / ".gitattributes").write_text("* filter=evil\n")
    git(source, "config", "filter.evil.smudge", str(program))
    assert repository.fetch(str(source), "v1")[0]
    assert not trap.exists()


def test_a_tree_that_would_harm_a_checkout_is_refused(
    repository: Repository, tmp_path: Path
) -> None:
    """A file below ``.git``, made with plumbing, as no porcelain makes it."""
    evil = Repository.create(tmp_path / "evil.git")
    files = iter([File(".git/hooks/x", executable=True, size=1, chunks=(b"x",))])
    tag = pack.write(evil.git_dir, files, tag="v1", subject="x", record=lambda: b"x")
    evil.set_tag("v1", tag)
    with pytest.raises(GitFailed, match="hasDotgit"):
        repository.fetch(str(evil.git_dir), "v1")
    assert git(repository.git_dir, "for-each-ref") == ""


def test_the_users_environment_does_not_matter(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "sprung"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {trap}\n")
    program.chmod(0o755)
    config = tmp_path / "config"
    config.write_text(
        f"[core]\n\thooksPath = {tmp_path}\n\tfsmonitor = {program}\n"
        f"[init]\n\ttemplateDir = {source}/.git\n\tdefaultObjectFormat = sha256\n"
        "[transfer]\n\tcredentialsInUrl = die\n[protocol]\n\tallow = never\n"
    )
    shutil.copy(program, tmp_path / "reference-transaction")
    for name, value in {
        "GIT_CONFIG_GLOBAL": config, "GIT_CONFIG_SYSTEM": config, "GIT_DIR": "/dev/null",
        "GIT_COMMON_DIR": tmp_path, "GIT_OBJECT_DIRECTORY": tmp_path, "GIT_WORK_TREE": tmp_path,
        "GIT_NAMESPACE": "x", "GIT_CEILING_DIRECTORIES": "/", "GIT_TRACE": tmp_path / "trace",
        "GIT_PYTHON_GIT_EXECUTABLE": program, "GIT_EXEC_PATH": tmp_path, "GIT_SSH_COMMAND": program,
        "GIT_TEMPLATE_DIR": source, "GIT_DEFAULT_HASH": "sha256", "GIT_ASKPASS": program,
    }.items():  # fmt: skip
        monkeypatch.setenv(name, str(value))
    before = dict(os.environ)
    repository = Repository.create(tmp_path / "r.git")
    tagged(repository, "pseries/1.0")
    repository.fetch(str(source), "v1")
    assert [tag.name for tag in repository.tags("pseries/")] == ["pseries/1.0"]
    repository.delete_tag("pseries/1.0")
    assert not trap.exists()
    assert not (tmp_path / "trace").exists()
    assert not (repository.git_dir / "hooks").exists()
    assert dict(os.environ) == before


def test_gitpython_is_imported_late_and_runs_no_git_of_its_own(tmp_path: Path) -> None:
    """In a process of its own, with a git on PATH that tells of each unsealed call."""
    real = shutil.which("git")
    log = tmp_path / "log"
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\necho "$HOME $*" >> {log}\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    script = """
import sys, json
from pathlib import Path
from pseries.git.repository import Repository
early = "git" in sys.modules
repository = Repository.create(Path(sys.argv[1]))
repository.tags("x/")
print(json.dumps([early, "git" in sys.modules]))
"""
    environment = os.environ | {"PATH": f"{wrapper.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "r.git")],
        env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == [False, True]
    calls = log.read_text().splitlines()
    assert len(calls) == 2
    assert all(call.startswith("/nonexistent ") for call in calls)


def test_a_missing_git_is_said_so(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from pseries.errors import GitMissing
from pseries.git.repository import Repository
try:
    Repository.create(Path(sys.argv[1]))
except GitMissing as error:
    print(error)
"""
    environment = os.environ | {"PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "r.git")],
        env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.startswith("git was not found on PATH")


@pytest.mark.parametrize(
    "address",
    [
        "ext::sh -c 'touch /tmp/x'", "--upload-pack=touch", "-x", "http://host/x", "git://host/x",
        "ssh://host/x", "user@host:x", "relative/path", "../x", "https://", "https:///x",
        "https://-oProxyCommand=x/y", "https://user:secret@host/x", "https://host/x\n--y", "",
        "file://host/x", "file:relative", "https://host\\@evil/x", "https://host/\x00",
    ],
)  # fmt: skip
def test_only_plain_addresses_are_fetched_from(repository: Repository, address: str) -> None:
    with pytest.raises(UpstreamInvalid) as caught:
        repository.fetch(address, "v1")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["", "-d", "--upload-pack=x", "a b", "a..b", "a:b", "+a:b", "a*", "a/", "/a", "a//b", "a/.b",
     "a.lock", "a.", "a~1", "a^{}", "a@{1}", "a\nb", "refs/heads/x:refs/tags/y", "a/-b", "\u00e9"],
)  # fmt: skip
def test_only_plain_names_are_tags(repository: Repository, name: str) -> None:
    for act in (
        lambda: repository.fetch("/nowhere", name),
        lambda: repository.set_tag(name, "0" * 40),
        lambda: repository.delete_tag(name),
    ):
        with pytest.raises(UpstreamInvalid):
            act()


def test_addresses_and_names_in_use_are_allowed() -> None:
    for address in (
        "https://github.com/sgl-project/sglang.git", "https://host:8443/x", "https://[::1]/x",
        "file:///srv/x.git", "/srv/x y/\u00e9.git",
    ):  # fmt: skip
        assert checked_address(address) == address
    for name in ("v0.5.15", "gateway-v0.3.1", "release/1.0", "pseries/1!2.0+cu129", "v0.11.0rc1"):
        assert checked_name(name) == name


def test_only_full_ids_are_pointed_to(repository: Repository) -> None:
    for name in ("", "HEAD", "--stdin", "abc", "g" * 40, "0" * 39, "0" * 41):
        with pytest.raises(ValueError, match="not an object id"):
            checked_id(name)


def test_a_login_reaches_git_by_its_environment_and_for_one_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("GIT_SSL_CAINFO", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    from pseries.git.repository import _login, _way_out

    assert _login("https://host/x", None) == {}
    assert _way_out("/ca", "http://p") == {"GIT_SSL_CAINFO": "/ca", "https_proxy": "http://p"}
    monkeypatch.setenv("GIT_SSL_CAINFO", "/own")
    monkeypatch.setenv("HTTPS_PROXY", "http://own")
    assert _way_out("/ca", "http://p") == {}
    given = _login("https://host:8443/x/y.git", ("me", "pass word"))
    assert given["GIT_CONFIG_KEY_0"] == "http.https://host:8443/.extraHeader"
    assert given["GIT_CONFIG_VALUE_0"] == "Authorization: Basic bWU6cGFzcyB3b3Jk"


def test_the_wrapper_runs_plain_commands_only(repository: Repository) -> None:
    wrapped = repository._repo().git
    every: list[dict[str, object]] = [{"as_process": True}, {"env": {}}, {"istream": 1}]
    for options in every:
        with pytest.raises(NotImplementedError):
            wrapped.version(**options)
    with pytest.raises(NotImplementedError):
        wrapped.execute("version")
    assert Tag("a", "b", "c", "d") == Tag("a", "b", "c", "d")
