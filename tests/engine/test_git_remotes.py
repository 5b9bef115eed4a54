"""Remotes over ssh and https, against a real sshd and git's own http backend, with real keys and certificates."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest

from reconciler.desired.repository import Repository, open_tree
from reconciler.desired.source import Credentials, Source
from reconciler.errors import SourceError
from tests.fakes import git_https, sshd
from tests.fakes.git_https import PASSWORD, USERNAME, HttpsServer
from tests.fakes.git_repository import ENVIRONMENT, commit, git
from tests.fakes.sshd import SshServer


@pytest.fixture(autouse=True)
def _own_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither git nor curl reads anything of the machine's user."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    """One sshd for this file."""
    with sshd.serve(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture(scope="module")
def https(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpsServer]:
    """One https server for this file; it serves every test's folder."""
    with git_https.serve(Path("/"), tmp_path_factory.mktemp("https")) as server:
        yield server


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """The remote, as its owner sees it."""
    commit(tmp_path / "repo", {"fleet/app.yaml": "one"})
    return tmp_path / "repo"


def over_ssh(server: SshServer, repo: Path, tmp_path: Path, **more: str) -> Source:
    """``repo`` through sshd."""
    files = {"ssh_key": str(server.key), "known_hosts": str(server.known_hosts)}
    url = f"ssh://{server.user}@127.0.0.1:{server.port}{repo}"
    return Source(url, tmp_path / "state", path="fleet", credentials=Credentials(**(files | more)), timeout=20)


def over_https(server: HttpsServer, repo: Path, tmp_path: Path, login: str = "", **more: str) -> Source:
    """``repo`` through the https server; ``login`` stands in the URL as it is."""
    url = f"https://{login}127.0.0.1:{server.port}{repo}"
    credentials = Credentials(**({"ca": str(server.ca)} | more))
    return Source(url, tmp_path / "state", path="fleet", credentials=credentials, timeout=20)


def holds_no_password(folder: Path) -> bool:
    """Whether no file below ``folder`` has the password in it, plain or quoted for a URL."""
    texts = (PASSWORD.encode(), quote(PASSWORD, safe="").encode())
    return not any(text in path.read_bytes() for path in folder.rglob("*") if path.is_file() for text in texts)


def test_over_ssh(ssh: SshServer, repo: Path, tmp_path: Path) -> None:
    """A remote over ssh is read, followed through a force-push, and found unchanged."""
    repository = Repository(over_ssh(ssh, repo, tmp_path))
    first = repository.read()
    assert first.blobs.read("app.yaml") == b"one"
    assert repository.read() is first
    git(repo, "commit", "-q", "--amend", "--allow-empty", "-m", "rewritten")
    assert repository.read().commit == git(repo, "rev-parse", "HEAD") != first.commit


def test_ssh_files_with_spaces(ssh: SshServer, repo: Path, tmp_path: Path) -> None:
    """Paths of keys and known hosts may hold what shells and ssh would take apart."""
    odd = tmp_path / "it's 100% odd $HOME"
    odd.mkdir()
    for file in (ssh.key, ssh.known_hosts):
        (odd / file.name).write_bytes(file.read_bytes())
        (odd / file.name).chmod(0o600)
    source = over_ssh(ssh, repo, tmp_path, ssh_key=str(odd / ssh.key.name), known_hosts=str(odd / ssh.known_hosts.name))
    assert open_tree(source).blobs.read("app.yaml") == b"one"


def test_an_unknown_ssh_host(ssh: SshServer, repo: Path, tmp_path: Path) -> None:
    """A host that is not known is not trusted, and the line to add it is told, ready to paste."""
    known = tmp_path / "empty"
    known.touch()
    with pytest.raises(SourceError) as caught:
        open_tree(over_ssh(ssh, repo, tmp_path, known_hosts=str(known)))
    assert f"not known. Add it: ssh-keyscan -p {ssh.port} 127.0.0.1 >> {known}" in str(caught.value)
    assert known.read_text() == ""


