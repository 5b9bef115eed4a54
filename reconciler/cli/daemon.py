"""``reconcile daemon``: keep reconciling until told to stop."""

import json
import threading
import time
from datetime import UTC, datetime

from reconciler.cli.output import complain
from reconciler.cli.wiring import Wiring
from reconciler.config import Settings
from reconciler.daemon import Daemon, signals
from reconciler.desired.watch import watch
from reconciler.errors import NoRepositoryError, SourceError, SpecError, UsageError
from reconciler.journal.journal import Event, Journal

DONE = 0


def daemon(settings: Settings) -> int:
    """Passes on a new commit, on drift, on hints and on a timer. Raises LockHeldError when another one is at work."""
    if settings.dry_run:
        raise UsageError("daemon has no dry run: leave out RECONCILE_DRY_RUN")
    wiring = Wiring(settings)
    _wait_for_source(wiring)
    with wiring.writing() as journal:
        _run(wiring, journal)
    return DONE


def _run(wiring: Wiring, journal: Journal) -> None:
    told: set[str] = set()

    def log(events: list[Event]) -> None:
        for event in events:
            write(event, as_json=wiring.settings.json)
        try:
            journal.record(events)
        except SourceError as error:  # a full disk: the history has a gap, and the daemon goes on
            if str(error) not in told:
                told.add(str(error))
                write(_said(str(error)), as_json=wiring.settings.json)
        else:
            told.clear()

    hands = wiring.hands
    loop = Daemon(
        wiring.cycle(),
        hands,
        wiring.selects,
        read=wiring.read,
        clock=wiring.clock,
        log=log,
        interval=wiring.settings.interval,
    )

    def stop_hands() -> None:
        loop.stopping.wait()
        hands.shutdown(wait=False)

    threading.Thread(target=stop_hands, name="stop", daemon=True).start()
    try:
        with signals(loop):
            # A warning comes from a watcher's thread, and the journal belongs to this one.
            watch(wiring.repository.watched(), loop.stopping, loop.hint, lambda text: write(_said(text), as_json=False))
            loop.run()
    finally:
        loop.stop()
        hands.shutdown()
        hands.close()


def _wait_for_source(wiring: Wiring) -> None:
    """A daemon that starts before its git server waits for it; why is said once."""
    said = ""
    while True:
        try:
            wiring.read()
        except NoRepositoryError:
            raise
        except (SourceError, SpecError) as error:
            if str(error) != said:
                said = str(error)
                write(_said(said), as_json=wiring.settings.json)
            time.sleep(wiring.settings.interval)
        else:
            return


def _said(text: str) -> Event:
    return Event(time.time(), "source", "", "", text)


def write(event: Event, *, as_json: bool) -> None:
    """One line on stderr: for people, or a JSON object. A message of several lines stays one line."""
    at = f"{datetime.fromtimestamp(event.at, UTC):%Y-%m-%dT%H:%M:%SZ}"
    fields = {"kind": event.kind, "instance": event.instance, "host": event.host, "message": event.message}
    given = {name: value for name, value in fields.items() if value}
    if as_json:
        line = json.dumps({"time": at, **given}, ensure_ascii=False)
    else:
        line = " ".join([at, *(f"{name}={_quoted(value)}" for name, value in given.items())])
    complain(line)


def _quoted(value: str) -> str:
    """As it is where that is one harmless word, else as a JSON string."""
    if value.isprintable() and not set(value) & set(' "=\\'):
        return value
    return json.dumps(value, ensure_ascii=not value.isprintable())
