"""A release: the same bytes twice, and found to work, or not, by installing it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from scripts import release, release_check, version
from tests.lacking import ENSURED, lacking, program

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "https://git.example.com/streams/weir"
LONG = "builds all that is published, twice, and installs it into new environments"


def test_links_of_the_readme_are_whole_where_there_is_no_repository() -> None:
    at = f"{ADDRESS}/blob/v1.2.3"
    text = release._absolute((ROOT / "README.md").read_text("utf-8"), at)
    targets = re.findall(r"\]\(([^)\s]+)", text)
    assert len(targets) > 20
    assert [target for target in targets if "://" not in target] == []
    for target in targets:
        if target.startswith(ADDRESS):
            path = target.removeprefix(at + "/").removeprefix(f"{ADDRESS}/raw/v1.2.3/")
            assert (ROOT / path.partition("#")[0]).exists(), target
    pictures = re.findall(r"!\[[^\]]*\]\(([^)\s]+)", text)
    assert pictures
    assert all("/raw/" in picture for picture in pictures)


def test_a_file_that_was_changed_added_or_lost_is_found(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    (tmp_path / release.SUMS).write_text(f"{'0' * 64}  a\n{'1' * 64}  lost\n")
    (tmp_path / "new").touch()
    with pytest.raises(release_check.Wrong, match="does not fit: a, lost, new"):
        release_check.sums(tmp_path)


def test_without_a_release_it_says_what_to_do(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.release_check", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("make release\n")


def test_a_python_that_is_nowhere_is_left_out() -> None:
    assert release_check.found_python("3.99") is None
    here = "{}.{}".format(*sys.version_info)
    assert release_check.found_python(here) is not None


def test_a_command_of_another_version_is_found(tmp_path: Path) -> None:
    weir = tmp_path / "weir"
    weir.write_text("#!/bin/sh\necho weir 0.0.1\n")
    weir.chmod(0o755)
    with pytest.raises(release_check.Wrong, match="weir --version says weir 0"):
        release_check.commands_work(tmp_path, tmp_path, tmp_path)


def git(where: Path, *arguments: str) -> None:
    who = ("-c", "user.name=Test", "-c", "user.email=test@example.com")
    subprocess.run(["git", *who, *arguments], cwd=where, check=True, capture_output=True)


@pytest.fixture
def committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository with every place that tells the version; it is committed as 1.2.3."""
    if shutil.which("git") is None:
        lacking("git is missing")
    tree = tmp_path / "repository"
    for name in version.PLACES:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tree / name)
    version.write("1.2.3", tree)
    git(tree, "init", "--quiet")
    git(tree, "add", ".")
    git(tree, "commit", "--quiet", "--message", "1.2.3")
    monkeypatch.setattr(release, "ROOT", tree)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")  # so that what a build sets does not stay
    mask = os.umask(0o022)
    yield tree
    os.umask(mask)


class Begun(Exception):  # noqa: N818
    """A build has found what it is to build."""


