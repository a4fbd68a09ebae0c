#!/usr/bin/env python3
"""Put the patched files beside this script into an installed package, and take them out again.

Needs Python 3.8 or newer and nothing else: no network, no git, no other package.

    python3 apply.py --check       say what would happen; change nothing
    python3 apply.py --apply       put the patched files in
    python3 apply.py --rollback    put every original back, to the last byte

Every file of this kit, and every file that it would replace, is verified by sha256 before anything
is written. Files are written beside, synced and renamed, never in place; the originals are kept in
the .pseries-kit folder of the site-packages folder until they are put back.

Exit status: 0 done, or already so; 1 refused, nothing changed; 2 usage; 3 interrupted before, run
--apply or --rollback again; 4 a file is neither the original nor the patched one, nothing changed.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import csv
import errno
import hashlib
import json
import os
import re
import stat
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # not a Unix: nothing keeps two runs apart there
    fcntl = None  # type: ignore[assignment]

KIT = "kit.json"
CONTROL = ".pseries-kit"
SCHEMA = 1
REFUSED, INTERRUPTED, DRIFTED = 1, 3, 4


class Stop(Exception):
    """Ends the run with a status and words."""

    def __init__(self, status: int, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.status = status


def say(text: str) -> None:
    """Print a line of the answer."""
    print(text.encode("utf-8", "backslashreplace").decode())  # noqa: T201 - a script talks


# --- files ------------------------------------------------------------------------------------


def sha256(data: bytes) -> str:
    """Return the sha256 of some bytes in hex."""
    return hashlib.sha256(data).hexdigest()


def sync_folder(folder: Path) -> None:
    """Make the names in a folder safe on disk, on file systems that can."""
    descriptor = os.open(str(folder), os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF):
            raise
    finally:
        os.close(descriptor)


def write(
    path: Path,
    data: bytes,
    mode: int,
    mtime_ns: int | None = None,
    owner: list[int] | None = None,
) -> None:
    """Replace or create a file: written beside, synced, renamed; the old one is never touched."""
    descriptor, name = tempfile.mkstemp(prefix=".pseries-", dir=str(path.parent))
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if owner is not None and owner != [os.geteuid(), os.getegid()]:
                with contextlib.suppress(PermissionError):  # not root: then the file is ours
                    os.chown(file.fileno(), owner[0], owner[1])
            os.chmod(file.fileno(), mode)  # noqa: PTH101 - by descriptor
            if mtime_ns is not None:
                os.utime(file.fileno(), ns=(mtime_ns, mtime_ns))
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def remove(path: Path) -> None:
    """Delete a file if it is there."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
        sync_folder(path.parent)


def below(root: Path, path: str) -> Path:
    """Return where ``path`` is below ``root``; nothing on the way may be a link."""
    parts = path.split("/")
    if "\\" in path or any(part in ("", ".", "..") for part in parts):
        raise Stop(REFUSED, f"{path}: not a path below a folder")
    place = root
    for number, part in enumerate(parts, 1):
        place = place / part
        try:
            mode = os.lstat(str(place)).st_mode
        except FileNotFoundError:
            continue
        last = number == len(parts)
        if not (stat.S_ISREG(mode) if last else stat.S_ISDIR(mode)):
            what = "a plain file" if last else "a folder"
            raise Stop(REFUSED, f"{place} is not {what}: links and the like are refused")
    return place


def content(root: Path, path: str) -> bytes | None:
    """Return the bytes of a file below ``root``, or ``None``."""
    place = below(root, path)
    try:
        return place.read_bytes()
    except FileNotFoundError:
        return None


def image_of(path: Path) -> dict[str, Any]:
    """Return what is needed to put a file back as it is."""
    found = os.lstat(str(path))
    return {
        "sha256": sha256(path.read_bytes()),
        "mode": stat.S_IMODE(found.st_mode),
        "mtime_ns": found.st_mtime_ns,
        "owner": [found.st_uid, found.st_gid],
    }


# --- the kit ----------------------------------------------------------------------------------


