"""What is committed: no addresses of registries, no paths of a machine, nothing generated."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts import version
from tests.lacking import lacking

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib  # type: ignore[no-redef, import-not-found, unused-ignore]

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 2_000_000


def git(*arguments: str) -> list[str]:
    if shutil.which("git") is None:
        lacking("git is missing")
    done = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("not a git checkout, so nothing is committed")
    return [line for line in done.stdout.split("\0") if line]


def committed() -> list[Path]:
    return [ROOT / name for name in git("ls-files", "-z") if (ROOT / name).is_file()]


def texts() -> list[tuple[str, str]]:
    found = []
    for path in committed():
        data = path.read_bytes()
        if b"\0" not in data[:8192]:
            found.append((str(path.relative_to(ROOT)), data.decode("utf-8", "replace")))
    return found


# In parts, so that this file doesn't hold what it looks for.
REGISTRIES = [
    "pythonhosted" + ".org",
    "pypi" + ".org/simple",
    "repo1." + "maven",
    "repo." + "maven.apache",
    "registry." + "npmjs",
    "proxy." + "golang",
    "deb." + "debian.org",
    "static." + "crates.io",
]


def test_no_registry_hosts_and_no_resolved_addresses() -> None:
    resolved = re.compile(r'"resolved"\s*:\s*"https?:')
    found = [
        (name, host)
        for name, text in texts()
        for host in [*REGISTRIES, *(["resolved"] if resolved.search(text) else [])]
        if host == "resolved" or host in text
    ]
    assert found == []


def test_no_paths_of_a_machine() -> None:
    here = str(ROOT) + "/"
    home = re.compile(r"(?<![\w.])/(?:home|Users)/[a-z][\w.-]+/|(?<![\w.])/root/\.")
    assert [name for name, text in texts() if here in text or home.search(text)] == []


def test_nothing_that_is_ignored_is_committed() -> None:
    assert git("ls-files", "-z", "--cached", "--ignored", "--exclude-standard")[:5] == []


def test_no_large_files() -> None:
    assert [path for path in committed() if path.stat().st_size > MOST_BYTES] == []


def test_locks_hold_hashes_and_no_addresses() -> None:
    locks = {
        "agent.txt": 20,
        "build.txt": 1,
        "image.txt": 20,
        "run.txt": 20,
        "dev.txt": 20,
        "docs.txt": 20,
        "release.txt": 20,
    }
    for name, fewest in locks.items():
        text = (ROOT / "requirements" / name).read_text()
        assert "://" not in text
        entries = re.split(r"\n(?=[a-z0-9])", text.strip())
        assert len(entries) >= fewest
        for entry in entries:
            assert re.match(r"[a-z0-9._-]+==\S+", entry), entry
            assert "--hash=sha256:" in entry, entry


def test_the_go_that_is_asked_for_builds_helm() -> None:
    """By the script where it is missing, where people read of it, and by the workflow."""
    script = (ROOT / "scripts/ensure-helm.sh").read_text()
    (told,) = re.findall(r"install Go (1\.\d+) or newer", script)
    assert re.findall(r"With Go (1\.\d+)", (ROOT / "CONTRIBUTING.md").read_text()) == [told]
    workflow = (ROOT / ".github/workflows/release.yml").read_text()
    assert re.findall(r'go-version: "(1\.\d+)"', workflow) == [told]
    (helm,) = re.findall(r"^helm=(v[\d.]+)$", script, re.MULTILINE)
    if shutil.which("go") is None:
        lacking("go is missing, so nothing knows what helm needs")
    cache = subprocess.run(
        ["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True, cwd="/"
    )
    module = Path(cache.stdout.strip(), "cache/download/helm.sh/helm/v3/@v", f"{helm}.mod")
    if not module.exists():
        lacking("helm was not built here: sh scripts/ensure-helm.sh")
    needed = re.search(r"^go (\d+)\.(\d+)", module.read_text(), re.MULTILINE)
    assert needed is not None
    assert (int(needed[1]), int(needed[2])) <= tuple(map(int, told.split(".")))


def test_maven_takes_the_address_as_the_docs_give_it() -> None:
    """The plugin's 3.0 is the first that does; Debian's and Ubuntu's Maven take its 2.7 unasked."""
    assert "-DaltDeploymentRepository=ID::URL`" in (ROOT / "docs/plugin.md").read_text()
    pom = (ROOT / "spark_listener/plugin/pom.xml").read_text()
    pinned = re.search(r"<artifactId>maven-deploy-plugin</artifactId>\s*<version>(\d+)\.", pom)
    assert pinned is not None
    assert int(pinned[1]) >= 3


def pins(name: str) -> set[str]:
    text = (ROOT / "requirements" / name).read_text()
    return set(re.findall(r"^[a-z0-9._-]+==[^ ;]+", text, re.MULTILINE))


def test_the_tests_run_on_the_versions_that_the_demo_runs_on() -> None:
    assert pins("agent.txt") | pins("build.txt") <= pins("run.txt") <= pins("dev.txt")
    assert pins("agent.txt") <= pins("image.txt") <= pins("dev.txt")


def test_the_lock_covers_what_the_agent_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = {pin.partition("==")[0] for pin in pins("agent.txt")}
    needed = {re.split(r"[\[><=; ]", entry)[0] for entry in project["dependencies"]}
    assert needed - {"weir-spark-listener"} <= locked


def test_the_version_has_its_place_in_the_changelog() -> None:
    listener = tomllib.loads((ROOT / "spark_listener/pyproject.toml").read_text())["project"]
    assert listener["dependencies"] == []
    assert f"## [{version.current()}]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_licence_is_whole_and_in_both() -> None:
    licence = (ROOT / "LICENSE").read_text()
    assert licence == (ROOT / "spark_listener/LICENSE").read_text()
    assert "Apache License" in licence
    assert "END OF TERMS AND CONDITIONS" in licence


def anchors(text: str) -> set[str]:
    """Of all headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_of_the_readme_lead_somewhere() -> None:
    for name in ("README.md", "CONTRIBUTING.md"):  # those of the docs: tests/docs
        text = (ROOT / name).read_text()
        for target, _, place in re.findall(r"\]\(([^)#\s]+)(#([^)\s]+))?", text):
            if "://" not in target:
                assert (ROOT / target).exists(), f"{name}: {target}"
                if place:
                    assert place in anchors((ROOT / target).read_text()), (
                        f"{name}: {target}#{place}"
                    )