def begin(into: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The version that would be built."""

    def stop(tree: Path, found: str, *_: object) -> None:
        assert (tree / "pyproject.toml").exists()
        raise Begun(found)

    monkeypatch.setattr(release, "_address", stop)
    with pytest.raises(Begun) as begun:
        release.build(into)
    return str(begun.value)


def test_the_version_is_the_last_commits(
    committed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version.write("9.87.6", committed)
    assert begin(tmp_path / "one", monkeypatch) == "1.2.3"
    git(committed, "commit", "--quiet", "--all", "--message", "9.87.6")
    assert begin(tmp_path / "two", monkeypatch) == "9.87.6"


def test_a_commit_of_two_versions_is_refused(committed: Path, tmp_path: Path) -> None:
    dockerfile = committed / "Dockerfile"
    dockerfile.write_text(
        dockerfile.read_text("utf-8").replace("weir:1.2.3", "weir:1.2.2"), "utf-8"
    )
    git(committed, "commit", "--quiet", "--all", "--message", "half")
    version.write("1.2.3", committed)  # right again, and not committed
    with pytest.raises(SystemExit, match=r"Dockerfile: 1\.2\.2, not 1\.2\.3.* then commit"):
        release.build(tmp_path / "one")
    assert not (tmp_path / "one").exists()


def test_what_somebody_sets_for_their_git_is_not_in_it(
    committed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attributes = tmp_path / "attributes"
    attributes.write_text("Dockerfile export-ignore\n")
    for name, value in git_settings(attributes).items():
        monkeypatch.setenv(name, value)
    release._checkout(tmp_path / "tree")
    for name in version.PLACES:
        assert (tmp_path / "tree" / name).read_bytes() == (committed / name).read_bytes(), name


def git_settings(attributes: Path) -> dict[str, str]:
    """Somebody's own git, by its environment."""
    given = {"core.autocrlf": "true", "core.attributesFile": str(attributes)}
    pairs = {
        f"GIT_CONFIG_{part}_{at}": text
        for at, pair in enumerate(given.items())
        for part, text in zip(("KEY", "VALUE"), pair, strict=True)
    }
    return {"GIT_CONFIG_COUNT": str(len(given)), **pairs}


def workflow() -> dict[Any, Any]:
    read: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    return read


def test_pypi_is_reached_by_trust_and_not_by_a_secret() -> None:
    pypi = workflow()["jobs"]["pypi"]
    assert pypi["permissions"] == {"id-token": "write"}
    assert "secrets." not in json.dumps(pypi)
    assert "password" not in json.dumps(pypi)


def test_only_a_tag_publishes_and_only_what_was_checked() -> None:
    """Started by hand it publishes nothing, from a tag either: such a run's ref is the tag too."""
    told = workflow()
    jobs = told["jobs"]
    assert set(told[True]["push"]) == {"tags"}  # YAML 1.1 reads "on" as true
    steps = [step.get("run", "") for step in jobs["build"]["steps"]]
    assert any(step.startswith("make release-check") for step in steps)
    for name in ("pypi", "maven", "chart"):
        assert jobs[name]["needs"] == "build"
        assert jobs[name]["if"].startswith("github.event_name == 'push'")
    assert set(jobs["github"]["needs"]) == {"pypi", "chart"}  # skipped where they are


def test_no_step_of_the_workflow_puts_a_name_from_outside_into_a_shell() -> None:
    for job in workflow()["jobs"].values():
        for step in job["steps"]:
            assert "${{" not in step.get("run", ""), step


def test_actions_are_named_by_commit() -> None:
    """A tag of somebody else's may point elsewhere tomorrow, and these steps publish for us."""
    used = [step["uses"] for job in workflow()["jobs"].values() for step in job["steps"]
            if "uses" in step]  # fmt: skip
    assert len(used) > 5
    assert [name for name in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", name)] == []


def test_without_helm_nothing_is_built_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chart comes late, and what was there before it would be gone."""
    monkeypatch.setattr(release, "HELM", tmp_path / "helm")
    monkeypatch.setattr(release, "build", lambda *_, **__: pytest.fail("it began"))
    monkeypatch.setattr(sys, "argv", ["release", "--into", str(tmp_path / "dist")])
    with pytest.raises(SystemExit, match="with Go"):
        release.main()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two builds of one commit, by different settings of the machine."""
    if shutil.which("git") is None:
        lacking("git is missing")
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, so there is no commit to build")
    if not release.HELM.exists() or not release.TOOLS.exists():
        lacking("what scripts/ensure-helm.sh and ensure-venv.sh get is missing: make release")
    folder = tmp_path_factory.mktemp("release")
    attributes = folder / "attributes"
    attributes.write_text("README.md export-ignore\n")
    others = {"TZ": "Asia/Tokyo", "PYTHONHASHSEED": "7", "LC_ALL": "C"}
    others |= {"JAVA_TOOL_OPTIONS": "-Duser.language=de", **git_settings(attributes)}
    building = []
    for name, mask, settings in (("one", "022", {}), ("two", "077", others)):
        command = 'umask "$1" && exec "$2" -m scripts.release --into "$3"'
        building.append(
            subprocess.Popen(
                ["sh", "-c", command, "sh", mask, sys.executable, folder / name],
                cwd=ROOT,
                env={**os.environ, **settings},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    try:
        for one in building:
            said, _ = one.communicate(timeout=900)
            assert one.returncode == 0, said
    finally:
        for one in building:
            one.kill()
            one.wait()
    return folder / "one", folder / "two"


@pytest.mark.slow(LONG)
@pytest.mark.timeout(1800)
def test_twice_the_same_bytes(built: tuple[Path, Path]) -> None:
    one, two = built
    assert (one / release.SUMS).read_text() == (two / release.SUMS).read_text()
    number = version.current()
    assert {path.name for path in one.iterdir()} == {
        *(f"weir_{part}-{number}-py3-none-any.whl" for part in ("agent", "spark_listener")),
        *(f"weir_{part}-{number}.tar.gz" for part in ("agent", "spark_listener")),
        *(f"weir-spark-plugin-{number}{end}" for end in (".jar", "-maven.zip")),
        *(f"weir-{number}{end}" for end in (".tgz", ".cdx.json")),
        f"weir-image-{number}.tar.gz",
        release.SUMS,
    }


@pytest.mark.slow(LONG)
@pytest.mark.timeout(1800)
def test_the_image_is_built_of_all_that_its_dockerfile_copies(built: tuple[Path, Path]) -> None:
    (packed,) = built[0].glob("weir-image-*.tar.gz")
    with tarfile.open(packed) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "Dockerfile",
        ".dockerignore",
        "spark_listener/plugin/weir-spark-plugin.jar",
        "agent/export/page/assets/index.html",
        "dashboards/generated/weir-query.json",
        "alerts/generated/weir.rules.yml",
        "requirements/image.txt",
    } <= names
    assert not [name for name in names if name.startswith(("tests/", "docs/", ".git"))]


@pytest.mark.slow(LONG)
@pytest.mark.timeout(1800)
def test_what_the_image_holds_is_listed_once_and_as_it_is_pinned(built: tuple[Path, Path]) -> None:
    (listed,) = built[0].glob("*.cdx.json")
    parts = json.loads(listed.read_text())["components"]
    held = [f"{part['name']}=={part['version']}" for part in parts]
    pins = (ROOT / "requirements" / "image.txt").read_text()
    assert len(held) == len({pin.partition("==")[0] for pin in held}) > 20
    assert [pin for pin in held if not re.search(rf"(?m)^{re.escape(pin)}[ ;\\]", pins)] == []
    assert all(part["purl"] and part["externalReferences"][0]["hashes"] for part in parts)


@pytest.mark.slow(LONG)
@pytest.mark.timeout(1800)
def test_the_bundle_is_what_maven_central_asks_for(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    """Pom, jar, sources and javadoc, each with its sums and, signed, with its signature."""
    (bundle,) = built[0].glob("*-maven.zip")
    gpg = program("gpg", brings=f"{ENSURED} all")
    home = tmp_path / "keys"
    home.mkdir(mode=0o700)
    environ = {**os.environ, "GNUPGHOME": str(home), "PASSPHRASE": "a long one"}
    key = ["--batch", "--passphrase", "a long one", "--quick-generate-key", "Test", "ed25519"]
    subprocess.run([gpg, *key], env=environ, check=True, capture_output=True, timeout=120)
    signed = tmp_path / "signed.zip"
    script = ROOT / "scripts" / "sign-bundle.sh"
    subprocess.run(["sh", script, bundle, signed], env=environ, check=True, timeout=120)
    with zipfile.ZipFile(signed) as archive:
        archive.extractall(tmp_path)
    folder = tmp_path / "weir" / "weir-spark-plugin" / version.current()
    name = f"weir-spark-plugin-{version.current()}"
    for part in (f"{name}.pom", *(f"{name}{kind}.jar" for kind in ("", "-sources", "-javadoc"))):
        for end in ("", ".md5", ".sha1", ".asc"):
            assert (folder / f"{part}{end}").stat().st_size > 0
        check = [gpg, "--verify", folder / f"{part}.asc", folder / part]
        subprocess.run(check, env=environ, check=True, capture_output=True, timeout=60)
    pom = (folder / f"{name}.pom").read_text()
    assert all(f"<{part}>" in pom for part in ("name", "description", "licenses", "developers"))


@pytest.mark.slow(LONG)
@pytest.mark.timeout(1800)
def test_it_is_found_to_work(built: tuple[Path, Path]) -> None:
    if not any(shutil.which(name) for name in release_check.REGISTRIES):
        lacking("no OCI registry is here: sh scripts/ensure-tools.sh")
    # Those between the oldest and the newest are tried by make release-check.
    ends = release_check.PYTHONS[0], release_check.PYTHONS[-1]
    seen = list(release_check.check(built[0], demo_seconds=0, pythons=ends))
    assert seen[0] == "SHA256SUMS: every file is as it says"
    assert any(line.startswith("Python 3.") for line in seen)
    assert seen[-1] == "the chart: pushed to a registry, pulled, rendered"
