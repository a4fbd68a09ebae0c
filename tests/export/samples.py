"""Small wheels for tests, with everything in them that real ones have and more."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

DATE = (2026, 7, 25, 10, 35, 2)
METADATA = """\
Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: An engine of two wheels
License: Version: 9 of the licence
Keywords: {name}
License-File: LICENSE

Version: 3 is what the text says.
Name: nobody
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: false\nTag: cp38-abi3-linux_x86_64\n"
TAG = "py3-none-any"


@dataclass
class Sample:
    """What to put into a wheel; ``files`` are those besides the dist-info folder."""

    files: dict[str, bytes]
    name: str = "eng"
    version: str = "1.0"
    tag: str = TAG
    executable: frozenset[str] = frozenset()
    folders: bool = False
    metadata: str = METADATA
    wheel: str = WHEEL
    extra_info: dict[str, bytes] = field(default_factory=dict)
    stored: frozenset[str] = frozenset()
    spoil_record: bytes = b""

    @property
    def filename(self) -> str:
        return f"{self.name}-{self.version}-{self.tag}.whl"

    @property
    def info(self) -> str:
        return f"{self.name}-{self.version}.dist-info"

    def members(self) -> dict[str, bytes]:
        own = {
            "METADATA": self.metadata.format(name=self.name, version=self.version).encode(),
            "WHEEL": self.wheel.encode(),
            "entry_points.txt": b"[console_scripts]\neng-run = eng.mod:main\n",
            "licenses/LICENSE": b"free\n",
            **self.extra_info,
        }
        members = {**self.files, **{f"{self.info}/{name}": data for name, data in own.items()}}
        rows = "".join(f"{path},{digest(data)},{len(data)}\r\n" for path, data in members.items())
        record = f"{rows}{self.info}/RECORD,,\r\n".encode()
        members[f"{self.info}/RECORD"] = (
            record.replace(*self.spoil_record.split(b"|", 1)) if (self.spoil_record) else record
        )
        return members


def digest(data: bytes) -> str:
    raw = hashlib.sha256(data).digest()
    return "sha256=" + base64.urlsafe_b64encode(raw).decode().rstrip("=")


def plain(**changes: object) -> Sample:
    """A wheel with folder entries, a data folder, scripts and a library."""
    sample = Sample(
        files={
            "eng/__init__.py": b"",
            "eng/mod.py": b"def main():\n    print('one')\n",
            "eng/only/gone.py": b"x = 1\n",
            "eng/tool.sh": b"#!/bin/sh\n",
            "eng/_C.abi3.so": bytes(range(256)) * 400,
            "eng-1.0.data/scripts/eng-script": b"#!python\nprint('script')\n",
            "eng-1.0.data/data/share/eng/readme": b"data\n",
        },
        executable=frozenset({"eng/tool.sh", "eng-1.0.data/scripts/eng-script"}),
        folders=True,
        stored=frozenset({"eng/tool.sh"}),
    )
    for name, value in changes.items():
        setattr(sample, name, value)
    return sample


def make(sample: Sample, folder: Path) -> Path:
    """Write the wheel; folder entries come first, each member has a mode, a date and a comment."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / sample.filename
    seen: set[str] = set()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in sample.members().items():
            parts = name.split("/")
            for depth in range(1, len(parts)):
                above = "/".join(parts[:depth]) + "/"
                if sample.folders and above not in seen:
                    seen.add(above)
                    archive.writestr(_info(above, 0o40775, stored=True), b"")
            mode = 0o100775 if name in sample.executable else 0o100664
            archive.writestr(_info(name, mode, stored=name in sample.stored), data)
    return path


def _info(name: str, mode: int, *, stored: bool) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, DATE)
    info.create_system = 3
    info.external_attr = mode << 16 | (0x10 if name.endswith("/") else 0)
    info.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
    info.comment = f"about {name}".encode()
    return info
