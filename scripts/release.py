"""Builds all that is published from the last commit, the same bytes each time, into dist/.

``python -m scripts.release [--into DIR] [--address URL] [--maven-group GROUP] [--wheels]``

Wheels and sdists of both distributions, the plugin's jar and its bundle for a Maven repository, the
chart, the image's build context, what the image holds (CycloneDX), and SHA256SUMS over all of them.
What is not committed is not in it. Times in archives are the commit's (SOURCE_DATE_EPOCH), owners
are nobody, members are sorted. The same Java, Python and helm give the same bytes; other releases
of them may compile, compress or format otherwise.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Final, TypeAlias
from xml.sax.saxutils import escape

from scripts import version as versions

ROOT: Final = Path(__file__).resolve().parents[1]
TOOLS: Final = ROOT / ".make" / "release" / "bin" / "python"
HELM: Final = ROOT / ".make" / "tools" / "helm"
PLUGIN: Final = "weir-spark-plugin"
SUMS: Final = "SHA256SUMS"
#: Where Maven repositories keep the plugin until its publisher names a group that is theirs.
GROUP: Final = "weir"
#: Name in an archive → what it holds, and whether it is to be executed.
_Members: TypeAlias = dict[str, tuple[bytes, bool]]
_ZIP_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the first time that a zip can tell
#: What people set for their own git, back to what it is without: none of it is the commit's.
_PLAIN_GIT: Final = tuple(
    part
    for setting in (
        *("core.autocrlf=false", "core.eol=lf", f"core.attributesFile={os.devnull}"),
        *("log.showSignature=false", "tar.umask=0022"),
    )
    for part in ("-c", setting)
)


def build(
    into: Path, address: str | None = None, group: str = GROUP, *, wheels: bool = False
) -> list[Path]:
    """Builds everything into a new folder; gives its files. Raises SystemExit, with a line.

    ``wheels``: the two distributions and nothing else, for which a JDK is enough.
    """
    os.umask(0o022)  # modes in wheels are those of files
    epoch = int(_run(["git", *_PLAIN_GIT, "log", "-1", "--format=%ct"], ROOT).strip())
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch)
    with tempfile.TemporaryDirectory() as temporary:
        tree = Path(temporary) / "tree"
        _checkout(tree)
        version = versions.current(tree)
        if wrong := versions.differing(tree):
            raise SystemExit(
                f"weir: the last commit: {wrong[0]}; python -m scripts.version {version} puts it "
                "right, then commit"
            )
        into.mkdir(parents=True)
        _address(tree, version, address, group)
        _run([sys.executable, "-m", "scripts.plugin_jar"], tree)
        for source in (tree / "spark_listener", tree):
            _distribution(source, into, epoch)
        if wheels:
            return sorted(into.iterdir())
        _plugin(tree, into, version, group)
        _chart(tree, into, version, epoch)
        _image(tree, into / f"weir-image-{version}.tar.gz", epoch)
        _contents(tree, into / f"weir-{version}.cdx.json")
    files = sorted(into.iterdir())
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (into / SUMS).write_text("".join(lines))
    return [*files, into / SUMS]


def _run(command: list[str | Path], where: Path) -> str:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    try:
        done = subprocess.run(  # noqa: S603
            command, cwd=where, env=environ, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise SystemExit(f"weir: {command[0]} is missing") from error
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise SystemExit(f"weir: {' '.join(map(str, command[:4]))} … failed:\n{tail}")
    return done.stdout


def _checkout(tree: Path) -> None:
    """What is committed, and nothing else."""
    packed = subprocess.run(  # noqa: S603
        ["git", *_PLAIN_GIT, "archive", "--format=tar", "HEAD"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        # The commit is our own; the filter came with 3.10.12, 3.11.4 and 3.12.
        archive.extractall(tree, **({"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}))  # type: ignore[arg-type]  # noqa: S202


def _address(tree: Path, version: str, address: str | None, group: str) -> None:
    """Where the project lives, as its publisher says it, into all that a registry shows."""
    pom = tree / "spark_listener" / "plugin" / "pom.xml"
    text = pom.read_text("utf-8").replace(
        f"<groupId>{GROUP}</groupId>", f"<groupId>{escape(group)}</groupId>", 1
    )
    if address:
        where = escape(address)
        scm = f"<scm><url>{where}</url><connection>scm:git:{where}.git</connection></scm>"
        text = text.replace("  <licenses>", f"  <url>{where}</url>\n  {scm}\n  <licenses>", 1)
        at = f"{address}/blob/v{version}"
        urls = (
            f'\n[project.urls]\nHomepage = "{address}"\nSource = "{address}"\n'
            f'Issues = "{address}/issues"\nDocumentation = "{at}/docs/index.md"\n'
            f'Changelog = "{at}/CHANGELOG.md"\n'
        )
        for project in (tree / "pyproject.toml", tree / "spark_listener" / "pyproject.toml"):
            before, mark, after = project.read_text("utf-8").partition("\n[project.scripts]")
            project.write_text(before + urls + mark + after, "utf-8")
        readme = tree / "README.md"
        readme.write_text(_absolute(readme.read_text("utf-8"), at), "utf-8")
        chart = tree / "helm" / "weir" / "Chart.yaml"
        lines = f"home: {address}\nsources: [{address}]\n"
        chart.write_text(chart.read_text("utf-8") + lines, "utf-8")
    pom.write_text(text, "utf-8")


def _absolute(readme: str, at: str) -> str:
    """Links and pictures of the repository by their whole address: a registry has none of them."""
    raw = at.replace("/blob/", "/raw/", 1)
    text = re.sub(r"(!\[[^\]]*\]\()(?![a-z]+:|#)", rf"\g<1>{raw}/", readme)
    return re.sub(r"((?<!!)\[(?:[^\[\]]|`[^`]*`)*\]\()(?![a-z]+:|#)", rf"\g<1>{at}/", text)


def _distribution(source: Path, into: Path, epoch: int) -> None:
    """An sdist, and the wheel that is built from it."""
    with tempfile.TemporaryDirectory() as made:
        _run([TOOLS, "-m", "build", "--no-isolation", "--outdir", made, source], source)
        (sdist,) = Path(made).glob("*.tar.gz")
        _repack(sdist, into / sdist.name, epoch)
        (wheel,) = Path(made).glob("*.whl")
        shutil.copyfile(wheel, into / wheel.name)
    _run([TOOLS, "-m", "twine", "check", "--strict", into / sdist.name, into / wheel.name], into)


def _plugin(tree: Path, into: Path, version: str, group: str) -> None:
    """The jar, and the bundle that a Maven repository takes: pom, jar, sources, javadoc, sums."""
    plugin = tree / "spark_listener" / "plugin"
    jar = (plugin / f"{PLUGIN}.jar").read_bytes()
    (into / f"{PLUGIN}-{version}.jar").write_bytes(jar)
    licence = (tree / "LICENSE").read_bytes()
    source = {"weir/WeirPlugin.java": (plugin / "WeirPlugin.java").read_bytes()}
    spark = _run([sys.executable, "-c", "import pyspark; print(pyspark.__path__[0])"], ROOT).strip()
    docs = tree.parent / "javadoc"
    _run(
        [
            # The locale first, or it does not hold.
            *("javadoc", "-locale", "en_US", "-quiet", "-notimestamp", "-Xdoclint:none"),
            *("-encoding", "UTF-8", "-docencoding", "UTF-8", "-charset", "UTF-8"),
            *("-classpath", f"{spark}/jars/*", "-d", docs, plugin / "WeirPlugin.java"),
        ],
        tree,
    )
    pages = {
        path.relative_to(docs).as_posix(): path.read_bytes()
        for path in docs.rglob("*")
        if path.is_file()
    }
    name = f"{PLUGIN}-{version}"
    parts = {
        f"{name}.pom": (plugin / "pom.xml").read_bytes(),
        f"{name}.jar": jar,
        f"{name}-sources.jar": _zip({"META-INF/LICENSE": licence, **source}),
        f"{name}-javadoc.jar": _zip({"META-INF/LICENSE": licence, **pages}),
    }
    folder = f"{group.replace('.', '/')}/{PLUGIN}/{version}"
    bundle = {}
    for part, data in parts.items():
        bundle[f"{folder}/{part}"] = data
        for kind in ("md5", "sha1", "sha256"):
            digest = hashlib.new(kind, data, usedforsecurity=False).hexdigest()
            bundle[f"{folder}/{part}.{kind}"] = digest.encode()
    (into / f"{name}-maven.zip").write_bytes(_zip(bundle))


def _chart(tree: Path, into: Path, version: str, epoch: int) -> None:
    """`helm package` writes the present time into it; ours is packed again."""
    with tempfile.TemporaryDirectory() as made:
        _run([HELM, "package", tree / "helm" / "weir", "--destination", made], tree)
        packed = Path(made) / f"weir-{version}.tgz"
        _repack(packed, into / packed.name, epoch)


def _image(tree: Path, into: Path, epoch: int) -> None:
    """What `docker build` is sent: the Dockerfile, and what .dockerignore lets through."""
    lines = (tree / ".dockerignore").read_text("utf-8").splitlines()
    names = ["Dockerfile", ".dockerignore", *(line[1:] for line in lines if line.startswith("!"))]
    folder = into.name.removesuffix(".tar.gz")
    members: _Members = {}
    for name in names:
        top = tree / name
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            clutter = {"__pycache__", "build"} & set(path.parts[len(tree.parts) :])
            if path.is_file() and not clutter and ".egg-info" not in str(path):
                inside = f"{folder}/{path.relative_to(tree).as_posix()}"
                members[inside] = path.read_bytes(), os.access(path, os.X_OK)
    _tar(into, members, epoch)


def _contents(tree: Path, into: Path) -> None:
    """The bill of materials of the agent as its image holds it: of that Python, on Linux."""
    from packaging.requirements import Requirement  # with what the tests need; wheels do without

    dockerfile = (tree / "Dockerfile").read_text("utf-8")
    found = re.search(r"^ARG BASE=python:(\d+\.\d+)\.\d+", dockerfile, re.MULTILINE)
    if found is None:
        raise SystemExit("weir: the Dockerfile's ARG BASE names no Python such as python:3.12.11")
    where = {
        "python_version": found[1],
        "python_full_version": f"{found[1]}.0",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    lines = (tree / "requirements" / "image.txt").read_text("utf-8").replace("\\\n", " ")
    held = []
    for line in lines.splitlines():
        pin, *hashes = line.split(" --hash=")
        marker = Requirement(pin.strip()).marker if hashes else None
        if hashes and (marker is None or marker.evaluate(where)):
            held.append(" --hash=".join([pin.split(";")[0].strip(), *map(str.strip, hashes)]))
    pins = tree.parent / "held.txt"
    pins.write_text("\n".join(held) + "\n")
    _run(
        [
            *(TOOLS, "-m", "cyclonedx_py", "requirements", pins),
            *("--pyproject", tree / "pyproject.toml", "--output-reproducible", "-o", into),
        ],
        tree,
    )


def _tar(into: Path, members: _Members, epoch: int) -> None:
    """A .tar.gz that says nothing of when, where and by whom it was packed."""
    with (
        into.open("wb") as file,
        # No name and no time in the head of the compressed file either.
        gzip.GzipFile("", "wb", compresslevel=9, fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, (data, executable) in sorted(members.items()):
            about = tarfile.TarInfo(name)
            about.size = len(data)
            about.mtime = epoch
            about.mode = 0o755 if executable else 0o644
            archive.addfile(about, io.BytesIO(data))


def _repack(packed: Path, into: Path, epoch: int) -> None:
    """The files of a .tar.gz, packed as `_tar` packs."""
    members: _Members = {}
    with tarfile.open(packed) as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member)
            if member.isfile() and file:
                members[member.name] = file.read(), bool(member.mode & 0o100)
    _tar(into, members, epoch)


def _zip(files: dict[str, bytes]) -> bytes:
    """A zip, or a jar, of these files in the order of their names."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            about = zipfile.ZipInfo(name, _ZIP_EPOCH)
            about.compress_type = zipfile.ZIP_DEFLATED
            about.external_attr = 0o644 << 16
            archive.writestr(about, data)
    return buffer.getvalue()


