"""Every error is presentable: a sentence, an exit code, and what to do next."""

from __future__ import annotations

import errno
import inspect
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

import pytest
import typer

from pseries import errors
from pseries.cli import failures
from pseries.model.spec import SOURCES, Upstream

CATEGORIES = tuple(failures.CODES)
CONCRETE = sorted(
    (
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.PseriesError) and kind not in (errors.PseriesError, *CATEGORIES)
    ),
    key=lambda kind: kind.__name__,
)


def example(kind: type[errors.PseriesError]) -> errors.PseriesError:
    """Return an error with something in every field."""
    return kind(*(_value(hint) for hint in get_type_hints(kind).values()))


def _value(hint: object) -> object:
    if hint is errors.Problem:
        return errors.Problem("a.py", "is odd")
    if get_origin(hint) is tuple:
        members = [each for each in get_args(hint) if each is not Ellipsis]
        repeated = Ellipsis in get_args(hint)
        return (_value(members[0]),) if repeated else tuple(_value(each) for each in members)
    if get_args(hint):  # an optional value
        return _value(next(each for each in get_args(hint) if each is not type(None)))
    return {str: "word", int: 3, float: 3.0, bool: True}[hint]  # type: ignore[index]


@pytest.mark.parametrize("kind", CONCRETE)
def test_it_has_one_category_a_sentence_and_a_next_step(kind: type[errors.PseriesError]):
    assert sum(issubclass(kind, category) for category in CATEGORIES) == 1
    error = example(kind)
    assert str(error)
    assert "word" in str(error) or "a.py" in str(error) or "3" in str(error)
    assert failures.code_of(error) in (1, 3, 4, 5)
    assert failures.hint_of(error) or isinstance(error, failures.SELF_EVIDENT)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ManifestMissing("s"), 1),
        (errors.RecoveryNeeded("/site", ("a.py",)), 3),
        (errors.Drift("s", "/site", (("a.py", "missing"),)), 4),
        (errors.IndexUnreachable("index", "no answer"), 5),
        (KeyboardInterrupt(), 130),
        (PermissionError(13, "Permission denied", "/x"), 1),
    ],
)
def test_exit_codes(error: BaseException, code: int, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(typer.Exit) as caught, failures.reported(debug=False):
        raise error
    assert caught.value.exit_code == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("pseries: ")
    assert "Traceback" not in said.err


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(typer.Exit), failures.reported(debug=True):
        raise errors.ManifestMissing("s")
    assert "Traceback" in capsys.readouterr().err


def test_fields_are_checked_like_those_of_a_dataclass():
    error = errors.WrongRelease("s", "d", wanted="1", found="2", fits=())
    assert (error.series, error.found) == ("s", "2")
    for values, named in (((), {}), (("s",) * 6, {}), (("s",) * 5, {"series": "s"})):
        with pytest.raises(TypeError, match="WrongRelease takes series, distribution"):
            errors.WrongRelease(*values, **named)


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.ENOSPC, "free space there"),
        (errno.EEXIST, "a file stands where a folder is needed"),
        (errno.ENOTDIR, "a file stands where a folder is needed"),
        (errno.EACCES, "take another place, or become somebody who may"),
        (errno.EROFS, "take another place, or become somebody who may"),
        (errno.ENOENT, "see that the path exists"),
    ],
)
def test_what_to_do_about_the_system(number: int, hint: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(typer.Exit), failures.reported(debug=False):
        raise OSError(number, "no", "/x")
    assert hint in capsys.readouterr().err.splitlines()[-1]


def test_a_bug_is_not_hidden():
    with pytest.raises(ZeroDivisionError), failures.reported(debug=False):
        raise ZeroDivisionError


def test_a_next_command_can_be_pasted():
    assert failures.hint_of(errors.RecoveryNeeded("/a b", ())) == "pseries recover '/a b'"
    assert failures.hint_of(errors.ManifestMissing("eng-1.0")) == "pseries lock eng-1.0"


def test_the_command_that_fetches_a_release_fetches_what_the_series_wants():
    upstream = Upstream("eng", "1.0", "https://h/x y.git", "v1.0", "python", SOURCES)
    assert failures.fetch_command(upstream) == (
        "pseries upstream fetch eng 1.0 --git 'https://h/x y.git' --root python"
    )
    upstream = Upstream("eng", "1.0", "", "", "", ("wheel",))
    assert failures.fetch_command(upstream) == "pseries upstream fetch eng 1.0 --source wheel"
    upstream = Upstream("eng", "1.0", "", "", "", SOURCES)
    assert failures.fetch_command(upstream) == "pseries upstream fetch eng 1.0"
    upstream = Upstream("eng", "1.0", "/x", "r1", "", ("git",))
    assert failures.fetch_command(upstream) == (
        "pseries upstream fetch eng 1.0 --git /x --tag r1 --source git"
    )
    error = errors.ReleaseNotStored("eng", "1.0", "", "", "python", ("sdist", "wheel"), ())
    assert failures.hint_of(error) == (
        "with the network: pseries upstream fetch eng 1.0 --root python;"
        " or add it from a folder: pseries upstream add eng 1.0 FOLDER --root python"
    )


def test_a_current_folder_that_is_gone_is_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(typer.Exit), failures.reported(debug=False):
        Path.cwd()
    said = capsys.readouterr().err
    assert said.startswith("pseries: the current folder was removed\n  → cd ")
    with pytest.raises(typer.Exit), failures.reported(debug=False):
        Path("other").stat()
    assert "No such file or directory: other" in capsys.readouterr().err


def test_a_release_without_wheels_has_none_to_choose_from():
    error = errors.NoWheelFits("eng", "1.0", "this interpreter", ())
    assert str(error) == "no wheel of eng 1.0 is known: none is in the manifest"
    assert failures.hint_of(error).startswith("give one: --from WHEEL; ")