def load_kit(folder: Path) -> dict[str, Any]:
    """Return the kit's list, with every packed file verified and its bytes under ``data``."""
    try:
        kit: dict[str, Any] = json.loads((folder / KIT).read_bytes().decode("utf-8"))
    except (OSError, ValueError) as error:
        raise Stop(REFUSED, f"{KIT} cannot be read: {error}") from None
    if kit.get("schema") != SCHEMA:
        raise Stop(REFUSED, f"{KIT} has schema {kit.get('schema')}, not {SCHEMA}")
    kit["data"] = {}
    wrong = set()
    for layout in kit["layouts"]:
        for file in layout["files"]:
            for image in (file["before"], file["after"]):
                if image is None:
                    continue
                data = content(folder, image["file"])
                if data is None:
                    wrong.add(f"  {image['file']}: is missing")
                elif (sha256(data), len(data)) != (image["sha256"], image["size"]):
                    wrong.add(f"  {image['file']}: is damaged")
                else:
                    kit["data"][image["sha256"]] = data
    if wrong:
        raise Stop(REFUSED, "the kit is not whole:", *sorted(wrong))
    return kit


# --- the target -------------------------------------------------------------------------------


def dist_infos(site: Path, distribution: str) -> list[str]:
    """Return the dist-info folders of a distribution, whose name is in normal form (PEP 503)."""
    try:
        names = sorted(os.listdir(str(site)))  # noqa: PTH208 - names are wanted
    except OSError:
        return []
    ending = ".dist-info"
    return [
        name
        for name in names
        if name.endswith(ending)
        and re.sub(r"[-_.]+", "-", name[: -len(ending)].rsplit("-", 1)[0]).lower() == distribution
    ]


def find_site(given: str | None, distribution: str) -> tuple[Path, str]:
    """Return the site-packages folder, given or this interpreter's, and the dist-info in it."""
    if given is not None:
        candidates = [given]
    else:
        standard = sysconfig.get_paths()
        candidates = [standard["purelib"], standard["platlib"], *filter(os.path.isdir, sys.path)]
    places = list(dict.fromkeys(Path(candidate).resolve() for candidate in candidates))
    for place in places:
        found = dist_infos(place, distribution)
        if len(found) > 1:
            raise Stop(REFUSED, f"{place} holds more than one: {', '.join(found)}")
        if found:
            return place, found[0]
    looked_in = ", ".join(map(str, places))
    raise Stop(
        REFUSED,
        f"{distribution} is not installed in {looked_in}",
        "name the folder with --site-packages",
    )


def check_release(kit: dict[str, Any], site: Path, info: str) -> None:
    """Refuse any release but the kit's; a local label such as +cu129 makes no other release."""
    metadata = content(site, f"{info}/METADATA") or b""
    head = re.split(rb"\r?\n\r?\n", metadata, maxsplit=1)[0]
    found = re.search(rb"^Version[ \t]*:[ \t]*([^\r\n]*)", head, re.MULTILINE | re.IGNORECASE)
    version = found.group(1).decode("utf-8", "replace").strip() if found else "unknown"
    if version.split("+")[0].lower() != kit["version"]:
        raise Stop(
            REFUSED,
            f"this kit is for {kit['distribution']} {kit['version']};"
            f" {site} holds version {version}",
        )
    if (site / ".pseries" / "journal").exists():
        raise Stop(REFUSED, f"an interrupted change is there: run `pseries recover {site}` first")


PRISTINE, PATCHED = "original", "patched"


def state_of(site: Path, file: dict[str, Any]) -> str:
    """Say what a file of the target is."""
    data = content(site, file["path"])
    digest = None if data is None else sha256(data)
    for state, image in ((PRISTINE, file["before"]), (PATCHED, file["after"])):
        if digest == (None if image is None else image["sha256"]):
            return state
    return "missing" if data is None else "neither the original nor the patched file"


def choose(kit: dict[str, Any], site: Path) -> tuple[dict[str, Any], str]:
    """Return the layout that the tree has, and whether its files are original or patched."""
    tables = []
    for layout in kit["layouts"]:
        states = [(state_of(site, file), file["path"]) for file in layout["files"]]
        for state in (PRISTINE, PATCHED):
            if all(found == state for found, _ in states):
                return layout, state
        known = sum(found in (PRISTINE, PATCHED) for found, _ in states)
        tables.append((known, states))
    nearest = max(tables, key=lambda table: table[0])[1]
    lines = [f"  {path}: {state}" for state, path in nearest]
    raise Stop(DRIFTED, f"files in {site} are not those of the release:", *lines)


