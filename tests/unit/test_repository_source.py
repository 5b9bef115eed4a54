"""What a source may be, and that no password comes out of it."""

import re
from pathlib import Path

import pytest

from reconciler.desired.remote import access, explain
from reconciler.desired.source import Address, Credentials, Source, parse_address, redact
from reconciler.errors import SourceError, UsageError

STATE = Path("/nowhere")
WORD = "hunter2"


@pytest.mark.parametrize("folder", [".", "examples/repo", "/srv/git/fleet.git", "./a:b", "/x:y/z"])
def test_folders_are_local(folder: str) -> None:
    """A path is a folder, also with a colon after the first slash, as git reads it."""
    assert parse_address(folder) is None


@pytest.mark.parametrize(
    ("location", "address"),
    [
        ("file:///srv/fleet.git", Address("file", "file:///srv/fleet.git")),
        ("https://git.example/a/b", Address("https", "https://git.example/a/b", "git.example")),
        ("https://git.example:8443/a", Address("https", "https://git.example:8443/a", "git.example", 8443)),
        ("https://[::1]:8443/a", Address("https", "https://[::1]:8443/a", "[::1]", 8443)),
        ("https://u:p%40s@git.example/a", Address("https", "https://git.example/a", "git.example", None, "u", "p@s")),
        ("https://token@git.example/a", Address("https", "https://git.example/a", "git.example", None, "token")),
        ("ssh://git@h:2222/a", Address("ssh", "ssh://git@h:2222/a", "h", 2222, "git")),
        ("git@h:a/b.git", Address("ssh", "git@h:a/b.git", "h", None, "git")),
        ("h:a", Address("ssh", "h:a", "h")),
    ],
)
def test_addresses(location: str, address: Address) -> None:
    """URLs and scp-like places are taken apart, and the https URL loses its user and password."""
    assert parse_address(location) == address


@pytest.mark.parametrize(
    "location",
    [
        "",
        "http://git.example/a",
        "git://git.example/a",
        "ext::sh -c touch% /tmp/x",
        "ssh://-oProxyCommand=touch/a",
        "-oProxyCommand=touch:a",
        "ssh://-x@host/a",
        "file://host/a",
        "https:///a",
        "https://h:port/a",
        "https://h/a?private_token=hunter2",
        "ssh://git:hunter2@h/a",
        "https://user:hunter2/more@h/a",
        "a\nb",
    ],
)
def test_places_that_are_refused(location: str) -> None:
    """What could run a program, is not encrypted, or is no place is refused at once, and no password is repeated."""
    with pytest.raises(UsageError) as caught:
        Source(location, STATE)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("ref", ["main", "HEAD", "team/x", "v1.2", "refs/heads/main", "a" * 40, "feature-1", "ä"])
def test_refs(ref: str) -> None:
    """Names that git allows for refs are refs."""
    assert Source(".", STATE, ref=ref).ref == ref


@pytest.mark.parametrize(
    "ref",
    [
        *("", "-x", "--upload-pack=x", "a..b", "a b", "a~1", "a^", "a:b", "a?", "a*", "a[", "a\\", "/a", "a/", "a//b"),
        *("a.", ".a", "a/.b", "a.lock", "a.lock/b", "@", "a@{1}", "a\x00", "a\x7f", "a\n"),
    ],
)
def test_refs_that_are_refused(ref: str) -> None:
    """The rules of git-check-ref-format, so that a ref is never an option or an expression."""
    with pytest.raises(UsageError, match="is no ref"):
        Source(".", STATE, ref=ref)


@pytest.mark.parametrize(("path", "normal"), [("", ""), (".", ""), ("a/", "a"), ("a/./b//c", "a/b/c"), ("..a", "..a")])
def test_paths_in_normal_form(path: str, normal: str) -> None:
    """A path is kept without dots and doubled slashes."""
    assert Source(".", STATE, path=path).path == normal


@pytest.mark.parametrize("path", ["/a", "..", "a/../../b", "a\0b", "a\nb"])
def test_paths_that_are_refused(path: str) -> None:
    """A path that leaves the repository, or cannot be one, is refused."""
    with pytest.raises(UsageError, match="inside the repository"):
        Source(".", STATE, path=path)


@pytest.mark.parametrize(("location", "ref"), [("https://h/a", None), (".", "main")])
def test_worktree_is_local_and_has_no_ref(location: str, ref: str | None) -> None:
    """Uncommitted files exist only in a local repository and at no ref."""
    with pytest.raises(UsageError, match="--worktree"):
        Source(location, STATE, ref=ref, worktree=True)


@pytest.mark.parametrize("location", ["https://u:hunter2@h/a", "https://hunter2@h/a", "."])
def test_nothing_printable_holds_the_password(location: str) -> None:
    """Neither the repr nor the display of a source shows a password, and two passwords share one mirror."""
    source = Source(location, STATE, credentials=Credentials(password=WORD))
    assert "hunter2" not in repr(source) + source.display + str(source.mirror)
    if source.address:
        assert source.mirror == Source("https://h/a", STATE).mirror


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("fatal: https://u:p@h/a and ssh://git@h/b", "fatal: https://***@h/a and ssh://***@h/b"),
        ("https://u:p@ss@h/a", "https://***@h/a"),
        ("the word hunter2", "the word ***"),
        ("git@h:a", "git@h:a"),
    ],
)
def test_redaction(text: str, clean: str) -> None:
    """The user part of every URL and the password itself are taken out of text."""
    assert redact(text, "hunter2") == clean


