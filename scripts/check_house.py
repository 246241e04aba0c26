# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Checks the rules for files that no formatter knows: licence line, length, nothing generated."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LICENCE = "Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0"
MAX_LINES = 800
MAX_BYTES = 500_000
SOURCES = {".h", ".cc", ".cu", ".py", ".cmake", ".sh"}
GENERATED = {".o", ".a", ".so", ".pyc", ".whl", ".safetensors", ".gch", ".ninja", ".log"}


def tracked_files(root: Path) -> list[Path]:
    """Files under version control, and new ones that are not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return [root / name for name in names.split("\0") if name and (root / name).is_file()]


def is_source(file: Path) -> bool:
    if file.name in {"CMakeLists.txt", "Makefile"} or file.suffix in SOURCES:
        return True
    return file.suffix == "" and file.read_bytes()[:2] == b"#!"


def problems(file: Path) -> list[str]:
    if file.suffix in GENERATED:
        return ["is generated, and must not be under version control"]
    found: list[str] = []
    if file.stat().st_size > MAX_BYTES:
        found.append(f"is larger than {MAX_BYTES} bytes")
    if is_source(file):
        lines = file.read_text().splitlines()
        if not any(LICENCE in line for line in lines[:2]):
            found.append(f"lacks the line '{LICENCE}' at its top")
        if len(lines) > MAX_LINES:
            found.append(f"has {len(lines)} lines; past {MAX_LINES} a file wants to be two")
    return found


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    files = tracked_files(root)
    found = [f"{file.relative_to(root)}: {text}" for file in files for text in problems(file)]
    print("\n".join(found) or f"{len(files)} files keep to the rules of the house.")
    return int(bool(found) or not files)


if __name__ == "__main__":
    sys.exit(main())