# --- RECORD -----------------------------------------------------------------------------------


def rows_of(record: bytes) -> list[tuple[str, bytes]]:
    """Return the rows of a RECORD with their line ends, each with its path."""
    rows = []
    for row in record.splitlines(keepends=True):
        fields: list[str] = next(csv.reader([row.decode("utf-8", "surrogateescape")]), [])
        rows.append((fields[0] if fields else "", row))
    return rows


def row_for(path: str, image: dict[str, Any] | None, ending: str) -> str | None:
    """Return the row of a file, or ``None`` for one that goes."""
    if image is None:
        return None
    digest = base64.urlsafe_b64encode(bytes.fromhex(image["sha256"])).decode().rstrip("=")
    quoted = '"{}"'.format(path.replace('"', '""')) if re.search(r'[",]', path) else path
    return f"{quoted},sha256={digest},{image['size']}{ending}"


def with_rows(record: bytes, rows: dict[str, str | None]) -> bytes:
    """Return RECORD with these rows replaced, added, or (None) dropped; others keep every byte."""
    left = {
        path: row if row is None else row.encode("utf-8", "surrogateescape")
        for path, row in rows.items()
    }
    result = []
    for path, row in rows_of(record):
        new = left.pop(path) if path in left else row
        if new is not None:
            result.append(new)
    for _, new in sorted(left.items()):
        if new is not None:
            if result and not result[-1].endswith(b"\n"):
                result[-1] += b"\n"
            result.append(new)
    return b"".join(result)


# --- the journal ------------------------------------------------------------------------------


class Journal:
    """What a run is about to do, or did: written before the first file is, removed at the end."""

    def __init__(self, site: Path, series: str) -> None:
        self.control = site / CONTROL
        self.folder = self.control / series
        self.path = below(site, f"{CONTROL}/{series}/state.json")
        self._lock: IO[str] | None = None

    def __enter__(self) -> Journal:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = (self.control / "lock").open("a")
        if fcntl is not None:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._lock.close()
                raise Stop(REFUSED, f"another run is at work in {self.control}") from None
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing behind where nothing is applied."""
        if not self.path.exists():
            for waste in self.folder.iterdir():
                waste.unlink()
            self.folder.rmdir()
        if [path.name for path in self.control.iterdir()] == ["lock"]:
            (self.control / "lock").unlink()
            self.control.rmdir()
        if self._lock is not None:
            self._lock.close()

    def load(self) -> dict[str, Any] | None:
        """Return what was written down, ``None`` where nothing is applied."""
        try:
            state: dict[str, Any] = json.loads(self.path.read_bytes().decode("utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise Stop(REFUSED, f"{self.path} cannot be read: {error}") from None
        return state

    def save(self, state: dict[str, Any]) -> None:
        """Write the state down."""
        write(self.path, (json.dumps(state, indent=1) + "\n").encode(), 0o644)

    def keep(self, name: str, path: Path) -> dict[str, Any]:
        """Keep a file's bytes, and return its image with the name they are kept under."""
        write(self.folder / name, path.read_bytes(), 0o600)
        return {**image_of(path), "kept": name}

    def put_back(self, path: Path, image: dict[str, Any]) -> None:
        """Write a kept file where it was, with its mode and times."""
        data = (self.folder / image["kept"]).read_bytes()
        if sha256(data) != image["sha256"]:
            raise Stop(REFUSED, f"the kept original of {path} is damaged")
        write(path, data, image["mode"], image["mtime_ns"], image["owner"])


# --- the change, and its way back -------------------------------------------------------------


def compiled(site: Path, path: str) -> list[str]:
    """Return the bytecode files of a source file, as paths below ``site``."""
    folder, _, name = path.rpartition("/")
    cache = f"{folder}/__pycache__" if folder else "__pycache__"
    if not name.endswith(".py") or not (site / cache).is_dir():
        return []
    pattern = re.compile(re.escape(name[: -len(".py")]) + r"\.[^/]+\.pyc")
    names = sorted(found.name for found in (site / cache).iterdir())
    return [f"{cache}/{found}" for found in names if pattern.fullmatch(found)]


