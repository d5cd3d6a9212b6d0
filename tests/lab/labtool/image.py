"""Host images: a root file system by mmdebstrap, imported under a tag that is the hash of its recipe."""

from __future__ import annotations

import configparser
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

from .engine import Engine
from .settings import LAB_DIR, LabError, Settings

REPOSITORY = "localhost/gpufleet-lab"


def _mirror(variable: str, marker: str, fallback: str) -> str:
    """The mirror that this machine's own apt uses, so that a machine behind a proxy or an internal mirror needs no setting."""
    if os.environ.get(variable):
        return os.environ[variable]
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    try:
        out = subprocess.run(command, capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        return fallback
    uris = [line.rstrip("/") for line in out.split() if line.rstrip("/").endswith(marker)]
    return uris[0] if uris else fallback


def apt_sources(image: str) -> str:
    """One-line sources of an image, also those that its hosts use later."""
    section = recipe(image)
    main = section["archive"] or _mirror("LAB_DEBIAN_MIRROR", "/debian", "http://deb.debian.org/debian")
    components = os.environ.get("LAB_DEBIAN_COMPONENTS", section["components"])
    head = " ".join(filter(None, ("deb", section["options"])))
    lines = [f"{head} {main} {section['suite']} {components}"]
    if section.getboolean("security"):
        security = _mirror("LAB_DEBIAN_SECURITY_MIRROR", "/debian-security", "http://deb.debian.org/debian-security")
        lines += [f"deb {main} {section['suite']}-updates {components}"]
        lines += [f"deb {security} {section['suite']}-security {components}"]
    return "\n".join(lines) + "\n"


def recipe(image: str) -> configparser.SectionProxy:
    parser = configparser.ConfigParser()
    parser.read(LAB_DIR / "images.ini")
    if image not in parser:
        raise LabError(f"image {image!r} is not in tests/lab/images.ini; it has {', '.join(parser.sections())}")
    return parser[image]


def base(image: str) -> str:
    """The image that is built: a pseudo host's own is another one with an os-release of its own."""
    return recipe(image)["base"] or image


def identity(image: str) -> str:
    """os-release of a pseudo host; empty for what goes by its own name."""
    path = LAB_DIR / "os" / image
    return path.read_text() if recipe(image)["base"] else ""


def _packages(image: str) -> list[str]:
    section = recipe(image)
    without = section["without"].split()
    return [name for name in section["include"].split() if name not in without] + section.get("extra", "").split()


def tag(image: str) -> str:
    """An image of one's own can be used by its full reference (LAB_IMAGE_DEBIAN12=quay.io/…); else the hash of the recipe."""
    image = base(image)
    own = os.environ.get("LAB_IMAGE_" + image.upper().replace("-", "_"))
    if own:
        return own
    hasher = hashlib.sha256()
    for part in (
        *_packages(image),
        apt_sources(image),
        (LAB_DIR / "image-hook").read_text(),
        (LAB_DIR / "host/bin/install-shims").read_text(),
    ):
        hasher.update(part.encode())
    return f"{REPOSITORY}-{image}:{hasher.hexdigest()[:12]}"


def ensure(settings: Settings, engine: Engine, image: str) -> str:
    image = base(image)
    name = tag(image)
    if engine.has_image(name):
        return name
    if not name.startswith(REPOSITORY):
        engine.call("pull", name, timeout=900)
        return name
    tar = settings.cache / f"{image}-{name.rpartition(':')[2]}.tar"
    if not tar.exists():
        _bootstrap(image, tar)
    print(f"lab: importing {name}", file=sys.stderr, flush=True)
    engine.call("import", "-c", 'CMD ["/opt/lab/init"]', "-c", "STOPSIGNAL SIGRTMIN+3", str(tar), name, timeout=300)
    return name


def _bootstrap(image: str, tar: Path) -> None:
    started = time.monotonic()
    print(f"lab: building the host image {image} by mmdebstrap (once, about half a minute) …", file=sys.stderr, flush=True)
    part = tar.with_suffix(f".{os.getpid()}.part")
    sources = tar.with_suffix(f".{os.getpid()}.list")  # must end in .list: mmdebstrap tells the format by the name
    sources.write_text(apt_sources(image))
    command = [
        "mmdebstrap", "--quiet", "--variant=minbase", "--format=tar", f"--include={','.join(_packages(image))}",
        "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
        "--dpkgopt=path-exclude=/usr/share/doc/*", "--aptopt=APT::Install-Recommends \"false\"",
        f"--customize-hook={LAB_DIR}/image-hook \"$1\" {LAB_DIR}",
        recipe(image)["suite"], str(part), str(sources),
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise LabError(f"mmdebstrap failed ({done.returncode}):\n{done.stderr[-2000:]}")
        part.rename(tar)
    finally:
        part.unlink(missing_ok=True)
        sources.unlink(missing_ok=True)
    print(f"lab: {image} built in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
