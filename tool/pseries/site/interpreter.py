"""Where a Python interpreter would import a distribution from, and whether that is where it lies.

``pip show`` and ``importlib.metadata`` name the folder of the metadata. ``PYTHONPATH``, ``.pth``
files, editable finders, zip files and the current folder can all make ``import`` take another
copy, and a patch of the wrong copy is worse than none. So both are asked, and have to agree.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pseries.errors import (
    DistributionNotFound,
    DistributionRefused,
    InterpreterFailed,
    SiteNotFound,
    WrongTree,
)
from pseries.model import naming
from pseries.site import distribution
from pseries.site.fs import SiteTree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pseries.site.distribution import Distribution

TIMEOUT = 60.0
"""Seconds that another interpreter may take to start; on a cold network file system it is many."""
MOST_SAID = 64 << 20
"""Bytes that an interpreter may say, or write to any file."""

# Runs in whatever Python the user names, so it is kept to what Python 3.6 understands.
_SCRIPT = """
import json, sys
from importlib.util import find_spec
def origins(name):
    try:
        spec = find_spec(name)
    except Exception as error:
        return ["nowhere: %s" % error]
    if spec is None:
        return []
    if spec.origin not in (None, "namespace"):
        return [spec.origin]
    return list(spec.submodule_search_locations or ())
print(json.dumps([sys.path, {name: origins(name) for name in sys.argv[1:]}]))
"""


_PATHS = "import json, sysconfig, sys; print(json.dumps(sysconfig.get_paths()[sys.argv[1]]))"
_NOT_UNDERSTOOD = "its answer is not understood"


def locate(python: Path | None, name: str) -> Path:
    """Return the folder in which ``name`` is installed, and that an interpreter imports it from.

    Args:
        python: an executable, run isolated (``-I``) from ``/``; ``None`` for this process, whose
            ``PYTHONPATH`` counts but whose current folder does not.
        name: the distribution.

    Raises:
        InterpreterFailed: the interpreter does not answer.
        DistributionNotFound: it is in no folder that the interpreter looks into.
        WrongTree: it is installed in one folder, but another copy is imported.
        And what :func:`pseries.site.distribution.find` raises.
    """
    shown = sys.executable if python is None else str(python)
    guess = naming.normalized(name).replace("-", "_")
    folders, origins = _ask(python, (guess,))
    looked_in = []
    for folder in folders:
        try:
            with SiteTree(Path(folder)) as tree:
                looked_in.append(str(tree.root))
                found = distribution.find(tree, name)
        except (SiteNotFound, DistributionNotFound):
            continue
        modules = _telling(found, guess)
        if set(modules) - origins.keys():
            origins = _ask(python, modules)[1]
        for module in modules:
            _compare(tree.root, found.name, module, origins[module], shown)
        return tree.root
    if origins[guess]:
        reason = f"{shown} imports it from there, but no metadata say what it is"
        raise DistributionRefused(name, origins[guess][0], reason)
    raise DistributionNotFound(name, tuple(looked_in))


def folders(python: Path | None) -> tuple[Path, ...]:
    """Return the folders in which an interpreter looks for packages.

    Args:
        python: as for :func:`locate`.

    Raises:
        InterpreterFailed: the interpreter does not answer.
    """
    return tuple(Path(folder) for folder in _ask(python, ())[0] if Path(folder).is_dir())


def purelib(python: Path | None) -> Path:
    """Return the folder into which an interpreter's installer puts packages of plain Python.

    Args:
        python: as for :func:`locate`.

    Raises:
        InterpreterFailed: the interpreter does not answer.
    """
    return _installs_into(python, "purelib")


def scripts(python: Path | None) -> Path:
    """Return the folder into which an interpreter's installer puts commands.

    Args:
        python: as for :func:`locate`.

    Raises:
        InterpreterFailed: the interpreter does not answer.
    """
    return _installs_into(python, "scripts")


def _installs_into(python: Path | None, what: str) -> Path:
    import sysconfig  # noqa: PLC0415 - only where no folder was given

    if python is None:
        return Path(sysconfig.get_paths()[what])
    folder = _run(python, _PATHS, what)
    if not isinstance(folder, str) or not folder or "\0" in folder:
        raise InterpreterFailed(str(python), _NOT_UNDERSTOOD)
    return Path(folder)


def absolute(python: Path) -> Path:
    """Return the path of an interpreter that a person named: by a path, or by its name on PATH.

    Links are left as they are: that of a virtual environment leads to a Python without it.
    """
    import shutil  # noqa: PLC0415 - only `--python` pays for it

    if len(python.parts) == 1 and (found := shutil.which(str(python))) is not None:
        return Path(found)
    return Path.cwd() / python


def _telling(found: Distribution, guess: str) -> tuple[str, ...]:
    """Return the modules whose origin tells whether this copy is the one that is imported.

    The one that is named like the distribution is enough. What is called ``tests``, or like a
    module of the standard library, is shadowed all the time and tells nothing.
    """
    modules = found.modules()
    if guess in modules:
        return (guess,)
    return tuple(sorted({*modules} - sys.stdlib_module_names - {"test", "tests"}))


def _compare(site: Path, name: str, module: str, origins: Sequence[str], shown: str) -> None:
    # The file may be a link into a cache; which folder it was found in is the question.
    expected = (f"{site}/{module}/", f"{site}/{module}.")
    # A package without __init__.py may be spread over several folders.
    if not any(_settled(origin).startswith(expected) for origin in origins):
        where = ", ".join(origins) or "nowhere"
        raise WrongTree(name, str(site), module, where, shown)


def _settled(origin: str) -> str:
    """Return ``origin`` with links above the module's own folder resolved, as roots are."""
    path = Path(origin)
    package = path.parent if path.name.startswith("__init__.") else path
    return f"{package.parent.resolve()}/{package.name}" + ("" if package.suffix else "/")


