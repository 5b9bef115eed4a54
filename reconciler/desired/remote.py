"""How a remote is asked: git's settings, the environment with the credentials, and what its refusals mean."""

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler.desired.plumbing import last_words, quiet_environment
from reconciler.desired.source import Address, Credentials, Source, redact
from reconciler.errors import SourceError

_SETTINGS = (
    "core.hooksPath=/dev/null",  # no hook of the user's configuration runs in a mirror
    "core.fsmonitor=false",
    "core.askPass=",
    "credential.interactive=false",
    "protocol.allow=never",
    "protocol.file.allow=always",
    "protocol.https.allow=always",
    "protocol.ssh.allow=always",
    "http.lowSpeedLimit=1000",  # bytes a second, for
    "http.lowSpeedTime=30",  # this many seconds: then the transfer is given up
    "gc.autoDetach=false",  # nothing may outlive the fetch
    "maintenance.autoDetach=false",
    "gc.pruneExpire=1.hour.ago",  # commits that left the branch are of no use here
    "gc.packRefs=false",  # a look at a ref's own file tells that it is here
    "fetch.writeCommitGraph=false",
)
# Printed by the shell itself: the password is in no argument list. The variables are set for this process only.
_HELPER = (
    '!f() { test "$1" = get && printf "username=%s\\npassword=%s\\n"'
    ' "$RECONCILE_GIT_USERNAME" "$RECONCILE_GIT_PASSWORD"; }; f'
)
_LOCK = re.compile(r"Unable to create '([^'\n]+\.lock)': File exists")

_UNVERIFIED = "{url}: the certificate of {host} is not trusted; for a CA of your own: RECONCILE_GIT_CA=FILE ({words})"
_CUT = "{url}: no connection: {words}"

# (what git or ssh says, what it means). The first match wins; explain fills the names in.
_MEANINGS = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "{url}: the host key of {host} is not the one that is known: find out why before you replace it in {hosts}",
    ),
    (r"Host key verification failed", "{url}: the host key of {host} is not known. {keyscan}"),
    (r"UNPROTECTED PRIVATE KEY|bad permissions", "{url}: the ssh key may be read by others: chmod 600 {key}"),
    (r"Permission denied \(|Too many authentication failures", "{url}: access denied: {advice}"),
    (r"Authentication failed|Invalid username or|terminal prompts disabled", "{url}: access denied: {advice}"),
    (r"could not read (?:Username|Password)|error: 40[13]\b", "{url}: access denied: {advice}"),
    (r"(?:couldn't|could not) find remote ref HEAD\b", "{url}: it has no commit yet"),
    (r"(?:couldn't|could not) find remote ref", "{url}: no branch or tag {ref!r}"),
    (r"not our ref|unadvertised object", "{url}: no commit {ref} there, or the server gives out no single commits"),
    (r"SSL certificate|certificate verif|[Ss]elf[- ]signed certificate|CAfile|setting certificate", _UNVERIFIED),
    (
        r"cannot run ssh|ssh: (?:command )?not found",
        "ssh is not installed: install it (apt-get install openssh-client)",
    ),
    (r"Could not resolve host|Name or service not known|name resolution", "{url}: the name {host} cannot be resolved"),
    (r"Connection (?:refused|timed out|reset|closed)|Failed to connect|No route to host", _CUT),
    (r"Network is unreachable|Operation (?:timed out|too slow)|kex_exchange|hung up unexpectedly", _CUT),
    (r"does not appear to be a git repository|[Rr]epository .*not found|does not exist", "{url}: {nothing}"),
    (
        r"dubious ownership",
        "{url}: it belongs to another user; if you trust it: git config --global --add safe.directory {path}",
    ),
    (r"No space left on device|quota exceeded|Read-only file system", "the mirror of {url} cannot be written: {words}"),
    (r"unable to access|Could not read from remote repository", _CUT),
)


@dataclass(frozen=True, slots=True)
class Access:
    """One fetch's settings and variables. ``secret`` is taken out of whatever git answers."""

    options: tuple[str, ...]
    environment: Mapping[str, str]
    secret: str


