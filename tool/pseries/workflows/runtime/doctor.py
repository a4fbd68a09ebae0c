"""Whether a machine and an environment are what a series needs. Looks, and changes nothing.

Whatever is missing or broken is a line of the answer: what is asked of the outside may fail, and
the rest is worth knowing then too.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pseries.deploy import gpu, machine
from pseries.errors import (
    DistributionNotFound,
    DistributionRefused,
    EditableInstall,
    GitFailed,
    GitLimit,
    GitMissing,
    PseriesError,
    PythonNotFound,
    SiteNotFound,
    TargetRefused,
    WrongTree,
)
from pseries.git import process as git
from pseries.model import naming
from pseries.site import distribution as distributions
from pseries.site import interpreter
from pseries.site.fs import SiteTree
from pseries.workflows.runtime import calls, serve
from pseries.workflows.target.survey import Condition, survey

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packaging.requirements import Requirement

    from pseries.deploy.gpu import Gpu, Seen
    from pseries.model.series import Series
    from pseries.model.spec import Hardware
    from pseries.site.distribution import Installed
    from pseries.workflows.target.survey import Target

_MOST_METADATA = 4 << 20


class Verdict(Enum):
    """What a check says."""

    MET = "ok"
    UNMET = "NOT MET"
    UNKNOWN = "unknown"
    FACT = ""
    """Nothing was asked for: this is what there is."""


class Check(NamedTuple):
    """One line: what was looked at, what was found and wanted, and what mends it."""

    name: str
    verdict: Verdict
    found: str
    wanted: str = ""
    remedy: str = ""


class Report(NamedTuple):
    """All that was found.

    Attributes:
        series: its name, "" where none was given.
        site: the site-packages folder that was looked into.
        python: the interpreter that goes with it, "" where none is known.
        checks: the table.
        gpus: the accelerators.
        calls: into the required packages, ``None`` where they were not compared.
    """

    series: str
    site: str
    python: str
    checks: tuple[Check, ...]
    gpus: tuple[Gpu, ...]
    calls: calls.Compared | None

    @property
    def met(self) -> bool:
        """Whether nothing that was asked for is missing."""
        return all(check.verdict is not Verdict.UNMET for check in self.checks)


class _Place(NamedTuple):
    """Where is looked: folders in the order in which the interpreter searches them."""

    site: Path
    folders: tuple[Path, ...]
    python: Path | None
    problem: str = ""

    def install(self, requirement: str, *, over: bool) -> str:
        """Return the command that installs there, or all that is known of it.

        Args:
            requirement: what is to be installed.
            over: another version is there; ``pip install --target`` would leave its metadata
                beside the new one's.
        """
        wanted = shlex.quote(requirement)
        if self.python is not None:
            return f"{shlex.quote(str(self.python))} -m pip install {wanted}"
        where = "" if over else f"--target {shlex.quote(str(self.site))} "
        return f"PYTHON -m pip install {where}{wanted}, with the PYTHON that uses this folder"


def examine(
    series: Series | None,
    known: Mapping[str, tuple[str, str]],
    *,
    site: Path | None = None,
    python: Path | None = None,
    every_file: bool = False,
) -> Report:
    """Look at everything.

    Args:
        series: what is to run; ``None`` for what can be said without one.
        known: all known series, with the distribution and version that each is for.
        site: a site-packages folder.
        python: an interpreter; neither means the running one.
        every_file: compare the calls of all files of the distribution, not only of those that the
            series touches.

    Raises:
        SiteNotFound, InterpreterFailed: there is nothing to look into.
    """
    wanted = None if series is None else series.spec.upstream.distribution
    place = _place(wanted, site, python)
    checks: list[Check] = []
    compared: calls.Compared | None = None
    with contextlib.ExitStack() as stack:
        trees = _open(place.folders, stack)
        if series is None:
            checks += _fitting(trees, known)
            checks.append(_python(place, None))
        else:
            found = _installed(trees, series.spec.upstream.distribution)
            checks.append(_distribution(series, place, found, known))
            checks.append(_python(place, None if found is None else _metadata(*found)))
            checks += _required(series, place, trees, None if found is None else _metadata(*found))
            if checks[0].verdict is Verdict.MET:
                target, line = _surveyed(series, trees[0])
                checks.append(line)
                if series.spec.packages:
                    line, compared = _calls(series, trees, target, every_file=every_file)
                    checks.append(line)
    lines, gpus = _accelerators(place, None if series is None else series.spec.hardware)
    checks += lines
    checks += _machine(series, place)
    name = "" if series is None else series.name
    program = "" if place.python is None else str(place.python)
    return Report(name, str(place.site), program, tuple(checks), gpus, compared)


# --- where ----------------------------------------------------------------------------------------


def _place(distribution: str | None, site: Path | None, python: Path | None) -> _Place:
    if site is not None:
        with SiteTree(site) as tree:
            root = tree.root
        try:
            goal = serve.target(distribution or "", root, None, check=False)
        except PythonNotFound:
            return _Place(root, (root,), None)
        others: tuple[Path, ...] = ()
        with contextlib.suppress(PseriesError):
            others = interpreter.folders(goal.given)
        return _Place(root, (root, *(each for each in others if each != root)), goal.python)
    folders = interpreter.folders(python)
    program = Path(sys.executable) if python is None else interpreter.absolute(python)
    root, problem = interpreter.purelib(python), ""
    if distribution is not None:
        try:
            root = interpreter.locate(python, distribution)
        except (DistributionNotFound, DistributionRefused, EditableInstall, TargetRefused):
            pass  # said by the check of the distribution
        except WrongTree as error:
            problem = str(error)
    return _Place(root, (root, *(each for each in folders if each != root)), program, problem)


def _open(folders: Sequence[Path], stack: contextlib.ExitStack) -> tuple[SiteTree, ...]:
    """Open the folders that are there; the first must be."""
    trees = [stack.enter_context(SiteTree(folders[0]))]
    for folder in folders[1:]:
        with contextlib.suppress(SiteNotFound):
            trees.append(stack.enter_context(SiteTree(folder)))
    return tuple(trees)


def _installed(trees: Sequence[SiteTree], name: str) -> tuple[SiteTree, Installed] | None:
    wanted = naming.normalized(name)
    for tree in trees:
        for each in distributions.all_distributions(tree):
            if naming.normalized(each.name) == wanted:
                return tree, each
    return None


def _metadata(tree: SiteTree, installed: Installed) -> Mapping[str, tuple[str, ...]]:
    """Return the fields of METADATA that say what a distribution needs."""
    fields: dict[str, tuple[str, ...]] = {}
    try:
        found = tree.read(f"{installed.info}/METADATA", _MOST_METADATA)
    except TargetRefused:  # a link, or far too large: it says nothing
        return fields
    head = b"" if found is None else found.data.partition(b"\n\n")[0]
    for line in head.splitlines():
        key, _, value = line.decode("utf-8", "replace").partition(":")
        if key in ("Requires-Python", "Requires-Dist"):
            fields[key] = (*fields.get(key, ()), value.strip())
    return fields


# --- what is installed ----------------------------------------------------------------------------


def _fitting(trees: Sequence[SiteTree], known: Mapping[str, tuple[str, str]]) -> Iterator[Check]:
    names = {naming.normalized(name): name for name, _ in known.values()}
    for name in sorted(names):
        found = _installed(trees, name)
        if found is None:
            continue
        fits = _fits(found[1], known)
        text = f"series that fit: {', '.join(fits)}" if fits else "no known series fits"
        yield Check(name, Verdict.FACT, f"{found[1].version}: {text}")


def _fits(installed: Installed, known: Mapping[str, tuple[str, str]]) -> tuple[str, ...]:
    return tuple(
        sorted(
            name
            for name, (distribution, version) in known.items()
            if naming.normalized(distribution) == naming.normalized(installed.name)
            and naming.same_release(installed.version, version)
        )
    )


def _distribution(
    series: Series,
    place: _Place,
    found: tuple[SiteTree, Installed] | None,
    known: Mapping[str, tuple[str, str]],
) -> Check:
    upstream = series.spec.upstream
    wanted = f"{upstream.distribution} {upstream.version}"
    pin = f"{upstream.distribution}=={upstream.version}"
    install = place.install(pin, over=found is not None)
    if found is None:
        there = f"not installed in {place.site}"
        return Check("distribution", Verdict.UNMET, there, wanted, install)
    tree, installed = found
    text = f"{installed.name} {installed.version} in {tree.root}"
    if place.problem:
        return Check("distribution", Verdict.UNMET, place.problem, wanted, "mend PYTHONPATH")
    if naming.same_release(installed.version, upstream.version):
        return Check("distribution", Verdict.MET, text, wanted)
    fits = _fits(installed, known)
    remedy = f"take the series {' or '.join(fits)}, or: {install}" if fits else install
    return Check("distribution", Verdict.UNMET, text, wanted, remedy)


def _python(place: _Place, metadata: Mapping[str, tuple[str, ...]] | None) -> Check:
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415
    from packaging.version import Version  # noqa: PLC0415

    wanted = ((metadata or {}).get("Requires-Python") or ("",))[0]
    version = None if place.python is None else machine.python_version(str(place.python))
    if version is None:
        reason = "no interpreter of this folder was found"
        found = reason if place.python is None else f"{place.python} does not answer"
        remedy = "if you know it, name it instead of the folder: --python EXE"
        return Check("python", Verdict.UNKNOWN, found, wanted, remedy)
    found = f"{version} ({place.python})"
    if not wanted:
        return Check("python", Verdict.FACT, found)
    try:
        # A Python that is built from a checkout calls itself 3.14.0a0+.
        known = Version(version.removesuffix("+"))
        met = SpecifierSet(wanted).contains(known, prereleases=True)
    except ValueError:  # neither has to be what it should be
        return Check("python", Verdict.UNKNOWN, found, wanted)
    return Check("python", Verdict.MET if met else Verdict.UNMET, found, wanted)


def _required(
    series: Series,
    place: _Place,
    trees: Sequence[SiteTree],
    metadata: Mapping[str, tuple[str, ...]] | None,
) -> Iterator[Check]:
    own = tuple(_requirements((metadata or {}).get("Requires-Dist", ())))
    for text in series.spec.packages:
        requirement = _requirement(text)
        try:
            wanted = requirement is not None and (
                requirement.marker is None or requirement.marker.evaluate()
            )
        except ValueError:  # what it compares cannot be compared
            requirement = None
        if requirement is None:
            yield Check(
                text, Verdict.UNMET, "this is no requirement", "PEP 508", "mend series.toml"
            )
        elif wanted:
            yield _package(requirement, place, trees, own)


def _package(
    requirement: Requirement,
    place: _Place,
    trees: Sequence[SiteTree],
    own: Sequence[Requirement],
) -> Check:
    name, wanted = requirement.name, str(requirement.specifier) or "any version"
    found = _installed(trees, name)
    version = "not installed" if found is None else found[1].version
    if found is not None and _satisfies(version, requirement):
        return Check(name, Verdict.MET, version, wanted)
    remedy = place.install(f"{name}{requirement.specifier}", over=found is not None)
    for each in own:
        pinned = str(each.specifier)
        if naming.normalized(each.name) == naming.normalized(name) and pinned:
            remedy += f" (pip will warn: the engine itself asks for {pinned})"
            break
    return Check(name, Verdict.UNMET, version, wanted, remedy)


def _satisfies(version: str, requirement: Requirement) -> bool:
    from packaging.version import Version  # noqa: PLC0415

    try:
        return requirement.specifier.contains(Version(version), prereleases=True)
    except ValueError:  # InvalidVersion, or a number of thousands of digits
        return False


def _requirement(text: str) -> Requirement | None:
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415

    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


def _requirements(texts: Sequence[str]) -> Iterator[Requirement]:
    for text in texts:
        requirement = _requirement(text)
        if requirement is not None and "extra" not in str(requirement.marker or ""):
            yield requirement


# --- the series and its calls ---------------------------------------------------------------------


def _surveyed(series: Series, tree: SiteTree) -> tuple[Target | None, Check]:
    try:
        target = survey(series, tree, None, dict)
    except PseriesError as error:
        why = str(error).partition("\n")[0]
        return None, Check("series", Verdict.UNMET, f"cannot be applied: {why}", series.name)
    apply = f"pseries apply {series.name} {shlex.quote(str(tree.root))}"
    if target.all_are(Condition.PATCHED):
        return target, Check("series", Verdict.MET, "applied", series.name)
    if target.all_are(Condition.PRISTINE):
        line = Check("series", Verdict.FACT, "not applied yet, and it fits", series.name, apply)
        return target, line
    odd = ", ".join(f"{file.path}: {file.condition.value}" for file in target.files[:3])
    return target, Check(
        "series", Verdict.UNMET, f"drifted: {odd}", series.name, f"{apply} --check"
    )


def _calls(
    series: Series, trees: Sequence[SiteTree], target: Target | None, *, every_file: bool
) -> tuple[Check, calls.Compared | None]:
    name = "calls"
    if target is None:
        return Check(name, Verdict.UNKNOWN, "not compared: see above"), None
    if not calls.available():
        remedy = "install pseries with the extra 'semantic'"
        return Check(name, Verdict.UNKNOWN, "not compared: griffe is missing", "", remedy), None
    required = [each.name for each in map(_requirement, series.spec.packages) if each is not None]
    try:
        compared = calls.compare(series, target, trees, required, every_file=every_file)
    except PseriesError as error:
        why = str(error).partition("\n")[0]
        return Check(name, Verdict.UNKNOWN, f"not compared: {why}"), None
    return _calls_line(name, compared), compared


def _calls_line(name: str, compared: calls.Compared) -> Check:
    bound = compared.bound
    if not compared.packages:
        return Check(name, Verdict.UNKNOWN, "not compared: no required package is installed")
    count = f"{bound.calls} into {', '.join(compared.packages)}"
    unknown = f", {len(bound.unknown)} unknown" if bound.unknown else ""
    count = f"{count} in {compared.files} file{'' if compared.files == 1 else 's'} {compared.state}"
    wanted = "calls that fit the installed signatures"
    if bound.misfits:
        remedy = "install the version that these files were written for, or change the calls"
        wrong = f"{len(bound.misfits)} of {count} do not fit{unknown}"
        return Check(name, Verdict.UNMET, wrong, wanted, remedy)
    return Check(name, Verdict.MET, f"{count}{unknown}", wanted)


# --- the machine ----------------------------------------------------------------------------------


def _accelerators(place: _Place, hardware: Hardware | None) -> tuple[list[Check], tuple[Gpu, ...]]:
    smi = gpu.through_smi()
    torch = (
        gpu.Seen(there=False, trouble="no interpreter to ask")
        if place.python is None
        else gpu.through_torch(str(place.python))
    )
    gpus = _merged(smi, torch)
    checks = [_gpu_line(smi, torch, gpus)]
    if torch.software or torch.there:
        seen = torch.trouble or f"sees {len(torch.devices)}"
        checks.append(Check("torch", Verdict.FACT, f"{torch.software or 'PyTorch'}: {seen}"))
    if hardware is not None and (hardware.name or hardware.compute_capability):
        checks.append(_hardware(hardware, gpus))
    return checks, gpus


def _merged(smi: Seen, torch: Seen) -> tuple[Gpu, ...]:
    if not smi.devices:
        return torch.devices
    if len(smi.devices) != len(torch.devices):
        return smi.devices
    return tuple(
        one._replace(compute_capability=one.compute_capability or other.compute_capability)
        for one, other in zip(smi.devices, torch.devices, strict=True)
    )


def _gpu_line(smi: Seen, torch: Seen, gpus: Sequence[Gpu]) -> Check:
    if gpus:
        return Check("gpu", Verdict.FACT, "; ".join(_summary(gpus)))
    if smi.there and smi.trouble:
        return Check("gpu", Verdict.UNKNOWN, f"nvidia-smi: {smi.trouble}")
    if torch.there and torch.trouble:
        return Check("gpu", Verdict.UNKNOWN, f"torch: {torch.trouble}")
    reason = "nvidia-smi names none" if smi.there else smi.trouble
    return Check("gpu", Verdict.FACT, f"none ({reason})")


def _summary(gpus: Sequence[Gpu]) -> Iterator[str]:
    """Yield one text for each kind of device."""
    for kind in dict.fromkeys(each._replace(memory_mib=None) for each in gpus):
        alike = [each for each in gpus if each._replace(memory_mib=None) == kind]
        memory = alike[0].memory_mib
        name = kind.name if kind.name.startswith(kind.vendor) else f"{kind.vendor} {kind.name}"
        facts = [f"compute capability {kind.compute_capability or 'not known'}"]
        facts += [f"driver {kind.driver}"] if kind.driver else []
        facts += [f"{memory // 1024} GiB"] if memory else []
        facts += ["MIG is on"] if kind.mig else []
        yield f"{len(alike)} x {name} ({', '.join(facts)})"


def _hardware(hardware: Hardware, gpus: Sequence[Gpu]) -> Check:
    capabilities = hardware.compute_capability
    made = f"compute capability {' or '.join(capabilities)}" if capabilities else ""
    wanted = f"made for {hardware.name or made}" + (f", {made}" if hardware.name and made else "")
    if not gpus:
        return Check("hardware", Verdict.UNKNOWN, "no accelerator here", wanted)
    if capabilities:
        others = sorted({each.compute_capability for each in gpus} - {*capabilities})
        if "" in others:
            return Check("hardware", Verdict.UNKNOWN, "compute capability not known", wanted)
        found = f"compute capability {', '.join(others or capabilities)}"
        return Check("hardware", Verdict.UNMET if others else Verdict.MET, found, wanted)
    names = sorted({each.name for each in gpus})
    alike = all(hardware.name.lower() in name.lower() for name in names)
    return Check("hardware", Verdict.MET if alike else Verdict.UNKNOWN, ", ".join(names), wanted)


def _machine(series: Series | None, place: _Place) -> Iterator[Check]:
    wanted = "" if series is None or series.spec.serve is None else series.spec.serve.memlock
    limit = machine.memlock(wanted)
    hard = "unlimited" if limit.hard is None else f"{limit.hard} bytes"
    soft = "unlimited" if limit.soft is None else f"{limit.soft} bytes"
    verdict = Verdict.FACT if not wanted else Verdict.MET if limit.enough else Verdict.UNMET
    remedy = "" if limit.enough else "docker run --ulimit memlock=-1, or LimitMEMLOCK=infinity"
    yield Check("memlock", verdict, f"{soft}, at most {hard}", wanted, remedy)
    for name, folder in (("disk", str(place.site)), ("shm", machine.SHARED_MEMORY)):
        room = machine.room(folder)
        text = "not there" if room is None else f"{_gib(room.free)} free of {_gib(room.total)}"
        yield Check(name, Verdict.FACT, f"{text} ({folder})")
    yield _git()


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"


def _git() -> Check:
    needed, more = (".".join(map(str, each)) for each in (git.OLDEST, git.MERGES_TREES))
    wanted = f"{needed} or newer; {more} to rebase"
    try:
        version = git.version()
    except GitMissing:
        return Check("git", Verdict.UNMET, "not installed", wanted, "install git")
    except (GitFailed, GitLimit) as error:
        return Check("git", Verdict.UNMET, str(error).partition("\n")[0], wanted, "install git")
    met = Verdict.MET if version >= git.OLDEST else Verdict.UNMET
    return Check("git", met, ".".join(map(str, version)), wanted)
