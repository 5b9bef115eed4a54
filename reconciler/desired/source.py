"""Where desired state comes from: a folder or a URL, a ref, a path, and the credentials to reach it.

Credentials come from files and the environment only. A password inside a URL is taken out of it at once, so that no
argument list, message or log can show it.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import unquote, urlsplit, urlunsplit

from reconciler.errors import SourceError, UsageError

Scheme = Literal["file", "https", "ssh"]

_FULL_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# git-check-ref-format(1), rules 1 to 9, and no leading dash: a ref is never an option.
_BAD_REF = re.compile(r"^[-/]|[/.]$|^@$|\.\.|//|@\{|[\x00-\x20~^:?*\[\\\x7f]|(?:^|/)\.|\.lock(?:/|$)")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.%]+\]")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")
_SCP_LIKE = re.compile(r"(?:([^@/:]+)@)?([^/:\[]+|\[[^\]/]+\]):(.+)", re.DOTALL)
_USERINFO = re.compile(r"(?<=://)[^/\s'\"]*@")


@dataclass(frozen=True, slots=True)
class Credentials:
    """How to prove who we are: paths of files, or one password. ``username`` goes with the password or token.

    ``ssh_key``, ``known_hosts`` and ``ca`` are files in the formats of ssh and curl.
    """

    username: str = ""
    password: str = field(default="", repr=False)
    password_file: str = ""
    ssh_key: str = ""
    known_hosts: str = ""
    ca: str = ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Credentials":
        """Read the ``RECONCILE_GIT_*`` variables. Raises UsageError when two of them give a password."""
        names = ("RECONCILE_GIT_PASSWORD", "RECONCILE_GIT_PASSWORD_FILE", "RECONCILE_GIT_TOKEN_FILE")
        given = [name for name in names if environment.get(name)]
        if len(given) > 1:
            raise UsageError(f"{' and '.join(given)} are both set: keep one")
        return cls(
            username=environment.get("RECONCILE_GIT_USERNAME", ""),
            password=environment.get("RECONCILE_GIT_PASSWORD", ""),
            password_file=environment.get("RECONCILE_GIT_PASSWORD_FILE") or environment.get(names[2], ""),
            ssh_key=environment.get("RECONCILE_GIT_SSH_KEY", ""),
            known_hosts=environment.get("RECONCILE_GIT_KNOWN_HOSTS", ""),
            ca=environment.get("RECONCILE_GIT_CA", ""),
        )

    def secret(self) -> str:
        """The password, read now: tokens in files are rotated. Raises SourceError when the file does not serve."""
        if not self.password_file:
            return self.password
        try:
            text = Path(self.password_file).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise SourceError(f"{self.password_file}: the git password cannot be read: {why}") from None
        if not text or "\n" in text:
            raise SourceError(f"{self.password_file}: the git password must be one line of text")
        return text


@dataclass(frozen=True, slots=True)
class Address:
    """A remote. ``url`` holds no password and is what git, people and logs see; ``port`` is None for the default."""

    scheme: Scheme
    url: str
    host: str = ""
    port: int | None = None
    username: str = ""
    password: str = field(default="", repr=False)

    @property
    def origin(self) -> str:
        """``https://host:port``, the scope within which credentials are given away."""
        return f"{self.scheme}://{self.host}" + (f":{self.port}" if self.port else "")