def begin(site: Path, info: str, layout: dict[str, Any], journal: Journal) -> dict[str, Any]:
    """Keep every original and write down what is to be done: from here on it can be undone."""
    entries: list[dict[str, Any]] = []
    for file in layout["files"]:
        before, after = file["before"], file["after"]
        entry = {"path": file["path"], "after": None, "executable": None, "derived": False}
        if after is not None:
            entry["after"] = after["sha256"]
            if before is None or before["executable"] != after["executable"]:
                entry["executable"] = after["executable"]
        entries.append(entry)
        entries += [
            {"path": path, "after": None, "executable": None, "derived": True}
            for path in compiled(site, file["path"])
        ]
    for number, entry in enumerate(entries, 1):
        place = below(site, entry["path"])
        entry["before"] = journal.keep(f"{number:04}", place) if place.exists() else None
    above = {
        "/".join(parts[:depth])
        for parts in (entry["path"].split("/") for entry in entries if entry["after"] is not None)
        for depth in range(1, len(parts))
    }
    state = {
        "schema": SCHEMA,
        "status": "applying",
        "entries": entries,
        "folders": sorted(folder for folder in above if not (site / folder).is_dir()),
        "record": begin_record(site, f"{info}/RECORD", layout, journal),
    }
    journal.save(state)
    return state


def begin_record(
    site: Path, path: str, layout: dict[str, Any], journal: Journal
) -> dict[str, Any] | None:
    """Keep RECORD and work out the rows that change."""
    data = content(site, path)
    if data is None:
        return None
    ending = "\r\n" if b"\r\n" in data else "\n"
    new = {file["path"]: row_for(file["path"], file["after"], ending) for file in layout["files"]}
    there = dict(rows_of(data))
    old = {
        name: there[name].decode("utf-8", "surrogateescape") if name in there else None
        for name in new
    }
    return {
        "path": path,
        "before": journal.keep("0000", below(site, path)),
        "written": sha256(with_rows(data, new)),
        "new": new,
        "old": old,
    }


def current(site: Path, entry: dict[str, Any]) -> str:
    """Say which of its two states a file is in, or that it is in another."""
    data = content(site, entry["path"])
    digest = None if data is None else sha256(data)
    if digest == entry["after"]:
        return "after"
    return "before" if digest == (entry["before"] or {"sha256": None})["sha256"] else "other"


def refuse_changed(site: Path, state: dict[str, Any]) -> None:
    """End the run, before it changes anything, if somebody changed a file since."""
    odd = [
        f"  {entry['path']}"
        for entry in state["entries"]
        if not entry["derived"] and current(site, entry) == "other"
    ]
    if odd:
        raise Stop(DRIFTED, "changed since, so left alone; put aside and run again:", *odd)


def forward(site: Path, kit: dict[str, Any], state: dict[str, Any], journal: Journal) -> None:
    """Bring every file to its new state; one that is there already is passed over."""
    refuse_changed(site, state)
    for entry in state["entries"]:
        place = below(site, entry["path"])
        before = entry["before"] or {"mode": 0o644, "owner": None}
        if entry["after"] is None:
            remove(place)
        elif current(site, entry) != "after":
            mode = before["mode"]
            if entry["executable"] is not None:
                mode = mode | 0o111 if entry["executable"] else mode & ~0o111
            place.parent.mkdir(parents=True, exist_ok=True)
            write(place, kit["data"][entry["after"]], mode, owner=before["owner"])
    put_record(site, state["record"], "new", journal)
    state["status"] = "applied"
    journal.save(state)