def main() -> None:
    """Builds, and prints what there is now."""
    parser = argparse.ArgumentParser("python -m scripts.release", description=__doc__)
    parser.add_argument("--into", type=Path, default=ROOT / "dist", metavar="DIR")
    parser.add_argument("--address", metavar="URL", help="the repository's own, for registries")
    parser.add_argument("--maven-group", default=GROUP, metavar="GROUP")
    parser.add_argument("--wheels", action="store_true", help="wheels and sdists, no more")
    given = parser.parse_args()
    if not given.wheels and not HELM.exists():
        raise SystemExit(f"weir: {HELM} is missing: sh scripts/ensure-helm.sh builds it, with Go")
    into = given.into.resolve()
    new = into.with_name(f".{into.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    try:
        address = (given.address or "").rstrip("/") or None
        files = build(new, address, given.maven_group, wheels=given.wheels)
        shutil.rmtree(into, ignore_errors=True)
        new.replace(into)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    for file in files:
        size = (into / file.name).stat().st_size
        sys.stdout.write(f"{size:>11,}  {into.name}/{file.name}\n")
    if _run(["git", "status", "--porcelain", "--untracked-files=no"], ROOT):
        sys.stderr.write("weir: what is not committed is not in it\n")


if __name__ == "__main__":
    main()
