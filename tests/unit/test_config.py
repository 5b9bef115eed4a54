"""Where a setting comes from, and which settings are refused."""

from pathlib import Path
from typing import Any

import pytest

from reconciler.config import Settings, check_writes, default_state_dir, settings_from
from reconciler.errors import UsageError
from reconciler.model.workload import InstanceId


@pytest.mark.parametrize(
    ("flags", "environ", "name", "value"),
    [
        ({}, {}, "interval", 10.0),
        ({}, {"RECONCILE_INTERVAL": "1m30s"}, "interval", 90.0),
        ({"interval": 5.0}, {"RECONCILE_INTERVAL": "1m"}, "interval", 5.0),
        ({}, {"RECONCILE_INTERVAL": ""}, "interval", 10.0),
        ({}, {"RECONCILE_REPO": "/srv/fleet"}, "repo", "/srv/fleet"),
        ({}, {"RECONCILE_HOST": "gpu-01, gpu-02,"}, "host", ("gpu-01", "gpu-02")),
        ({"host": ("a",)}, {"RECONCILE_HOST": "b"}, "host", ("a",)),
        ({}, {"RECONCILE_DRY_RUN": "YES"}, "dry_run", True),
        ({}, {"RECONCILE_DRY_RUN": "0"}, "dry_run", False),
        ({}, {"RECONCILE_WIDTH": "120"}, "width", 120),
        ({}, {"RECONCILE_STATE_DIR": "/var/lib/r"}, "state_dir", Path("/var/lib/r")),
    ],
)
def test_a_setting_comes_from_the_flag_then_the_variable_then_the_default(
    flags: dict[str, Any], environ: dict[str, str], name: str, value: object
) -> None:
    """Flags win over variables, variables over defaults; an empty variable is none."""
    assert getattr(settings_from(flags, environ), name) == value


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"RECONCILE_INTERVAL": "soon"}, "RECONCILE_INTERVAL: not a duration: 'soon' (write 10s, 1h30m or 500ms)"),
        ({"RECONCILE_DRY_RUN": "maybe"}, "RECONCILE_DRY_RUN: not a yes or no: 'maybe' (write 1 or 0)"),
        ({"RECONCILE_WIDTH": "7"}, "RECONCILE_WIDTH: not a width: '7' (write a number of columns, at least 20)"),
        ({"RECONCILE_JSON": "1", "RECONCILE_MARKDOWN": "1"}, "--json and --markdown exclude one another"),
    ],
)
def test_a_bad_variable_is_named_in_one_line(environ: dict[str, str], message: str) -> None:
    """The variable and what it should have been stand in the message."""
    with pytest.raises(UsageError) as raised:
        settings_from({}, environ)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"HOME": "/home/ada"}, "/home/ada/.local/state/reconciler"),
        ({"HOME": "/home/ada", "XDG_STATE_HOME": "/state"}, "/state/reconciler"),
        ({"HOME": "/home/ada", "XDG_STATE_HOME": "relative"}, "/home/ada/.local/state/reconciler"),
        ({}, "/root/.local/state/reconciler"),
    ],
)
def test_the_state_directory_follows_the_xdg_specification(environ: dict[str, str], folder: str) -> None:
    """``$XDG_STATE_HOME`` must be absolute; else ``~/.local/state`` is taken."""
    assert default_state_dir(environ) == Path(folder)


@pytest.mark.parametrize("name", ["worktree", "snapshot"])
def test_what_nobody_committed_or_saw_is_only_planned(name: str) -> None:
    """A work tree and a saved snapshot need --dry-run."""
    given: dict[str, Any] = {name: "file" if name == "snapshot" else True}
    with pytest.raises(UsageError, match="add --dry-run"):
        check_writes(settings_from(given, {}))
    check_writes(settings_from(given | {"dry_run": True}, {}))


@pytest.mark.parametrize(
    ("hosts", "only", "host", "instance", "selected"),
    [
        ((), (), "gpu-01", "app/web/0", True),
        (("gpu-01",), (), "gpu-01", "app/web/0", True),
        (("gpu-0?",), (), "gpu-01", "app/web/0", True),
        (("gpu-02",), (), "gpu-01", "app/web/0", False),
        ((), ("app/web",), "gpu-01", "app/web/0", True),
        ((), ("app/web/0",), "gpu-01", "app/web/0", True),
        ((), ("app/web/1",), "gpu-01", "app/web/0", False),
        ((), ("app/we",), "gpu-01", "app/web/0", False),
        ((), ("app/*",), "gpu-01", "app/web/0", True),
        ((), ("task/*",), "gpu-01", "app/web/0", False),
        ((), ("task",), "gpu-01", "task/train/4e1d/0/0", True),
        ((), ("app/web/0/extra",), "gpu-01", "app/web/0", False),
        ((), ("task/train", "app/web"), "gpu-01", "app/web/0", True),
        (("gpu-02",), ("app/web",), "gpu-01", "app/web/0", False),
    ],
)
def test_host_and_only_select_what_is_acted_on(
    hosts: tuple[str, ...], only: tuple[str, ...], host: str, instance: str, selected: bool
) -> None:
    """Both are globs; a selector covers what lies below it, part by part, and both must agree."""
    settings = Settings(host=hosts, only=only)
    assert settings.selects(host, InstanceId.parse(instance)) is selected