def _ask(
    python: Path | None, modules: Sequence[str]
) -> tuple[Sequence[str], Mapping[str, Sequence[str]]]:
    """Return the folders that are searched for packages, and where each module comes from."""
    if python is None:
        return _ask_here(modules)
    answer = _run(python, _SCRIPT, *modules)
    if isinstance(answer, list) and len(answer) == 2:
        folders, origins = answer
        if (
            _are_texts(folders)
            and isinstance(origins, dict)
            and all(_are_texts(origins.get(module)) for module in modules)
        ):
            return folders, origins
    raise InterpreterFailed(str(python), _NOT_UNDERSTOOD)


def _are_texts(found: Any) -> bool:
    """Whether it is a list of what may be a path; ``open`` takes no NUL."""
    return isinstance(found, list) and all(
        isinstance(each, str) and "\0" not in each for each in found
    )


def _run(python: Path, script: str, *arguments: str) -> Any:
    """Run a script in another interpreter, isolated, and return the JSON of its last line."""
    import resource  # noqa: PLC0415 - only `--python` pays for these
    import subprocess  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    def bounded() -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        most = MOST_SAID if hard == resource.RLIM_INFINITY else min(MOST_SAID, hard)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    command = [str(absolute(python)), "-I", "-c", script, *arguments]
    try:
        # Files, not pipes: what says more than files may hold is ended by the system.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            done = subprocess.run(
                command,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                timeout=TIMEOUT,
                check=False,
                preexec_fn=bounded,
            )
            stdout, stderr = (file.read() for file in (out, err) if not file.seek(0))
    except subprocess.TimeoutExpired as error:
        raise InterpreterFailed(str(python), f"no answer within {TIMEOUT:g} s") from error
    except OSError as error:
        reason = "it is a folder" if absolute(python).is_dir() else error.strerror or str(error)
        raise InterpreterFailed(str(python), reason) from error
    if done.returncode != 0:
        said = stderr.decode("utf-8", "replace").strip().splitlines()
        raise InterpreterFailed(str(python), said[-1] if said else f"status {done.returncode}")
    try:
        # A .pth file may print as well; our line is the last.
        return json.loads(stdout.splitlines()[-1])
    except (ValueError, IndexError, RecursionError) as error:
        raise InterpreterFailed(str(python), _NOT_UNDERSTOOD) from error


def _ask_here(modules: Sequence[str]) -> tuple[Sequence[str], Mapping[str, Sequence[str]]]:
    here = {"", os.getcwd()}  # noqa: PTH109 - compared with entries of sys.path, which are text
    folders = [entry for entry in sys.path if entry not in here]
    return folders, {module: _origins(module, folders) for module in modules}


def _origins(module: str, folders: Sequence[str]) -> Sequence[str]:
    for finder in sys.meta_path:
        where: Any = folders if finder is PathFinder else None
        find_spec = getattr(finder, "find_spec", None)
        spec = find_spec(module, where) if find_spec else None
        if spec is not None:
            if spec.origin not in (None, "namespace"):
                return (str(spec.origin),)
            return tuple(spec.submodule_search_locations or ())
    return ()
