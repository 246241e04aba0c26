# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Runs the tests of a CMake preset; the last line is "N passed, N failed, N skipped"."""

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    if len(sys.argv) < 2:
        print("usage: run_tests.py PRESET [CTEST_OPTION...]", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "junit.xml"
        command = ["ctest", "--preset", *sys.argv[1:], "--output-junit", str(report)]
        status = subprocess.run(command, cwd=ROOT).returncode
        if not report.exists():
            print(f"ctest ran no test (exit code {status})", file=sys.stderr)
            return status or 1
        suite = ElementTree.parse(report).getroot()
    total, failed = int(suite.attrib["tests"]), int(suite.attrib["failures"])
    skipped = int(suite.attrib["skipped"]) + int(suite.attrib["disabled"])
    closing = f"{total - failed - skipped} passed, {failed} failed"
    print(closing + (f", {skipped} skipped" if skipped else ""), flush=True)
    return status or int(failed > 0 or total == 0)


if __name__ == "__main__":
    sys.exit(main())
