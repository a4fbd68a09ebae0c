"""Images built with buildah, on bases that hold real releases of SGLang."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import REPOSITORY_SERIES
from tests.support import images

from pseries.deploy import builder
from pseries.errors import ImageNotBuilt
from pseries.workflows.exports import build_image
from pseries.workflows.series import catalog
from pseries.workflows.series.means import Means

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.images import Buildah

    from pseries.model.series import Series

NASTY = "a 'b' \"c\" $HOME ${PATH} `id` \\ $(id) # ; & \\n \\\\"
TOUCHED = "sglang/srt/layers/attention/deepseek_v4_backend.py"


@pytest.fixture(scope="session")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Buildah:
    """Skip, saying why, where buildah cannot be used; fail where it is required."""
    reason = ""
    if shutil.which("buildah") is None:
        reason = "buildah is missing: apt-get install buildah"
    elif os.geteuid() != 0:
        reason = "buildah needs root here, or user namespaces"
    if reason and os.environ.get("PSERIES_REQUIRE_TOOLS") == "1":
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
    return images.buildah(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="session")
def base(buildah: Buildah, installed: Callable[[str, str], Path]) -> Callable[[str], str]:
    """Return ``base(version)``: an image with this Python and files of that release of SGLang."""
    folder = buildah.folder / "python"
    site = images.interpreter(folder / "root")
    (folder / "Containerfile").write_text("FROM scratch\nCOPY root/ /\nENV PATH=/usr/bin\n")
    buildah("build", "-q", "-t", "localhost/python", str(folder))
    made: dict[str, str] = {}

    def make(version: str) -> str:
        if version not in made:
            # Of the release, what has to do with the patch: storage without layers copies all.
            tree = folder.with_name(f"sglang-{version}")
            for part in (str(Path(TOUCHED).parent), f"sglang-{version}.dist-info"):
                shutil.copytree(installed("sglang", version) / part, tree / part)
            name = made[version] = f"localhost/sglang:{version}"
            script = f'FROM localhost/python\nCOPY ["/", "{site}/"]\n'
            file = buildah.folder / f"Containerfile.{version}"
            file.write_text(script)
            buildah("build", "-q", "-t", name, "-f", str(file), str(tree))
        return made[version]

    return make


def build(
    series: Series, on: str, buildah: Buildah, monkeypatch: pytest.MonkeyPatch, tag: str,
    said: list[str],
) -> None:  # fmt: skip
    for name, value in buildah.environment.items():
        monkeypatch.setenv(name, value)
    planned = build_image.draft(series, on, tag)
    built = build_image.build_image(series, planned, "buildah", tell=said.append, means=Means())
    assert (built.tag, built.base, built.digest) == (tag, on, series.digest)


def config(buildah: Buildah, image: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(buildah("inspect", "--type", "image", image))
    return found["OCIv1"]["config"]  # type: ignore[no-any-return]


@pytest.mark.index
def test_a_real_release_is_patched_while_the_image_is_built(
    base: Callable[[str], str],
    buildah: Buildah,
    real_store: Path,
    patched_release: Callable[[str], dict[str, bytes]],
    monkeypatch: pytest.MonkeyPatch,
):
    series = catalog.load("sglang-0.5.15", REPOSITORY_SERIES)
    serve = series.spec.serve
    assert serve is not None
    environment = (("PLAIN", "1"), ("NASTY", NASTY), ("LAST", "backslash \\"))
    spec = series.spec._replace(serve=serve._replace(environment=environment))
    said: list[str] = []
    build(
        series._replace(spec=spec),
        base("0.5.15"),
        buildah,
        monkeypatch,
        "localhost/patched:1",
        said,
    )
    assert any("applied" in line for line in said)

    found = config(buildah, "localhost/patched:1")
    assert set(found["Env"]) >= {f"{name}={value}" for name, value in environment}
    assert found["Labels"]["pseries.digest"] == series.digest
    assert found["Labels"]["pseries.series"] == "sglang-0.5.15"
    assert found["Labels"]["org.opencontainers.image.base.name"] == base("0.5.15")

    container = buildah("from", "localhost/patched:1").strip()
    kit = "/opt/pseries/sglang-0.5.15-kit/apply.py"
    checked = buildah("run", container, "--", "python3", kit, "--check")
    assert "already applied" in checked
    shown = buildah(
        "run", container, "--", "python3", "-c",
        "import os, pathlib, sysconfig; site = pathlib.Path(sysconfig.get_path('purelib'));"
        f"print(os.environ['NASTY']); print((site / {TOUCHED!r}).read_text())",
    )  # fmt: skip
    value, _, text = shown.partition("\n")
    assert value == NASTY
    (wanted,) = patched_release("sglang-0.5.15").values()
    assert text == wanted.decode() + "\n"
    state = json.loads(
        buildah(
            "run", container, "--", "python3", "-c",
            "import pathlib, sysconfig; site = pathlib.Path(sysconfig.get_path('purelib'));"
            "print((site / '.pseries-kit/sglang-0.5.15/state.json').read_text())",
        )
    )  # fmt: skip
    assert state["status"] == "applied"


@pytest.mark.index
def test_a_base_with_another_release_fails_the_build_with_the_reason(
    base: Callable[[str], str],
    buildah: Buildah,
    real_store: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    series = catalog.load("sglang-0.5.15", REPOSITORY_SERIES)
    said: list[str] = []
    with pytest.raises(ImageNotBuilt):
        build(series, base("0.5.16"), buildah, monkeypatch, "localhost/other:1", said)
    assert "this kit is for sglang 0.5.15" in "\n".join(said)
    assert "holds version 0.5.16" in "\n".join(said)
    assert "localhost/other" not in buildah("images", "--format", "{{.Name}}")


def test_what_a_builder_says_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program = tmp_path / "docker"
    program.write_text(
        '#!/bin/sh\nfor n in $(seq 100); do echo "line $n" >&2; done\necho $*\nexit 3'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    told: list[str] = []
    with pytest.raises(ImageNotBuilt) as caught:
        builder.build("docker", tmp_path, "base:1", "tag:1", told.append)
    words = f"build --file {tmp_path}/Containerfile --build-arg BASE_IMAGE=base:1 --tag tag:1"
    assert told == [*(f"line {n}" for n in range(1, 101)), f"{words} {tmp_path}"]
    assert str(caught.value) == "no image was built on base:1: docker ended with status 3"
    assert builder.choose("docker") == "docker"
