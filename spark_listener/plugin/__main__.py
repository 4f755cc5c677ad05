"""``python -m spark_listener.plugin``: where the jar lies."""

from __future__ import annotations

import sys

from spark_listener.plugin import JAR


def main() -> int:
    """Prints the path; 1 where there is no jar."""
    if not JAR.is_file():
        sys.stderr.write(f"weir: {JAR}: not there; in a checkout `make plugin` compiles it\n")
        return 1
    sys.stdout.write(f"{JAR}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
