# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Runs the tests of a CMake preset; the last line is "N passed, N failed[, N skipped]"."""

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Totals(NamedTuple):
    passed: int
    failed: int
    skipped: int

    @classmethod
    def of(cls, report: Path) -> "Totals":
        """The totals of a report by ctest --output-junit; a disabled test counts as skipped."""
        suite = ElementTree.parse(report).getroot().attrib
        failed = int(suite["failures"])
        skipped = int(suite["skipped"]) + int(suite["disabled"])
        return cls(int(suite["tests"]) - failed - skipped, failed, skipped)

    def __str__(self) -> str:
        line = f"{self.passed} passed, {self.failed} failed"
        return f"{line}, {self.skipped} skipped" if self.skipped else line


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
        totals = Totals.of(report)
    print(totals, flush=True)
    return status or int(totals.failed > 0 or totals.passed == 0)


if __name__ == "__main__":
    sys.exit(main())