def backward(site: Path, state: dict[str, Any], journal: Journal) -> None:
    """Bring every file back to its old state, bytecode included; then forget."""
    refuse_changed(site, state)
    state["status"] = "rolling back"
    journal.save(state)
    for entry in reversed(state["entries"]):
        place = below(site, entry["path"])
        if not entry["derived"]:
            for path in compiled(site, entry["path"]):
                remove(below(site, path))
        if entry["before"] is None:
            remove(place)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            journal.put_back(place, entry["before"])
    for entry in state["entries"]:  # again, for what was compiled meanwhile is gone now
        if entry["derived"] and entry["before"] is not None:
            journal.put_back(below(site, entry["path"]), entry["before"])
    put_record(site, state["record"], "old", journal)
    for folder in sorted(state["folders"], reverse=True):
        with contextlib.suppress(OSError):  # somebody put something there
            if (site / folder / "__pycache__").is_dir():
                (site / folder / "__pycache__").rmdir()
            (site / folder).rmdir()
    remove(journal.path)  # the commit: without it the rest is waste, and is thrown away


def put_record(site: Path, record: dict[str, Any] | None, which: str, journal: Journal) -> None:
    """Bring RECORD's rows up to date; back to its very bytes if nobody else changed it since."""
    if record is None:
        return
    place, before = below(site, record["path"]), record["before"]
    there = content(site, record["path"]) or b""
    if which == "old" and sha256(there) == record["written"]:
        journal.put_back(place, before)
        return
    data = with_rows(there, record[which])
    if data != there:
        write(place, data, before["mode"], owner=before["owner"])


# --- the run ----------------------------------------------------------------------------------


def run(action: str, given: str | None) -> None:
    """Do what was asked; anything that keeps it from being done ends the run with a status."""
    kit = load_kit(Path(__file__).resolve().parent)
    site, info = find_site(given, kit["distribution"])
    check_release(kit, site, info)
    journal = Journal(site, kit["series"])
    what = f"{kit['series']} on {info[: -len('.dist-info')]} in {site}"
    if action == "check":
        check(kit, site, journal.load(), what)
        return
    with journal:
        if action == "rollback":
            roll_back(site, journal, what)
        else:
            apply(kit, site, info, journal, what)


def check(kit: dict[str, Any], site: Path, state: dict[str, Any] | None, what: str) -> None:
    """Say what ``--apply`` would do."""
    if state is not None and state["status"] != "applied":
        words = f"{what}: interrupted while {state['status']}"
        raise Stop(INTERRUPTED, words, "run --apply to finish it, or --rollback to undo it")
    layout, found = choose(kit, site)
    say(f"{what}: {'already applied' if found == PATCHED else 'can be applied'}")
    for file in layout["files"]:
        say(f"  {file['path']}")


def apply(kit: dict[str, Any], site: Path, info: str, journal: Journal, what: str) -> None:
    """Put the patched files in, or go on where an earlier run was killed."""
    state = journal.load()
    if state is not None and state["status"] == "rolling back":
        raise Stop(INTERRUPTED, f"{what}: a rollback was interrupted: run --rollback to finish it")
    if state is None:
        layout, found = choose(kit, site)
        if found == PATCHED:
            say(f"{what}: already applied")
            return
        state = begin(site, info, layout, journal)
    done = state["status"] == "applied" and all(
        entry["derived"] or current(site, entry) == "after" for entry in state["entries"]
    )
    if not done:
        forward(site, kit, state, journal)
    say(f"{what}: {'already applied' if done else 'applied'}")
    for entry in state["entries"]:
        if not (done or entry["derived"]):
            say(f"  {entry['path']}")
    if state["record"] is None:
        say("  there is no RECORD, so none was updated")


def roll_back(site: Path, journal: Journal, what: str) -> None:
    """Put the originals back."""
    state = journal.load()
    if state is None:
        raise Stop(REFUSED, f"{what}: not applied by this kit, so there is nothing to undo")
    backward(site, state, journal)
    say(f"{what}: rolled back")


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    group = parser.add_mutually_exclusive_group(required=True)
    for action in ("check", "apply", "rollback"):
        group.add_argument(f"--{action}", dest="action", action="store_const", const=action)
    parser.add_argument("--site-packages", metavar="FOLDER", help="default: this interpreter's")
    options = parser.parse_args(arguments)
    try:
        run(options.action, options.site_packages)
    except Stop as stop:
        sys.stderr.write(f"{stop}\n")
        return stop.status
    except OSError as error:
        sys.stderr.write(f"{error.filename or 'the system says'}: {error.strerror or error}\n")
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