def test_an_impostor(ssh: SshServer, repo: Path, tmp_path: Path) -> None:
    """A host whose key is not the known one is told apart from an unknown one."""
    other = sshd.make_key(tmp_path / "other")
    known = tmp_path / "known"
    known.write_text(f"[127.0.0.1]:{ssh.port} {other.with_suffix('.pub').read_text()}")
    with pytest.raises(SourceError, match="is not the one that is known"):
        open_tree(over_ssh(ssh, repo, tmp_path, known_hosts=str(known)))


def test_ssh_without_the_right_key(ssh: SshServer, repo: Path, tmp_path: Path) -> None:
    """A key that the server does not know is refused with what to check; nobody is asked for anything."""
    with pytest.raises(SourceError, match=r"access denied: is the public part of RECONCILE_GIT_SSH_KEY"):
        open_tree(over_ssh(ssh, repo, tmp_path, ssh_key=str(sshd.make_key(tmp_path / "wrong"))))


def test_a_key_that_others_can_read(ssh: SshServer, repo: Path, tmp_path: Path) -> None:
    """Such a key is ignored by ssh; the line says what to do."""
    key = tmp_path / "open"
    key.write_bytes(ssh.key.read_bytes())
    key.chmod(0o644)
    with pytest.raises(SourceError, match=rf"chmod 600 {key}"):
        open_tree(over_ssh(ssh, repo, tmp_path, ssh_key=str(key)))


@pytest.mark.parametrize("kind", ["repository", "branch", "server"])
def test_what_is_missing_over_ssh(ssh: SshServer, repo: Path, tmp_path: Path, kind: str) -> None:
    """A missing repository, branch or server is one line each."""
    good = over_ssh(ssh, repo, tmp_path)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        closed = free.getsockname()[1]
    location, ref, message = {
        "repository": (f"{good.location}.none", None, "no repository there"),
        "branch": (good.location, "gone", "no branch or tag 'gone'"),
        "server": (good.location.replace(str(ssh.port), str(closed)), None, "no connection: .*Connection refused"),
    }[kind]
    with pytest.raises(SourceError, match=message) as caught:
        open_tree(Source(location, good.state_dir, ref=ref, credentials=good.credentials))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("way", ["variable", "file", "url"])