@dataclass(frozen=True, slots=True)
class Source:
    """What to read. ``location`` is a folder or a URL; ``ref`` a branch, a tag, a full hash or ``HEAD``.

    ``path`` is a folder relative to ``location``; ``worktree`` reads a local repository's uncommitted files;
    ``state_dir`` keeps the mirrors of remotes; ``timeout`` (seconds) bounds each fetch.
    Raises UsageError for what can never work; the text holds no password.
    """

    location: str = field(repr=False)
    state_dir: Path
    ref: str | None = None
    path: str = ""
    worktree: bool = False
    credentials: Credentials = field(default_factory=Credentials)
    timeout: float = 300.0

    def __post_init__(self) -> None:
        """Refuse bad refs, paths, URLs and combinations before anything is started."""
        address = parse_address(self.location)
        _check_ref(self.ref)
        object.__setattr__(self, "path", _checked_path(self.path))
        if self.worktree and address:
            raise UsageError(f"--worktree reads a local repository, not {address.url}")
        if self.worktree and self.ref:
            raise UsageError("--worktree reads uncommitted files: it takes no --ref")

    @property
    def address(self) -> Address | None:
        """The remote, or None for a folder."""
        return parse_address(self.location)

    @property
    def display(self) -> str:
        """The place for people, without credentials."""
        address = self.address
        return address.url if address else self.location

    @property
    def pinned(self) -> bool:
        """Whether ``ref`` is a full hash, whose content can never move."""
        return bool(self.ref and _FULL_HASH.fullmatch(self.ref))

    @property
    def mirror(self) -> Path:
        """Folder of the bare mirror. Refs and paths of one URL share it."""
        return self.state_dir / "mirrors" / hashlib.sha256(self.display.encode()).hexdigest()[:24]


def parse_address(location: str) -> Address | None:
    """Take a URL or scp-like ``user@host:path`` apart; None for a folder. Raises UsageError."""
    if not location or "\0" in location or "\n" in location:
        raise UsageError("the repository must be a folder or a URL")
    if "://" in location:
        return _from_url(location)
    # As git does: a colon before the first slash is scp-like; ./a:b names a folder.
    match = _SCP_LIKE.fullmatch(location)
    if match is None:
        return None
    user, host, path = match.group(1) or "", match.group(2), match.group(3)
    if path.startswith(":"):
        raise UsageError(f"{host}::… is not supported: use file://, https:// or ssh://")
    _check_host(host, user)
    return Address("ssh", location, host, None, user)


def _from_url(location: str) -> Address:
    """An Address from ``scheme://…``."""
    try:
        parts = urlsplit(location)
        port = parts.port
    except ValueError:
        raise UsageError("the repository's URL is not valid: is its port a number?") from None
    if parts.scheme == "file":
        if parts.netloc or not parts.path:
            raise UsageError("a file:// URL has three slashes and an absolute path: file:///srv/git/fleet.git")
        return Address("file", location)
    if parts.scheme not in ("https", "ssh"):
        raise UsageError(f"{parts.scheme}:// is not supported: use file://, https:// or ssh://")
    if parts.query or parts.fragment:
        raise UsageError(f"{parts.scheme}://{parts.hostname}: the URL of a git repository has no ? and no #")
    host = parts.netloc.rpartition("@")[2]
    host = host[: -len(f":{port}")] if port is not None else host
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if parts.scheme == "ssh":
        return _from_ssh(location, host, port, user, password)
    _check_host(host, "")
    netloc = host if port is None else f"{host}:{port}"
    return Address("https", urlunsplit(("https", netloc, parts.path, "", "")), host, port, user, password)


def _from_ssh(location: str, host: str, port: int | None, user: str, password: str) -> Address:
    if password:
        raise UsageError(f"ssh://{host}: ssh takes no password here: give a key in RECONCILE_GIT_SSH_KEY")
    _check_host(host, user)
    return Address("ssh", location, host, port, user)


def _check_host(host: str, user: str) -> None:
    """A host or user that ssh could take for an option (``-oProxyCommand=…``) is refused."""
    if not _HOST.fullmatch(host) or (user and not _USER.fullmatch(user)):
        raise UsageError("the repository's URL has no usable host or user name")


def _check_ref(ref: str | None) -> None:
    if ref is not None and (not ref or _BAD_REF.search(ref)):
        raise UsageError(f"{ref!r} is no ref: give a branch, a tag, a full commit hash or HEAD")


def _checked_path(path: str) -> str:
    """``path`` in normal form, ``""`` for the top. Raises UsageError when it leaves the repository."""
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts or "\0" in path or "\n" in path:
        raise UsageError(f"{path!r} must be a folder inside the repository, relative to its top")
    return "/".join(parts)


def redact(text: str, secret: str = "") -> str:
    """``text`` without the user part of any URL and without ``secret``."""
    clean = _USERINFO.sub("***@", text)
    return clean.replace(secret, "***") if secret else clean