def test_credentials_from_the_environment() -> None:
    """Each variable has its place."""
    variables = {
        "RECONCILE_GIT_USERNAME": "u",
        "RECONCILE_GIT_TOKEN_FILE": "/t",
        "RECONCILE_GIT_SSH_KEY": "/k",
        "RECONCILE_GIT_KNOWN_HOSTS": "/h",
        "RECONCILE_GIT_CA": "/c",
    }
    assert Credentials.from_environment(variables) == Credentials("u", "", "/t", "/k", "/h", "/c")
    assert Credentials.from_environment({"RECONCILE_GIT_PASSWORD": "p"}).secret() == "p"


def test_two_passwords_are_one_too_many() -> None:
    """Which of two passwords is meant cannot be known."""
    both = {"RECONCILE_GIT_PASSWORD": "a", "RECONCILE_GIT_PASSWORD_FILE": "/b"}
    with pytest.raises(UsageError, match="RECONCILE_GIT_PASSWORD and RECONCILE_GIT_PASSWORD_FILE are both set"):
        Credentials.from_environment(both)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "must be one line"), (b"a\nb\n", "must be one line"), (b"\xff", "not UTF-8"), (None, "no such file")],
)
def test_password_files_that_do_not_serve(tmp_path: Path, content: bytes | None, message: str) -> None:
    """A password file that is missing, empty, binary or of two lines says so; its content is not shown."""
    path = tmp_path / "password"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SourceError, match=f"(?i){message}"):
        Credentials(password_file=str(path)).secret()


def test_password_file_is_read_each_time(tmp_path: Path) -> None:
    """A rotated token counts from the next fetch on, and its line break is not part of it."""
    path = tmp_path / "token"
    credentials = Credentials(password_file=str(path))
    path.write_text("old\n")
    assert credentials.secret() == "old"
    path.write_text("new\r\n")
    assert credentials.secret() == "new"


def test_password_stays_out_of_arguments() -> None:
    """Git gets the password in its environment, and only for the host that was named."""
    address = parse_address("https://u:hunter2@git.example:8443/a")
    assert address is not None
    way = access(address, Credentials())
    assert "hunter2" not in " ".join(way.options) + address.url
    assert way.environment["RECONCILE_GIT_PASSWORD"] == WORD
    assert any(option.startswith("credential.https://git.example:8443.helper=") for option in way.options)


def test_ssh_never_asks_and_trusts_no_new_host(tmp_path: Path) -> None:
    """Batch mode, a time-out, strict host keys, and paths quoted for ssh and for the shell."""
    key, hosts = tmp_path / "my key", tmp_path / "100% known"
    key.touch()
    hosts.touch()
    address = parse_address("git@h:a")
    assert address is not None
    command = access(address, Credentials(ssh_key=str(key), known_hosts=str(hosts))).environment["GIT_SSH_COMMAND"]
    assert "-o BatchMode=yes -o ConnectTimeout=10" in command
    assert "-o StrictHostKeyChecking=yes" in command
    assert f"'IdentityFile=\"{key}\"'" in command
    assert f"'UserKnownHostsFile=\"{str(hosts).replace('%', '%%')}\"'" in command


@pytest.mark.parametrize(
    ("location", "credentials", "variable"),
    [
        ("git@h:a", Credentials(ssh_key="/none"), "RECONCILE_GIT_SSH_KEY"),
        ("git@h:a", Credentials(known_hosts="/none"), "RECONCILE_GIT_KNOWN_HOSTS"),
        ("https://h/a", Credentials(ca="/none"), "RECONCILE_GIT_CA"),
    ],
)
def test_missing_credential_files_are_named(location: str, credentials: Credentials, variable: str) -> None:
    """A file that is not there is named with the variable that asked for it."""
    address = parse_address(location)
    assert address is not None
    with pytest.raises(SourceError, match=f"{variable}: /none: no such file"):
        access(address, credentials)


@pytest.mark.parametrize(
    ("stderr", "message"),
    [
        # The texts are those of git 2.39, OpenSSH 9.2 and curl 7.88.
        ("Host key verification failed.\nfatal: Could not read", r"not known\. Add it: ssh-keyscan -p 2222 h >>"),
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.", "is not the one"),
        ("u@h: Permission denied (publickey).\nfatal: Could not read", "access denied"),
        ("fatal: couldn't find remote ref x", "no branch or tag 'x'"),
        ("fatal: remote error: upload-pack: not our ref abc", "no commit x there"),
        ("ssh: Could not resolve hostname h: Name or service not known", "cannot be resolved"),
        ("ssh: connect to host h port 2222: Connection refused", "no connection"),
        ("error: RPC failed; curl 28 Operation too slow.", "no connection"),
        ("ERROR: Repository not found.\nfatal: Could not read from remote repository.", "no repository there"),
        ("fatal: write error: No space left on device", "mirror of .* cannot be written"),
    ],
)
def test_refusals_are_explained(stderr: str, message: str) -> None:
    """What git and ssh say becomes one line that says what to do."""
    text = explain(stderr, Source("ssh://u@h:2222/a", STATE, ref="x"), "")
    assert re.search(message, text)
    assert "\n" not in text


def test_unknown_refusals_are_not_explained() -> None:
    """A broken mirror is told from a refusing remote: nothing is made up."""
    assert explain("fatal: loose object abc is corrupt", Source("https://h/a", STATE), "") == ""
