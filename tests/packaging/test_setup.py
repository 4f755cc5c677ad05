"""`scripts/setup.sh`: does its work once, again when what it was made from changes, and repairs.

Real virtual environments; only pip is one that writes down what it was asked.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
FAKE_PIP = """
import pathlib, sys
log = pathlib.Path(sys.prefix).parent / "pip.log"
with log.open("a") as file:
    file.write(" ".join(sys.argv[1:]) + chr(10))
refusal = pathlib.Path(sys.prefix).parent / "refuse"
sys.exit(1 if refusal.exists() and "-r" in sys.argv else 0)
"""


class Checkout:
    """A copy of what setup reads, in a folder with a space in its name."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("scripts", "requirements"):
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        (root / "spark_listener").mkdir()
        for name in ("pyproject.toml", "spark_listener/pyproject.toml"):
            shutil.copyfile(ROOT / name, root / name)

    @property
    def base(self) -> Path:
        """This Python, but its `-m venv` puts the pip above into what it makes."""
        path = self.root / "base-python"
        if not path.exists():
            path.write_text(
                f"""#!/bin/sh
[ "$1" = -m ] || case "$2" in *sys.executable*) echo "{path}"; exit 0 ;; esac
[ "$1" = -m ] || exec "{sys.executable}" "$@"
"{sys.executable}" -m venv --without-pip "$3" || exit 1
pip="$3/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/pip"
mkdir -p "$pip" && touch "$pip/__init__.py" && cat >"$pip/__main__.py" <<'END'
{FAKE_PIP}
END
echo "#!$3/bin/python" >"$3/bin/pip"
"""
            )
            path.chmod(0o755)
        return path

    def setup(self, level: str = "dev") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", str(self.root / "scripts" / "setup.sh"), level],
            env={"PATH": "/usr/bin:/bin", "PYTHON": str(self.base)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def installs(self) -> list[str]:
        """What pip was asked to install since this was last called."""
        log = self.root / "pip.log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [line for line in lines if " install " in f" {line} "]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    root = tmp_path / "a new folder"
    root.mkdir()
    return Checkout(root)


def test_installs_the_lock_by_hash_then_the_two_distributions(checkout: Checkout) -> None:
    done = checkout.setup()
    assert done.returncode == 0, done.stderr
    first, second = checkout.installs()
    assert "--require-hashes -r requirements/dev.txt" in first
    assert "--no-deps --no-build-isolation -e ./spark_listener -e ." in second


def test_does_nothing_the_second_time(checkout: Checkout) -> None:
    checkout.setup()
    checkout.installs()
    done = checkout.setup()
    assert (done.returncode, done.stdout, checkout.installs()) == (0, "", [])


@pytest.mark.parametrize(
    "path", ["requirements/dev.txt", "pyproject.toml", "spark_listener/pyproject.toml"]
)
def test_installs_again_when_its_input_changes(checkout: Checkout, path: str) -> None:
    checkout.setup()
    checkout.installs()
    with (checkout.root / path).open("a") as file:
        file.write("# changed\n")
    assert checkout.setup().returncode == 0
    assert len(checkout.installs()) == 2
    assert checkout.setup().returncode == 0
    assert checkout.installs() == []


def test_what_the_tests_need_is_enough_for_the_demo(checkout: Checkout) -> None:
    checkout.setup("dev")
    checkout.installs()
    assert checkout.setup("run").returncode == 0
    assert checkout.installs() == []


def test_what_the_demo_needs_is_not_enough_for_the_tests(checkout: Checkout) -> None:
    checkout.setup("run")
    assert "-r requirements/run.txt" in checkout.installs()[0]
    checkout.setup("dev")
    assert "-r requirements/dev.txt" in checkout.installs()[0]


def test_a_moved_venv_is_built_anew(checkout: Checkout, tmp_path: Path) -> None:
    checkout.setup()
    moved = tmp_path / "moved"
    checkout.root.rename(moved)
    checkout.root = moved
    (moved / "base-python").unlink()
    (moved / "pip.log").unlink()
    done = checkout.setup()
    assert done.returncode == 0, done.stderr
    assert "building it anew" in done.stdout
    assert len(checkout.installs()) == 2
    assert str(moved) in (moved / ".venv/bin/pip").read_text()


@pytest.mark.parametrize("part", ["bin/python", "pyvenv.cfg", "bin/pip"])
def test_a_half_made_venv_is_built_anew(checkout: Checkout, part: str) -> None:
    checkout.setup()
    (checkout.root / ".venv" / ".weir-dev").unlink()  # it never got to the end
    (checkout.root / ".venv" / part).unlink()
    checkout.installs()
    done = checkout.setup()
    assert done.returncode == 0, done.stderr
    assert "building it anew" in done.stdout
    assert len(checkout.installs()) == 2


def test_a_failed_installation_is_tried_again(checkout: Checkout) -> None:
    (checkout.root / "refuse").touch()
    assert checkout.setup().returncode != 0
    (checkout.root / "refuse").unlink()
    checkout.installs()
    assert checkout.setup().returncode == 0
    assert len(checkout.installs()) == 2


def test_a_sound_venv_that_others_made_is_kept(checkout: Checkout) -> None:
    checkout.setup()
    (checkout.root / ".venv" / ".weir-dev").unlink()
    keepsake = checkout.root / ".venv" / "keepsake"
    keepsake.touch()
    assert checkout.setup().returncode == 0
    assert keepsake.exists()


# Venvs of tools


def ensure(checkout: Checkout, name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(checkout.root / "scripts" / "ensure-venv.sh"), name, "a test"],
        env={"PATH": "/usr/bin:/bin", "PYTHON": str(checkout.base)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def made(checkout: Checkout) -> Checkout:
    assert ensure(checkout, "docs").returncode == 0
    done = ensure(checkout, "docs")
    assert (done.returncode, done.stdout) == (0, ""), "once"
    return checkout


def test_a_moved_venv_of_tools_is_made_anew(made: Checkout, tmp_path: Path) -> None:
    """Its commands carry the folder they were made in."""
    moved = tmp_path / "moved"
    made.root.rename(moved)
    made.root = moved
    (moved / "base-python").unlink()
    assert "making .make/docs" in ensure(made, "docs").stdout
    assert ensure(made, "docs").stdout == ""


def test_a_venv_of_tools_whose_python_is_gone_is_made_anew(made: Checkout) -> None:
    python = made.root / ".make" / "docs" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python")
    assert "making .make/docs" in ensure(made, "docs").stdout
    assert ensure(made, "docs").stdout == ""


# What an interruption leaves


def interrupted(script: Path, path: Path, log: Path, **environ: str) -> None:
    """Runs it with its own tools until the one that takes long has begun, and presses Ctrl-C."""
    leader, follower = os.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", "/bin/sh", str(script)],  # a terminal of its own
        env={"PATH": f"{path}:/usr/bin:/bin", **environ},
        stdin=follower,
        stdout=follower,
        stderr=follower,
    )
    os.close(follower)
    try:
        until(log.exists, "the tool that takes long", seconds=20)
        os.write(leader, b"\x03")
        assert process.wait(20) != 0
        session = process.pid
        until(lambda: not living(session), "everything of it to end", seconds=10)
    finally:
        os.close(leader)


def living(session: int) -> list[str]:
    """The commands of a session's processes."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue  # it ended meanwhile
        command, _, rest = text.partition("(")[2].rpartition(")")
        state, _, _, of = rest.split()[:4]
        if int(of) == session and state != "Z":
            found.append(command)
    return found


def stub(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n" + text)
    (folder / name).chmod(0o755)


def test_an_interrupted_installation_keeps_no_service_from_starting(
    checkout: Checkout, tmp_path: Path
) -> None:
    """While packages are installed none of what they bring may start; afterwards all may again."""
    path, log, policy = tmp_path / "path", tmp_path / "begun", tmp_path / "policy-rc.d"
    stub(path, "apt-get", f'touch "{log}"; sleep 30\n')
    stub(path, "id", "echo 0\n")
    for name in ("chromium", "prometheus", "fc-list"):
        stub(path, name, "exit 1\n")
    script = checkout.root / "scripts" / "ensure-tools.sh"
    script.write_text(script.read_text().replace("\nlook\nif", '\nmissing=" something"\nif', 1))
    interrupted(script, path, log, WEIR_POLICY_RC=str(policy))
    assert not policy.exists()


def test_an_interrupted_download_leaves_nobody_who_counts(
    checkout: Checkout, tmp_path: Path
) -> None:
    path, log = tmp_path / "path", tmp_path / "begun"
    stub(path, "mvn", f'touch "{log}"; sleep 30\n')
    for jars in (ROOT / "tests").glob("*/jars"):
        shutil.copytree(jars, checkout.root / jars.relative_to(ROOT))
    interrupted(checkout.root / "scripts" / "ensure-kafka.sh", path, log)