def test_over_https(
    https: HttpsServer, repo: Path, tmp_path: Path, way: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A password from the environment, a file or the URL opens the repository, and is written down nowhere."""
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    source = {
        "variable": lambda: over_https(https, repo, tmp_path, username=USERNAME, password=PASSWORD),
        "file": lambda: over_https(https, repo, tmp_path, username=USERNAME, password_file=str(file)),
        "url": lambda: over_https(https, repo, tmp_path, f"{USERNAME}:{quote(PASSWORD, safe='')}@"),
    }[way]()
    repository = Repository(source)
    tree = repository.read()
    assert tree.blobs.read("app.yaml") == b"one"
    second = commit(repo, {"fleet/app.yaml": "two"})
    assert repository.read().commit == second
    assert tree.source == f"https://127.0.0.1:{https.port}{repo}"
    assert holds_no_password(tmp_path / "state")
    assert PASSWORD not in repr(source) + repr(tree) + "".join(capfd.readouterr())


def test_helpers_of_the_user_are_told_nothing(
    https: HttpsServer, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A credential helper in the user's own configuration, which would write the password down, is not called."""
    config = tmp_path / "gitconfig"
    config.write_text(f'[credential]\n\thelper = "!cat >> {tmp_path}/told; true"\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    assert open_tree(over_https(https, repo, tmp_path, username=USERNAME, password=PASSWORD)).commit
    assert not (tmp_path / "told").exists()


def test_a_rotated_password_file(https: HttpsServer, repo: Path, tmp_path: Path) -> None:
    """A wrong password is refused without being shown; the right one in the same file serves the next read."""
    file = tmp_path / "password"
    file.write_text("old-one\n")
    repository = Repository(over_https(https, repo, tmp_path, username=USERNAME, password_file=str(file)))
    with pytest.raises(SourceError, match=r"access denied: check RECONCILE_GIT_USERNAME") as caught:
        repository.read()
    assert "old-one" not in str(caught.value)
    file.write_text(PASSWORD)
    assert repository.read().commit


def test_https_without_a_password(https: HttpsServer, repo: Path, tmp_path: Path) -> None:
    """Without a password git does not ask and does not hang."""
    with pytest.raises(SourceError, match="access denied"):
        open_tree(over_https(https, repo, tmp_path))


def test_an_unknown_ca(https: HttpsServer, repo: Path, tmp_path: Path) -> None:
    """A certificate of an unknown CA is refused before any password is sent, and the variable to set is named."""
    https.seen.clear()
    with pytest.raises(SourceError, match=r"is not trusted; for a CA of your own: RECONCILE_GIT_CA=FILE"):
        open_tree(over_https(https, repo, tmp_path, username=USERNAME, password=PASSWORD, ca=""))
    assert https.seen == []


def test_passwords_do_not_follow_redirects(https: HttpsServer, repo: Path, tmp_path: Path) -> None:
    """A server that sends git elsewhere does not make it hand over the password there."""
    (tmp_path / "other").mkdir()
    with git_https.serve(Path("/"), tmp_path / "other") as other:
        other.redirect = f"https://localhost:{https.port}"
        both = tmp_path / "both.pem"
        both.write_text(other.ca.read_text() + https.ca.read_text())
        https.seen.clear()
        with pytest.raises(SourceError, match="access denied"):
            open_tree(over_https(other, repo, tmp_path, username=USERNAME, password=PASSWORD, ca=str(both)))
        assert https.seen == []


@pytest.mark.parametrize(("where", "message"), [(".none", "no repository there"), ("", "no branch or tag 'gone'")])
def test_what_is_missing_over_https(https: HttpsServer, repo: Path, tmp_path: Path, where: str, message: str) -> None:
    """A missing repository and a missing branch are one line each, without the password."""
    good = over_https(https, repo, tmp_path, username=USERNAME, password=PASSWORD)
    ref = None if where else "gone"
    with pytest.raises(SourceError, match=message) as caught:
        open_tree(Source(good.location + where, good.state_dir, ref=ref, credentials=good.credentials))
    assert "\n" not in str(caught.value)


def test_the_password_is_in_no_argument_list(https: HttpsServer, repo: Path, tmp_path: Path) -> None:
    """Every program that a fetch starts is recorded with its arguments: the password is in none of them."""
    log = tmp_path / "log"
    for name in ("git", "sh", "env"):
        real = next(path for path in (f"/usr/bin/{name}", f"/bin/{name}") if Path(path).exists())
        wrapper = tmp_path / "bin" / name
        wrapper.parent.mkdir(exist_ok=True)
        wrapper.write_text(f'#!/bin/bash\nprintf "%s\\n" "$0 $*" >> {log}\nexec {real} "$@"\n')
        wrapper.chmod(0o755)
    source = f"https://{USERNAME}:{quote(PASSWORD, safe='')}@127.0.0.1:{https.port}{repo}"
    code = (
        "import os, sys; from pathlib import Path; from reconciler.desired.repository import open_tree;"
        "from reconciler.desired.source import Credentials, Source;"
        "print(open_tree(Source(os.environ['URL'], Path(sys.argv[1]), credentials=Credentials(ca=sys.argv[2]))).commit)"
    )
    environment = os.environ | {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "URL": source, "GIT_TRACE_CURL": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "state"), str(https.ca)],
        cwd=Path(__file__).parents[2],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    started = log.read_text()
    assert done.stdout.strip() == git(repo, "rev-parse", "HEAD")
    assert re.search(r"/git .*fetch", started)
    for secret in (PASSWORD, quote(PASSWORD, safe=""), PASSWORD.split()[0]):
        assert secret not in started + done.stdout + done.stderr