def access(address: Address, credentials: Credentials) -> Access:
    """Settle how to reach ``address``. Raises SourceError when a file with a credential does not serve."""
    settings = list(_SETTINGS)
    environment = quiet_environment()
    secret = ""
    if address.scheme == "ssh":
        environment |= {"GIT_SSH_COMMAND": _ssh(credentials), "GIT_SSH_VARIANT": "ssh"}
    if address.scheme == "https":
        if credentials.ca:
            settings.append(f"http.sslCAInfo={_existing(credentials.ca, 'RECONCILE_GIT_CA')}")
        username, secret = _login(address, credentials)
        if secret:
            # Cleared first: a helper of the user's own would be told the password and could store it. Scoped to this
            # host: a redirect to another one gets nothing.
            settings += ["credential.helper=", f"credential.{address.origin}.helper={_HELPER}"]
            environment |= {"RECONCILE_GIT_USERNAME": username, "RECONCILE_GIT_PASSWORD": secret}
    return Access(tuple(part for setting in settings for part in ("-c", setting)), environment, secret)


def _login(address: Address, credentials: Credentials) -> tuple[str, str]:
    """User name and password: the URL's own, else the configured ones. A lone name in a URL may be a token."""
    if address.password:
        return address.username, address.password
    secret = credentials.secret()
    if secret:
        return address.username or credentials.username or "git", secret
    return "git", address.username


def _ssh(credentials: Credentials) -> str:
    """The ssh command: never asks, never trusts an unknown host, gives up in time, leaves no master process."""
    options = {
        "BatchMode": "yes",
        "ConnectTimeout": "10",
        "ServerAliveInterval": "15",
        "ServerAliveCountMax": "2",
        "StrictHostKeyChecking": "yes",
        "UpdateHostKeys": "no",
        "ControlMaster": "no",
        "ControlPath": "none",
    }
    if credentials.known_hosts:
        # Quotes and %% for ssh's own parser; the shell's quoting comes on top.
        known = _existing(credentials.known_hosts, "RECONCILE_GIT_KNOWN_HOSTS").replace("%", "%%")
        options |= {"UserKnownHostsFile": f'"{known}"', "GlobalKnownHostsFile": "/dev/null"}
    if credentials.ssh_key:
        key = _existing(credentials.ssh_key, "RECONCILE_GIT_SSH_KEY").replace("%", "%%")
        options |= {"IdentitiesOnly": "yes", "IdentityFile": f'"{key}"'}
    words = ["ssh", *(part for name, value in options.items() for part in ("-o", f"{name}={value}"))]
    return shlex.join(words)


def _existing(path: str, variable: str) -> str:
    """The absolute path of a file that must be there: ssh and curl only hint at a missing one."""
    absolute = Path(os.path.expanduser(path)).absolute()  # noqa: PTH111  (Path's own fails for an unknown user)
    if not absolute.is_file():
        raise SourceError(f"{variable}: {path}: no such file")
    return str(absolute)


def explain(stderr: str, source: Source, secret: str) -> str:
    """One line that says what a refused fetch means, without credentials; empty when the cause may be the mirror."""
    clean = redact(stderr, secret)
    address = source.address
    if address is None:
        return last_words(clean)
    found = ((re.search(f".*(?:{pattern}).*", clean), text) for pattern, text in _MEANINGS)
    line, text = next(((match.group(), text) for match, text in found if match), ("", ""))
    words = {
        "url": address.url,
        "host": address.host or "this machine",
        "ref": source.ref or "HEAD",
        "path": address.url.removeprefix("file://"),
        "keyscan": _keyscan(address, source.credentials),
        "nothing": "no repository there, or no right to see it",
        "hosts": source.credentials.known_hosts or "~/.ssh/known_hosts",
        "key": source.credentials.ssh_key or "KEY",
        "advice": _advice(address),
        "words": last_words(line),
    }
    return text.format(**words)


def _keyscan(address: Address, credentials: Credentials) -> str:
    host = f"-p {address.port} {address.host}" if address.port else address.host
    hosts = credentials.known_hosts or "~/.ssh/known_hosts"
    return f"Add it: ssh-keyscan {host} >> {hosts}, and compare it with the fingerprint that its owner publishes"


def _advice(address: Address) -> str:
    if address.scheme == "ssh":
        return "is the public part of RECONCILE_GIT_SSH_KEY (or of a key of the ssh agent) known there?"
    if address.scheme == "https":
        return "check RECONCILE_GIT_USERNAME and RECONCILE_GIT_PASSWORD_FILE or RECONCILE_GIT_TOKEN_FILE"
    return "may this user read it?"


def stale_lock(stderr: str) -> Path | None:
    """The lock file that git found in its way."""
    match = _LOCK.search(stderr)
    return Path(match.group(1)) if match else None
