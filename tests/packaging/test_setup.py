"""`scripts/setup.sh`: does its work once, again when what it was made from changes, and repairs.

Real virtual environments; only pip is one that writes down what it was asked.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
